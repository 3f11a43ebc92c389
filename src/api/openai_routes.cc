#include <array>

#include "api/openai_response.h"
#include "api/prepare.h"
#include "api/routes.h"
#include "api/token_routes.h"

namespace pagoda::api {
namespace {

Json model_card(const ModelFacts& facts, const std::string& id) {
  Json card;
  card["id"] = id;
  card["object"] = "model";
  card["created"] = facts.created_unix_s;
  card["owned_by"] = "pagoda";
  card["root"] = facts.names.front();
  card["parent"] = nullptr;
  card["max_model_len"] = facts.max_model_len;
  card["permission"] = Json::array();
  return card;
}

Result<Reply> models(const RouteCall& call) {
  const ModelFacts& facts = call.backend.facts;
  Json list;
  list["object"] = "list";
  list["data"] = Json::array();
  for (const std::string& name : facts.names) list["data"].push_back(model_card(facts, name));
  return Reply(json_response(list));
}

Result<Reply> one_model(const RouteCall& call) {
  const ModelFacts& facts = call.backend.facts;
  for (const std::string& name : facts.names) {
    if (name == call.id) return Reply(json_response(model_card(facts, name)));
  }
  return Error{Code::kNotFound, "no such model; /v1/models lists what is served", "model"};
}

Result<Reply> metrics_text(const RouteCall& call) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = call.backend.metrics->expose();
  return Reply(std::move(response));
}

Result<Reply> version(const RouteCall& /*call*/) { return Reply(json_response(Json{{"version", PAGODA_VERSION}})); }

Result<Reply> load(const RouteCall& call) {
  const scheduler::Scheduler::Load load = call.backend.scheduler->load();
  Json json;
  json["server_load"] = load.running + load.waiting;
  json["running"] = load.running;
  json["waiting"] = load.waiting;
  json["waiting_tokens"] = load.waiting_tokens;
  return Reply(json_response(json));
}

Result<Reply> tokenizer_facts(const RouteCall& call) { return Reply(json_response(tokenizer_info(call.backend))); }

Result<Reply> tokenize_route(const RouteCall& call) {
  PAGODA_TRY(const Json json, tokenize(call.request.body, call.backend));
  return Reply(json_response(json));
}

Result<Reply> detokenize_route(const RouteCall& call) {
  PAGODA_TRY(const Json json, detokenize(call.request.body, call.backend));
  return Reply(json_response(json));
}

Result<Reply> reset_prefix_cache(const RouteCall& call) {
  call.backend.scheduler->reset_prefix_cache();  // its body says nothing we could heed
  return Reply(json_response(Json{{"success", true}}));
}

Result<Reply> chat(const RouteCall& call) {
  PAGODA_TRY(ChatRequest request, parse_chat_request(call.request.body, call.backend.facts));
  PAGODA_TRY(auto needed, find_grammar(request.generation, call.backend));
  if (needed) return Reply(*std::move(needed));
  PAGODA_TRY(PreparedGeneration prepared, prepare_chat(std::move(request), call.backend, call.seed, make_chat_writer));
  return Reply(std::move(prepared));
}

Result<Reply> completions(const RouteCall& call) {
  PAGODA_TRY(CompletionRequest request, parse_completion_request(call.request.body, call.backend.facts));
  PAGODA_TRY(auto needed, find_grammar(request.generation, call.backend));
  if (needed) return Reply(*std::move(needed));
  PAGODA_TRY(PreparedGeneration prepared,
             prepare_completion(std::move(request), call.backend, call.seed, make_completion_writer));
  return Reply(std::move(prepared));
}

constexpr auto kOpenAI = Dialect::kOpenAI;
constexpr std::array kOpenAIRoutes = {
    Route{"/health", "GET", kOpenAI, nullptr, false, true},
    Route{"/ready", "GET", kOpenAI, nullptr},
    Route{"/version", "GET", kOpenAI, version},
    Route{"/metrics", "GET", kOpenAI, metrics_text},
    Route{"/load", "GET", kOpenAI, load},
    Route{"/v1/models", "GET", kOpenAI, models},
    Route{"/v1/models/{id}", "GET", kOpenAI, one_model},
    Route{"/tokenizer_info", "GET", kOpenAI, tokenizer_facts},
    Route{"/v1/chat/completions", "POST", kOpenAI, chat, true},
    Route{"/v1/completions", "POST", kOpenAI, completions, true},
    Route{"/tokenize", "POST", kOpenAI, tokenize_route},
    Route{"/detokenize", "POST", kOpenAI, detokenize_route},
    Route{"/reset_prefix_cache", "POST", kOpenAI, reset_prefix_cache},
};

}  // namespace

std::span<const Route> openai_routes() { return kOpenAIRoutes; }

}  // namespace pagoda::api
