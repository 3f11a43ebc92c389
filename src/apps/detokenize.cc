#include <fmt/format.h>

#include "apps/exit_code.h"
#include "apps/json_lines.h"
#include "apps/loaded_model.h"
#include "apps/verbs.h"

namespace pagoda::apps {
namespace {

struct Arguments {
  std::string model;
  std::vector<TokenId> ids;
  bool lines = false;
};

Result<std::string> detokenize(const text::Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (!tokenizer.valid(ids[i]))
      return Error{Code::kInvalidRequest, fmt::format("id {} at {} is not in [0, {})", ids[i], i, tokenizer.size())};
  return tokenizer.decode(ids, /*skip_special=*/false);
}

Result<nlohmann::json> detokenize_line(const text::Tokenizer& tokenizer, const nlohmann::json& line) {
  if (!line.is_array())
    return Error{Code::kInvalidRequest, fmt::format("a line must be an array of ids, got {}", line.type_name())};
  std::vector<TokenId> ids;
  for (const nlohmann::json& id : line) {
    // Out of range as an integer of any width is out of range as an id.
    const bool fits = id.is_number_integer() && id >= 0 && id < tokenizer.size();
    if (!fits)
      return Error{Code::kInvalidRequest, fmt::format("element {} is {}, must be an integer in [0, {})", ids.size(),
                                                      id.dump(), tokenizer.size())};
    ids.push_back(id.get<TokenId>());
  }
  PAGODA_TRY(std::string text, detokenize(tokenizer, ids));
  return nlohmann::json(std::move(text));
}

int run_detokenize(const Arguments& arguments) {
  if (arguments.lines == !arguments.ids.empty()) {
    fmt::print(stderr, "pagoda detokenize: give either IDS or --jsonl\n");
    return kUsage;
  }
  const auto model = open_model(arguments.model);
  if (!model.ok()) return fail("detokenize", model.error());
  const text::Tokenizer& tokenizer = *model.value().tokenizer;
  if (arguments.lines)
    return run_json_lines([&](const nlohmann::json& line) { return detokenize_line(tokenizer, line); });
  const auto text = detokenize(tokenizer, arguments.ids);
  if (!text.ok()) return fail("detokenize", text.error());
  fmt::print("{}\n", text.value());
  return kDone;
}

}  // namespace

void add_detokenize(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("detokenize", "Turn token ids into text, control tokens spelled out");
  auto arguments = std::make_shared<Arguments>();
  verb->add_option("MODEL", arguments->model, "a catalogue name, a .gguf file (a vocabulary is enough), or a folder")
      ->required();
  verb->add_option("IDS", arguments->ids, "token ids");
  verb->add_flag(
      "--jsonl", arguments->lines,
      "read lines of JSON from standard input, each an array of ids; print a JSON string for each, or {\"error\"}");
  verb->footer(
      "Examples:\n  pagoda detokenize smollm2:135m 19556 905\n"
      "  echo '[19556, 905]' | pagoda detokenize smollm2:135m --jsonl\nExit: 0 done, 1 no such model or id, 2 usage");
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return run_detokenize(*arguments); }; });
}

}  // namespace pagoda::apps
