#include <fmt/chrono.h>
#include <fmt/format.h>

#include <array>

#include "api/json_text.h"
#include "api/ollama_request.h"
#include "api/ollama_response.h"
#include "api/prepare.h"
#include "api/routes.h"

namespace pagoda::api {
namespace {

constexpr std::string_view kNever = "2318-01-01T00:00:00Z";  // the served model stays loaded

std::string utc(int64_t unix_s) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<time_t>(unix_s)));
}

Json details_of(const Backend& backend) {
  const ModelCard& card = backend.card;
  Json details;
  details["parent_model"] = "";
  details["format"] = "gguf";
  details["family"] = card.family;
  details["families"] = Json::array({card.family});
  details["parameter_size"] = card.parameter_size;
  details["quantization_level"] = card.quantization;
  return details;
}

Json entry_of(const Backend& backend, const std::string& name) {
  Json entry;
  entry["name"] = entry["model"] = name;
  entry["size"] = backend.card.bytes;
  entry["digest"] = backend.card.digest;
  entry["details"] = details_of(backend);
  return entry;
}

Result<Reply> generate(OllamaRequest parsed, const RouteCall& call, bool chat) {
  const WriterFactory writer = chat ? make_ollama_chat_writer : make_ollama_generate_writer;
  if (parsed.loads_only) {
    Json json{{"model", call.backend.facts.names.front()}, {"created_at", utc_now()}};
    if (chat) {
      json["message"] = Json{{"role", "assistant"}, {"content", ""}};
    } else {
      json["response"] = "";
    }
    json["done"] = true;
    json["done_reason"] = "load";
    return Reply(json_response(json));
  }
  GenerationRequest& generation =
      std::visit([](auto& one) -> GenerationRequest& { return one.generation; }, parsed.request);
  PAGODA_TRY(auto needed, find_grammar(generation, call.backend));
  if (needed) return Reply(*std::move(needed));
  if (auto* request = std::get_if<ChatRequest>(&parsed.request)) {
    PAGODA_TRY(PreparedGeneration prepared, prepare_chat(std::move(*request), call.backend, call.seed, writer));
    return Reply(std::move(prepared));
  }
  PAGODA_TRY(PreparedGeneration prepared, prepare_completion(std::get<CompletionRequest>(std::move(parsed.request)),
                                                             call.backend, call.seed, writer));
  return Reply(std::move(prepared));
}

Result<Reply> ollama_generate(const RouteCall& call) {
  PAGODA_TRY(OllamaRequest parsed,
             parse_ollama_generate(call.request.body, call.backend.facts, call.backend.chat_template != nullptr));
  return generate(std::move(parsed), call, false);
}

Result<Reply> ollama_chat(const RouteCall& call) {
  PAGODA_TRY(OllamaRequest parsed, parse_ollama_chat(call.request.body, call.backend.facts));
  return generate(std::move(parsed), call, true);
}

Result<Reply> ollama_tags(const RouteCall& call) {
  Json json{{"models", Json::array()}};
  for (const std::string& name : call.backend.facts.names) {
    Json entry = entry_of(call.backend, name);
    entry["modified_at"] = utc(call.backend.facts.created_unix_s);
    json["models"].push_back(std::move(entry));
  }
  return Reply(json_response(json));
}

Result<Reply> ollama_ps(const RouteCall& call) {
  Json entry = entry_of(call.backend, call.backend.facts.names.front());
  entry["expires_at"] = kNever;
  entry["size_vram"] = 0;
  entry["context_length"] = call.backend.facts.max_model_len;
  return Reply(json_response(Json{{"models", Json::array({entry})}}));
}

Json capabilities_of(const Backend& backend) {
  Json list = Json::array({"completion"});
  if (backend.chat_template != nullptr && backend.chat_template_source.find("tools") != std::string::npos)
    list.push_back("tools");
  if (backend.answer_format != nullptr && !backend.answer_format->format.reasoning.open.empty())
    list.push_back("thinking");
  return list;
}

/// The body of a route that names a model and little else.
Result<Json> body_with_model(const RouteCall& call) {
  PAGODA_TRY(Json document, parse_json(call.request.body));
  PAGODA_TRY_STATUS(JsonField(document).object());
  PAGODA_TRY_STATUS(check_ollama_model(JsonField(document), call.backend.facts));
  return document;
}

Result<Reply> ollama_show(const RouteCall& call) {
  PAGODA_TRY(const Json document, body_with_model(call));
  const Backend& backend = call.backend;
  Json json;
  json["modelfile"] = fmt::format("FROM {}\n", backend.facts.names.front());
  json["parameters"] = "";
  json["template"] = backend.chat_template_source;
  json["details"] = details_of(backend);
  Json info;
  info["general.architecture"] = backend.card.family;
  info["general.parameter_count"] = backend.card.parameters;
  info[backend.card.family + ".context_length"] = backend.facts.max_model_len;
  info[backend.card.family + ".embedding_length"] = backend.card.embedding_width;
  info[backend.card.family + ".vocab_size"] = backend.facts.vocab_size;
  json["model_info"] = std::move(info);
  json["capabilities"] = capabilities_of(backend);
  json["modified_at"] = utc(backend.facts.created_unix_s);
  return Reply(json_response(json));
}

Result<Reply> ollama_version(const RouteCall& /*call*/) {
  return Reply(json_response(Json{{"version", PAGODA_VERSION}}));
}

/// What is served is there already; anything else is pulled by `pagoda pull`, not by a server that cannot load it.
Result<Reply> ollama_pull(const RouteCall& call) {
  PAGODA_TRY(const Json document, body_with_model(call));
  PAGODA_TRY(const bool stream, JsonField(document).get("stream").boolean_or(true));
  HttpResponse response = json_response(Json{{"status", "success"}});
  if (stream) {
    response.content_type = "application/x-ndjson";
    response.body = dump(Json{{"status", "pulling manifest"}}) + "\n" + response.body + "\n";
  }
  return Reply(std::move(response));
}

Result<Reply> ollama_delete(const RouteCall& call) {
  PAGODA_TRY(const Json document, body_with_model(call));
  return Error{Code::kInvalidRequest, "the served model cannot be deleted while it is served", "model"};
}

Result<Reply> ollama_root(const RouteCall& /*call*/) {
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.body = "Ollama is running";  // clients look for these words
  return Reply(std::move(response));
}

constexpr auto kOllama = Dialect::kOllama;
constexpr std::array kOllamaRoutes = {
    Route{"/", "GET", kOllama, ollama_root, false, true},
    Route{"/api/generate", "POST", kOllama, ollama_generate, true},
    Route{"/api/chat", "POST", kOllama, ollama_chat, true},
    Route{"/api/tags", "GET", kOllama, ollama_tags},
    Route{"/api/ps", "GET", kOllama, ollama_ps},
    Route{"/api/show", "POST", kOllama, ollama_show},
    Route{"/api/version", "GET", kOllama, ollama_version},
    Route{"/api/pull", "POST", kOllama, ollama_pull},
    Route{"/api/delete", "DELETE", kOllama, ollama_delete},
};

}  // namespace

std::span<const Route> ollama_routes() { return kOllamaRoutes; }

}  // namespace pagoda::api
