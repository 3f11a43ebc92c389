#include "api/anthropic_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/json_text.h"
#include "api/openai_fields.h"
#include "dialog/tool_set.h"

namespace pagoda::api {
namespace {

constexpr size_t kBlocksMax = 4096;

/// A string, or an array of text blocks joined.
Result<std::string> read_text_blocks(const JsonField& field) {
  if (field.is_string()) return field.string();
  if (!field.is_array()) return field.error("a string or an array of text blocks is required");
  PAGODA_TRY_STATUS(field.array(kBlocksMax));
  std::string text;
  for (size_t i = 0; i < field.size(); ++i) {
    const JsonField block = field.at(i);
    PAGODA_TRY(const std::string type, block.get("type").string());
    if (type != "text") return block.get("type").error("only \"text\" blocks are supported here");
    PAGODA_TRY(const std::string piece, block.get("text").string());
    if (!text.empty()) text += "\n";
    text += piece;
  }
  return text;
}

/// One turn of the user: its tool results, then its text.
Status read_user_turn(const JsonField& content, Json& messages) {
  if (content.is_string()) {
    messages.push_back(Json{{"role", "user"}, {"content", content.json()}});
    return ok_status();
  }
  PAGODA_TRY_STATUS(content.array(kBlocksMax));
  std::string text;
  bool has_text = false;
  for (size_t i = 0; i < content.size(); ++i) {
    const JsonField block = content.at(i);
    PAGODA_TRY_STATUS(block.object());
    PAGODA_TRY(const std::string type, block.get("type").string());
    if (type == "tool_result") {
      PAGODA_TRY(const std::string id, block.get("tool_use_id").string());
      std::string result;
      if (block.get("content").present()) {
        PAGODA_TRY(result, read_text_blocks(block.get("content")));
      }
      messages.push_back(Json{{"role", "tool"}, {"tool_call_id", id}, {"content", result}});
    } else if (type == "text") {
      PAGODA_TRY(const std::string piece, block.get("text").string());
      if (has_text) text += "\n";
      text += piece;
      has_text = true;
    } else {
      return block.get("type").error("only \"text\" and \"tool_result\" blocks are supported by this model");
    }
  }
  if (has_text || content.size() == 0) messages.push_back(Json{{"role", "user"}, {"content", text}});
  return ok_status();
}

Status read_assistant_turn(const JsonField& content, Json& messages) {
  Json message{{"role", "assistant"}};
  if (content.is_string()) {
    message["content"] = content.json();
    messages.push_back(std::move(message));
    return ok_status();
  }
  PAGODA_TRY_STATUS(content.array(kBlocksMax));
  std::string text, reasoning;
  for (size_t i = 0; i < content.size(); ++i) {
    const JsonField block = content.at(i);
    PAGODA_TRY_STATUS(block.object());
    PAGODA_TRY(const std::string type, block.get("type").string());
    if (type == "text") {
      PAGODA_TRY(const std::string piece, block.get("text").string());
      text += piece;
    } else if (type == "thinking") {
      PAGODA_TRY(const std::string piece, block.get("thinking").string());
      reasoning += piece;
    } else if (type == "tool_use") {
      PAGODA_TRY(const std::string id, block.get("id").string());
      PAGODA_TRY(const std::string name, block.get("name").string());
      PAGODA_TRY_STATUS(block.get("input").object());
      const Json function{{"name", name}, {"arguments", dump(block.get("input").json())}};
      message["tool_calls"].push_back(Json{{"id", id}, {"type", "function"}, {"function", function}});
    } else if (type != "redacted_thinking") {
      return block.get("type").error("\"text\", \"thinking\" or \"tool_use\" is required");
    }
  }
  message["content"] = text;
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  messages.push_back(std::move(message));
  return ok_status();
}

Status read_turns(const JsonField& root, ChatRequest& request) {
  request.messages = Json::array();
  const JsonField system = root.get("system"), turns = root.get("messages");
  if (system.present()) {
    PAGODA_TRY(const std::string text, read_text_blocks(system));
    if (!text.empty()) request.messages.push_back(Json{{"role", "system"}, {"content", text}});
  }
  if (!turns.is_array() || turns.size() == 0) return turns.error("an array of at least one message is required");
  std::string role;
  for (size_t i = 0; i < turns.size(); ++i) {
    const JsonField turn = turns.at(i);
    PAGODA_TRY_STATUS(turn.object());
    PAGODA_TRY(role, turn.get("role").string());
    if (role == "user") {
      PAGODA_TRY_STATUS(read_user_turn(turn.get("content"), request.messages));
    } else if (role == "assistant") {
      PAGODA_TRY_STATUS(read_assistant_turn(turn.get("content"), request.messages));
    } else if (role == "system") {
      PAGODA_TRY(const std::string text, read_text_blocks(turn.get("content")));
      request.messages.push_back(Json{{"role", "system"}, {"content", text}});
    } else {
      return turn.get("role").error("user or assistant is required");
    }
  }
  request.options.continue_final_message = role == "assistant" && !request.messages.back().contains("tool_calls");
  return ok_status();
}

Status read_anthropic_tools(const JsonField& root, ChatRequest& request) {
  const JsonField tools = root.get("tools"), choice = root.get("tool_choice");
  Json functions = Json::array();
  if (tools.present()) PAGODA_TRY_STATUS(tools.array(kToolsMax));
  for (size_t i = 0; i < tools.size(); ++i) {
    const JsonField tool = tools.at(i);
    PAGODA_TRY(const std::string name, tool.get("name").string());
    if (!tool.get("input_schema").present()) continue;
    PAGODA_TRY_STATUS(tool.get("input_schema").object());
    Json function{{"name", name}};
    if (tool.get("description").present()) {
      PAGODA_TRY(const std::string text, tool.get("description").string());
      function["description"] = text;
    }
    function["parameters"] = tool.get("input_schema").json();
    functions.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
  }
  std::string type = "auto";
  if (choice.present()) {
    PAGODA_TRY(type, choice.get("type").string());
    PAGODA_TRY(const bool one, choice.get("disable_parallel_tool_use").boolean_or(false));
    request.parallel_tool_calls = !one;
  }
  if (type == "none") return ok_status();
  if (type == "any" || type == "tool") {
    if (functions.empty()) return choice.get("type").error("it requires tools");
    request.tool_choice = ToolChoice::kRequired;
  } else if (type != "auto") {
    return choice.get("type").error("auto, any, tool or none is required");
  }
  if (type == "tool") {
    PAGODA_TRY(request.forced_tool, choice.get("name").string());
    if (!dialog::ToolSet(functions).has(request.forced_tool)) return choice.get("name").error("it is not among tools");
  } else if (type == "any" && functions.size() == 1) {
    PAGODA_TRY(request.forced_tool, JsonField(functions).at(0).get("function").get("name").string());
  }
  if (!functions.empty()) request.options.tools = std::move(functions);
  return ok_status();
}

Status read_anthropic_thinking(const JsonField& thinking, ChatRequest& request) {
  bool on = false;
  if (thinking.present()) {
    PAGODA_TRY(const std::string type, thinking.get("type").string());
    if (type != "enabled" && type != "adaptive" && type != "disabled")
      return thinking.get("type").error("enabled, adaptive or disabled is required");
    on = type != "disabled";
  }
  request.options.kwargs = Json{{"enable_thinking", on}};
  request.include_reasoning = on;
  return ok_status();
}

}  // namespace

Result<ChatRequest> parse_anthropic_request(std::string_view body, const ModelFacts& facts, bool counts_only) {
  PAGODA_TRY(const Json document, parse_json(body));
  const JsonField root(document);
  PAGODA_TRY_STATUS(root.object());
  PAGODA_TRY_STATUS(check_model(root, facts));
  ChatRequest request;
  PAGODA_TRY_STATUS(read_turns(root, request));
  PAGODA_TRY_STATUS(read_anthropic_tools(root, request));
  PAGODA_TRY_STATUS(read_anthropic_thinking(root.get("thinking"), request));
  if (counts_only) return request;
  PAGODA_TRY(request.generation, read_generation(root, facts));
  PAGODA_TRY(const int64_t max_tokens, root.get("max_tokens").integer(1, std::numeric_limits<int32_t>::max()));
  request.generation.max_tokens = static_cast<int32_t>(std::min<int64_t>(max_tokens, facts.max_model_len));
  const JsonField stops = root.get("stop_sequences");
  if (stops.present()) {
    PAGODA_TRY_STATUS(stops.array(kStopsMax));
    PAGODA_TRY(request.generation.stop, read_stops(stops));
  }
  const JsonField user = root.get("metadata").get("user_id");
  if (user.present()) {
    PAGODA_TRY(request.generation.user, user.string());
    if (std::ssize(request.generation.user) > kUserBytesMax)
      return user.error(fmt::format("a string of up to {} bytes is required", kUserBytesMax));
  }
  PAGODA_TRY_STATUS(finish_generation(root, request.generation, facts));
  return request;
}

}  // namespace pagoda::api
