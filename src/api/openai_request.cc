#include "api/openai_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/openai_fields.h"

namespace pagoda::api {
namespace {

constexpr std::array kRoles = {"system", "developer", "user", "assistant", "tool", "function"};
constexpr int32_t kCompletionTokensDefault = 16;

Status check_content(const JsonField& message, const std::string& role) {
  const JsonField content = message.get("content");
  if (!content.present()) {
    if (role == "assistant") return ok_status();  // a turn that only called tools
    return content.error("a string or an array of text parts is required");
  }
  if (content.is_string()) return ok_status();
  if (!content.is_array()) return content.error("a string or an array of text parts is required");
  for (size_t i = 0; i < content.size(); ++i) {
    const JsonField part = content.at(i);
    PAGODA_TRY_STATUS(part.object());
    PAGODA_TRY(const std::string type, part.get("type").string());
    if (type != "text") return part.get("type").error("only \"text\" parts are supported by this model");
    PAGODA_TRY(const std::string text, part.get("text").string());
  }
  return ok_status();
}

Result<Json> read_messages(const JsonField& messages) {
  if (!messages.is_array() || messages.size() == 0)
    return messages.error("an array of at least one message is required");
  for (size_t i = 0; i < messages.size(); ++i) {
    const JsonField message = messages.at(i);
    PAGODA_TRY_STATUS(message.object());
    PAGODA_TRY(const std::string role, message.get("role").string());
    if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
      return message.get("role").error("system, developer, user, assistant, tool or function is required");
    }
    PAGODA_TRY_STATUS(check_content(message, role));
    const JsonField calls = message.get("tool_calls");
    if (calls.present()) PAGODA_TRY_STATUS(calls.array(kToolsMax));
    for (size_t c = 0; c < calls.size(); ++c) PAGODA_TRY_STATUS(calls.at(c).object());
  }
  Json checked = messages.json();
  for (Json& message : checked) {
    if (message["role"] == "developer") message["role"] = "system";  // templates know only the older name
  }
  return checked;
}

Status read_template_options(const JsonField& root, ChatRequest& request) {
  PAGODA_TRY(request.options.continue_final_message, root.get("continue_final_message").boolean_or(false));
  PAGODA_TRY(request.options.add_generation_prompt,
             root.get("add_generation_prompt").boolean_or(!request.options.continue_final_message));
  if (request.options.continue_final_message && request.options.add_generation_prompt) {
    return root.get("add_generation_prompt").error("it cannot go with continue_final_message");
  }
  PAGODA_TRY(request.add_special_tokens, root.get("add_special_tokens").boolean_or(false));
  const JsonField kwargs = root.get("chat_template_kwargs");
  Json variables = Json::object();
  if (kwargs.present()) {
    PAGODA_TRY_STATUS(kwargs.object());
    variables = kwargs.json();
  }
  for (const char* name : {"reasoning_effort", "documents"}) {
    if (root.get(name).present()) variables[name] = root.get(name).json();
  }
  if (!variables.empty()) request.options.kwargs = std::move(variables);
  return ok_status();
}

Result<Json> function_tools(const JsonField& tools) {
  Json functions = Json::array();
  if (!tools.present()) return functions;
  PAGODA_TRY_STATUS(tools.array(kToolsMax));
  for (size_t i = 0; i < tools.size(); ++i) {
    const JsonField tool = tools.at(i);
    PAGODA_TRY_STATUS(tool.object());
    const JsonField type = tool.get("type"), function = tool.get("function");
    if (type.present()) {
      PAGODA_TRY(const std::string name, type.string());
      if (name != "function") continue;
    }
    PAGODA_TRY_STATUS(function.object());
    PAGODA_TRY(const std::string name, function.get("name").string());
    if (name.empty()) return function.get("name").error("a name of at least 1 character is required");
    if (function.get("parameters").present()) PAGODA_TRY_STATUS(function.get("parameters").object());
    functions.push_back(tool.json());
  }
  return functions;
}

bool has_tool(const Json& tools, const std::string& name) {
  return std::any_of(tools.begin(), tools.end(), [&](const Json& tool) { return tool["function"]["name"] == name; });
}

/// "none", "auto", "required" or {"type": "function", "function": {"name"}}.
Status read_tool_choice(const JsonField& choice, const Json& tools, ChatRequest& request) {
  if (!choice.present()) return ok_status();
  if (choice.is_object()) {
    const JsonField name = choice.get("function").get("name");
    PAGODA_TRY(request.forced_tool, name.string());
    if (!has_tool(tools, request.forced_tool)) return name.error("it is not among tools");
    request.tool_choice = ToolChoice::kRequired;
    return ok_status();
  }
  PAGODA_TRY(const std::string name, choice.string());
  if (name == "none") request.tool_choice = ToolChoice::kNone;
  if (name == "required" || name == "any") request.tool_choice = ToolChoice::kRequired;
  if (name != "none" && name != "auto" && request.tool_choice != ToolChoice::kRequired)
    return choice.error("\"none\", \"auto\", \"required\" or an object is required");
  if (request.tool_choice == ToolChoice::kRequired && tools.empty()) return choice.error("it requires tools");
  if (request.tool_choice == ToolChoice::kRequired && tools.size() == 1) {
    PAGODA_TRY(request.forced_tool, JsonField(tools).at(0).get("function").get("name").string());
  }
  return ok_status();
}

Status read_tools(const JsonField& root, ChatRequest& request) {
  PAGODA_TRY(Json tools, function_tools(root.get("tools")));
  PAGODA_TRY_STATUS(read_tool_choice(root.get("tool_choice"), tools, request));
  PAGODA_TRY(request.parallel_tool_calls, root.get("parallel_tool_calls").boolean_or(true));
  PAGODA_TRY(request.include_reasoning, root.get("include_reasoning").boolean_or(true));
  PAGODA_TRY(request.split_reasoning, root.get("separate_reasoning").boolean_or(true));
  if (request.tool_choice != ToolChoice::kNone && !tools.empty()) request.options.tools = std::move(tools);
  return ok_status();
}

Result<Json> parse_object(std::string_view body) {
  PAGODA_TRY(Json document, parse_json(body));
  PAGODA_TRY_STATUS(JsonField(document).object());
  return document;
}

Result<ChatRequest> read_conversation(const JsonField& root) {
  ChatRequest request;
  PAGODA_TRY(request.messages, read_messages(root.get("messages")));
  PAGODA_TRY_STATUS(read_template_options(root, request));
  PAGODA_TRY_STATUS(read_tools(root, request));
  return request;
}

Result<Prompt> read_one_prompt(const JsonField& prompt, const ModelFacts& facts) {
  if (prompt.is_array()) {
    PAGODA_TRY(std::vector<TokenId> ids, prompt.integers(0, facts.vocab_size - 1, kIdsMax));
    return Prompt(std::move(ids));
  }
  PAGODA_TRY(std::string text, prompt.string());
  return Prompt(std::move(text));
}

Result<std::vector<Prompt>> read_prompts(const JsonField& prompt, const ModelFacts& facts) {
  std::vector<Prompt> prompts;
  if (!prompt.is_string() && !prompt.is_array()) {
    return prompt.error("a string, an array of token ids, or an array of either is required");
  }
  if (prompt.is_string() || (prompt.size() > 0 && prompt.at(0).is_number())) {
    PAGODA_TRY(Prompt one, read_one_prompt(prompt, facts));
    prompts.push_back(std::move(one));
    return prompts;
  }
  if (prompt.size() == 0) return prompt.error("at least one prompt is required");
  PAGODA_TRY_STATUS(prompt.array(kPromptsMax));
  for (size_t i = 0; i < prompt.size(); ++i) {
    PAGODA_TRY(Prompt one, read_one_prompt(prompt.at(i), facts));
    prompts.push_back(std::move(one));
  }
  return prompts;
}

}  // namespace

