#include <array>

#include "api/anthropic_request.h"
#include "api/anthropic_response.h"
#include "api/prepare.h"
#include "api/routes.h"

namespace pagoda::api {
namespace {

Result<Reply> anthropic_messages(const RouteCall& call) {
  PAGODA_TRY(ChatRequest request, parse_anthropic_request(call.request.body, call.backend.facts, false));
  PAGODA_TRY(auto needed, find_grammar(request.generation, call.backend));
  if (needed) return Reply(*std::move(needed));
  PAGODA_TRY(PreparedGeneration prepared,
             prepare_chat(std::move(request), call.backend, call.seed, make_anthropic_writer));
  return Reply(std::move(prepared));
}

Result<Reply> anthropic_count_tokens(const RouteCall& call) {
  PAGODA_TRY(const ChatRequest request, parse_anthropic_request(call.request.body, call.backend.facts, true));
  PAGODA_TRY(const std::vector<TokenId> ids, conversation_ids(request, request.add_special_tokens, call.backend));
  return Reply(json_response(Json{{"input_tokens", ids.size()}}));
}

constexpr std::array kAnthropicRoutes = {
    Route{"/v1/messages", "POST", Dialect::kAnthropic, anthropic_messages, true},
    Route{"/v1/messages/count_tokens", "POST", Dialect::kAnthropic, anthropic_count_tokens},
};

}  // namespace

std::span<const Route> anthropic_routes() { return kAnthropicRoutes; }

}  // namespace pagoda::api
