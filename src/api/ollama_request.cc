#include "api/ollama_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/json_text.h"
#include "api/openai_fields.h"
#include "api/sampler_fields.h"
#include "api/structured_fields.h"

namespace pagoda::api {
namespace {

constexpr size_t kOllamaMessagesMax = 4096;

Status read_ollama_sampling(const JsonField& options, sampling::SamplingParams& params) {
  PAGODA_TRY(const double temperature, options.get("temperature").number_or(0.8, 0, 100));
  PAGODA_TRY(const int64_t top_k, options.get("top_k").integer_or(40, -1, std::numeric_limits<int32_t>::max()));
  PAGODA_TRY(const double top_p, options.get("top_p").number_or(0.9, 0, 1));
  PAGODA_TRY(const double min_p, options.get("min_p").number_or(0, 0, 1));
  PAGODA_TRY(const double repeat, options.get("repeat_penalty").number_or(1, 0.01, 10));
  PAGODA_TRY(const double presence, options.get("presence_penalty").number_or(0, -2, 2));
  PAGODA_TRY(const double frequency, options.get("frequency_penalty").number_or(0, -2, 2));
  params.temperature = static_cast<float>(temperature);
  params.top_k = static_cast<int32_t>(std::max<int64_t>(top_k, 0));
  params.top_p = static_cast<float>(top_p);
  params.min_p = static_cast<float>(min_p);
  params.repetition_penalty = static_cast<float>(repeat);
  params.presence_penalty = static_cast<float>(presence);
  params.frequency_penalty = static_cast<float>(frequency);
  return ok_status();
}

Result<GenerationRequest> read_ollama_generation(const JsonField& root, const ModelFacts& facts) {
  GenerationRequest request;
  const JsonField options = root.get("options");
  if (options.present()) PAGODA_TRY_STATUS(options.object());
  PAGODA_TRY_STATUS(read_ollama_sampling(options, request.sampling));
  PAGODA_TRY(const int64_t seed, options.get("seed").integer_or(-1, std::numeric_limits<int64_t>::min(),
                                                                std::numeric_limits<int64_t>::max()));
  PAGODA_TRY_STATUS(read_extra_samplers(options, facts, 64, request));
  request.seeded = seed > 0;
  request.sampling.seed = static_cast<uint64_t>(seed);
  PAGODA_TRY(const int64_t length, options.get("num_predict").integer_or(-1, -2, std::numeric_limits<int32_t>::max()));
  if (length >= 0) request.max_tokens = static_cast<int32_t>(std::min<int64_t>(length, facts.max_model_len));
  PAGODA_TRY(request.stop, read_stops(options.get("stop")));
  PAGODA_TRY(request.stream, root.get("stream").boolean_or(true));
  PAGODA_TRY(const bool logprobs, root.get("logprobs").boolean_or(false));
  PAGODA_TRY(const int64_t top, root.get("top_logprobs").integer_or(0, 0, kLogprobsMax));
  if (logprobs) request.sampling.logprobs = static_cast<int32_t>(top);
  PAGODA_TRY(request.structure, read_ollama_format(root.get("format")));
  return request;
}

/// Present and not "", [] or {}.
bool holds_something(const JsonField& field) {
  if (!field.present()) return false;
  if (field.is_string()) return field.json() != "";
  return !field.json().is_structured() || field.size() > 0;
}

Status refuse_ollama(const JsonField& root, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (holds_something(root.get(name)))
      return Error{Code::kInvalidRequest, fmt::format("{} is not supported by this server", name), name};
  }
  return ok_status();
}

Status read_think(const JsonField& think, ChatRequest& request) {
  if (!think.present()) return ok_status();
  if (think.is_string()) {
    request.options.kwargs = Json{{"reasoning_effort", think.json()}, {"enable_thinking", true}};
    return ok_status();
  }
  PAGODA_TRY(request.include_reasoning, think.boolean());
  request.options.kwargs = Json{{"enable_thinking", request.include_reasoning}};
  return ok_status();
}

/// Ollama's calls have arguments as objects and no ids: results follow in the order of the calls.
Result<Json> read_ollama_calls(const JsonField& calls, int32_t& next_id) {
  PAGODA_TRY_STATUS(calls.array(kToolsMax));
  Json list = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    const JsonField function = calls.at(i).get("function");
    PAGODA_TRY(const std::string name, function.get("name").string());
    const JsonField arguments = function.get("arguments");
    Json inner{{"name", name}, {"arguments", "{}"}};
    if (arguments.present())
      inner["arguments"] = arguments.is_string() ? arguments.json() : Json(dump(arguments.json()));
    std::string id = fmt::format("call{:05}", next_id++);
    if (calls.at(i).get("id").present()) {
      PAGODA_TRY(id, calls.at(i).get("id").string());
    }
    list.push_back(Json{{"id", id}, {"type", "function"}, {"function", std::move(inner)}});
  }
  return list;
}