Status read_function_tools(const JsonField& tools, ChatRequest& request) {
  PAGODA_TRY(Json functions, function_tools(tools));
  if (!functions.empty()) request.options.tools = std::move(functions);
  return ok_status();
}

Result<ChatRequest> parse_chat_request(std::string_view body, const ModelFacts& facts) {
  PAGODA_TRY(const Json document, parse_object(body));
  const JsonField root(document);
  PAGODA_TRY_STATUS(check_model(root, facts));
  PAGODA_TRY_STATUS(refuse_unsupported(root, true));
  PAGODA_TRY(ChatRequest request, read_conversation(root));
  PAGODA_TRY(request.generation, read_generation(root, facts));
  PAGODA_TRY(const bool logprobs, root.get("logprobs").boolean_or(false));
  PAGODA_TRY(const int64_t top, root.get("top_logprobs").integer_or(0, 0, kLogprobsMax));
  if (top > 0 && !logprobs) return root.get("top_logprobs").error("it requires logprobs to be true");
  if (logprobs) request.generation.sampling.logprobs = static_cast<int32_t>(top);
  const JsonField newer = root.get("max_completion_tokens");
  const JsonField length = newer.present() ? newer : root.get("max_tokens");
  if (length.present()) {
    PAGODA_TRY(const int64_t max_tokens, length.integer(1, facts.max_model_len));
    request.generation.max_tokens = static_cast<int32_t>(max_tokens);
  }
  PAGODA_TRY_STATUS(finish_generation(root, request.generation, facts));
  return request;
}

