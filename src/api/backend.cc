#include "api/backend.h"

namespace pagoda::api {

Result<std::optional<GrammarNeeded>> find_grammar(GenerationRequest& generation, const Backend& backend) {
  if (!generation.structure) return std::optional<GrammarNeeded>();
  if (backend.grammars == nullptr)
    return Error{Code::kInvalidRequest, "structured answers are not supported by this server", ""};
  std::optional<GrammarCache::Compiled> compiled = backend.grammars->find(*generation.structure);
  if (!compiled) return std::optional<GrammarNeeded>(GrammarNeeded{*generation.structure, backend.grammars});
  if (!compiled->ok()) {
    Error error = compiled->error();
    error.code = Code::kInvalidRequest;  // whatever is wrong with it, another request must be written
    return error;
  }
  generation.grammar = std::move(*compiled).take();
  return std::optional<GrammarNeeded>();
}

}  // namespace pagoda::api