Result<Json> read_ollama_message(const JsonField& message, int32_t& next_id, int32_t& next_result) {
  PAGODA_TRY_STATUS(message.object());
  PAGODA_TRY(const std::string role, message.get("role").string());
  if (role != "system" && role != "user" && role != "assistant" && role != "tool")
    return message.get("role").error("system, user, assistant or tool is required");
  if (holds_something(message.get("images"))) return message.get("images").error("this model reads no images");
  Json out{{"role", role}, {"content", ""}};
  if (message.get("content").present()) {
    PAGODA_TRY(out["content"], message.get("content").string());
  }
  if (message.get("thinking").present()) {
    PAGODA_TRY(out["reasoning_content"], message.get("thinking").string());
  }
  if (holds_something(message.get("tool_calls"))) {
    PAGODA_TRY(out["tool_calls"], read_ollama_calls(message.get("tool_calls"), next_id));
  }
  if (role != "tool") return out;
  if (message.get("tool_name").present()) {
    PAGODA_TRY(out["name"], message.get("tool_name").string());
  }
  out["tool_call_id"] = fmt::format("call{:05}", next_result++);
  if (message.get("tool_call_id").present()) {
    PAGODA_TRY(out["tool_call_id"], message.get("tool_call_id").string());
  }
  return out;
}

Status read_ollama_messages(const JsonField& messages, ChatRequest& request) {
  request.messages = Json::array();
  if (!messages.present()) return ok_status();
  PAGODA_TRY_STATUS(messages.array(kOllamaMessagesMax));
  int32_t next_id = 0, next_result = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    PAGODA_TRY(Json message, read_ollama_message(messages.at(i), next_id, next_result));
    request.messages.push_back(std::move(message));
  }
  return ok_status();
}

}  // namespace

Status check_ollama_model(const JsonField& root, const ModelFacts& facts) {
  const JsonField model = root.get("model").present() ? root.get("model") : root.get("name");
  PAGODA_TRY(std::string name, model.string());
  constexpr std::string_view kLatest = ":latest";
  const auto served = [&](const std::string& one) {
    return std::find(facts.names.begin(), facts.names.end(), one) != facts.names.end();
  };
  if (served(name) || served(name + std::string(kLatest))) return ok_status();
  if (name.ends_with(kLatest) && served(name.substr(0, name.size() - kLatest.size()))) return ok_status();
  return Error{Code::kNotFound,
               fmt::format("model '{}' not found, this server serves '{}'",
                           name.size() > 60 ? name.substr(0, 60) + "..." : name, facts.names.front()),
               "model"};
}

Result<OllamaRequest> parse_ollama_chat(std::string_view body, const ModelFacts& facts) {
  PAGODA_TRY(const Json document, parse_json(body));
  const JsonField root(document);
  PAGODA_TRY_STATUS(root.object());
  PAGODA_TRY_STATUS(check_ollama_model(root, facts));
  ChatRequest request;
  PAGODA_TRY(request.generation, read_ollama_generation(root, facts));
  PAGODA_TRY_STATUS(read_ollama_messages(root.get("messages"), request));
  PAGODA_TRY_STATUS(read_function_tools(root.get("tools"), request));
  PAGODA_TRY_STATUS(read_think(root.get("think"), request));
  const bool empty = request.messages.empty();
  return OllamaRequest{std::move(request), empty};
}

Result<OllamaRequest> parse_ollama_generate(std::string_view body, const ModelFacts& facts, bool has_template) {
  PAGODA_TRY(const Json document, parse_json(body));
  const JsonField root(document);
  PAGODA_TRY_STATUS(root.object());
  PAGODA_TRY_STATUS(check_ollama_model(root, facts));
  PAGODA_TRY_STATUS(refuse_ollama(root, {"images", "context", "template", "suffix"}));
  PAGODA_TRY(GenerationRequest generation, read_ollama_generation(root, facts));
  std::string prompt;
  if (root.get("prompt").present()) {
    PAGODA_TRY(prompt, root.get("prompt").string());
  }
  PAGODA_TRY(const bool raw, root.get("raw").boolean_or(false));
  if (raw || !has_template) {
    CompletionRequest request;
    request.generation = std::move(generation);
    request.prompts.emplace_back(prompt);
    return OllamaRequest{std::move(request), prompt.empty()};
  }
  ChatRequest request;
  request.generation = std::move(generation);
  request.messages = Json::array();
  if (root.get("system").present()) {
    PAGODA_TRY(const std::string system, root.get("system").string());
    if (!system.empty()) request.messages.push_back(Json{{"role", "system"}, {"content", system}});
  }
  request.messages.push_back(Json{{"role", "user"}, {"content", prompt}});
  PAGODA_TRY_STATUS(read_think(root.get("think"), request));
  return OllamaRequest{std::move(request), prompt.empty()};
}

}  // namespace pagoda::api