Result<CompletionRequest> parse_completion_request(std::string_view body, const ModelFacts& facts) {
  PAGODA_TRY(const Json document, parse_object(body));
  const JsonField root(document);
  PAGODA_TRY_STATUS(check_model(root, facts));
  PAGODA_TRY_STATUS(refuse_unsupported(root, false));
  CompletionRequest request;
  PAGODA_TRY(request.generation, read_generation(root, facts));
  PAGODA_TRY(request.prompts, read_prompts(root.get("prompt"), facts));
  if (const int64_t sequences = std::ssize(request.prompts) * request.generation.n; sequences > kSequencesMax) {
    return root.get("n").error(
        fmt::format("{} prompts times n are {} sequences, limit {}", request.prompts.size(), sequences, kSequencesMax));
  }
  PAGODA_TRY(request.echo, root.get("echo").boolean_or(false));
  PAGODA_TRY(request.add_special_tokens, root.get("add_special_tokens").boolean_or(true));
  PAGODA_TRY(request.parse_special, root.get("parse_special").boolean_or(true));
  PAGODA_TRY(const int64_t logprobs, root.get("logprobs").integer_or(-1, 0, kLogprobsMax));
  request.generation.sampling.logprobs = static_cast<int32_t>(logprobs);
  PAGODA_TRY(const int64_t max_tokens,
             root.get("max_tokens")
                 .integer_or(std::min(kCompletionTokensDefault, facts.max_model_len), 0, facts.max_model_len));
  request.generation.max_tokens = static_cast<int32_t>(max_tokens);
  PAGODA_TRY_STATUS(finish_generation(root, request.generation, facts));
  return request;
}

Result<TokenizeRequest> parse_tokenize_request(std::string_view body, const ModelFacts& facts) {
  PAGODA_TRY(const Json document, parse_object(body));
  const JsonField root(document);
  PAGODA_TRY_STATUS(check_model(root, facts));
  TokenizeRequest request;
  const bool chat = root.get("messages").present();
  if (chat) {
    PAGODA_TRY(request.input, read_conversation(root));
  } else {
    PAGODA_TRY(request.input, root.get("prompt").string());
  }
  PAGODA_TRY(request.add_special_tokens, root.get("add_special_tokens").boolean_or(!chat));
  PAGODA_TRY(request.parse_special, root.get("parse_special").boolean_or(true));
  PAGODA_TRY(request.return_token_strs, root.get("return_token_strs").boolean_or(false));
  return request;
}

Result<DetokenizeRequest> parse_detokenize_request(std::string_view body, const ModelFacts& facts) {
  PAGODA_TRY(const Json document, parse_object(body));
  const JsonField root(document);
  PAGODA_TRY_STATUS(check_model(root, facts));
  DetokenizeRequest request;
  PAGODA_TRY(request.tokens, root.get("tokens").integers(0, facts.vocab_size - 1, kIdsMax));
  PAGODA_TRY(request.skip_special_tokens, root.get("skip_special_tokens").boolean_or(false));
  return request;
}

}  // namespace pagoda::api
