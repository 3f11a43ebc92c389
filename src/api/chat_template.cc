#include "api/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "api/conversation_repair.h"
#include "api/json_text.h"
#include "dialog/format.h"
#include "jinja/template.h"
#include "jinja/value_json.h"

namespace pagoda::api {
namespace {

/// How a template wants what OpenAI's clients send in another form. Found out by rendering small conversations.
struct Habits {
  bool reads_parts = false;      // content may stay a list of parts
  bool null_content = false;     // content beside tool calls may stay null
  bool object_arguments = true;  // tool-call arguments as an object, not as JSON text
  bool knows_developer = false;  // else that role is the system's
  bool short_ids = false;        // ids of calls must be nine letters and digits
};

constexpr std::string_view kMarker = "pagodamarker";

Json probe_parts() {
  return Json::array({{{"role", "user"}, {"content", Json::array({{{"type", "text"}, {"text", kMarker}}})}}});
}

Json probe_call(bool null_content, bool object_arguments) {
  const Json arguments = {{"key", kMarker}};
  const Json call = {
      {"id", "call12345"},
      {"type", "function"},
      {"function", {{"name", "pagodacall"}, {"arguments", object_arguments ? arguments : Json(dump(arguments))}}}};
  return Json::array(
      {{{"role", "user"}, {"content", "u"}},
       {{"role", "assistant"}, {"content", null_content ? Json() : Json("")}, {"tool_calls", Json::array({call})}},
       {{"role", "tool"}, {"tool_call_id", "call12345"}, {"name", "pagodacall"}, {"content", "r"}}});
}

Json probe_tools() {
  const Json parameters = {{"type", "object"}, {"properties", {{"key", {{"type", "string"}}}}}};
  return Json::array({{{"type", "function"},
                       {"function", {{"name", "pagodacall"}, {"description", "d"}, {"parameters", parameters}}}}});
}

bool is_known_role(std::string_view role) {
  constexpr std::array<std::string_view, 6> kRoles{"system", "developer", "user", "assistant", "tool", "function"};
  return std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end();
}

// A tool call's arguments, which may be absent; null if the call is malformed.
Json* arguments_of(Json& call) {
  if (!call.is_object()) return nullptr;
  const auto function = call.find("function");
  Json& holder = function != call.end() && function->is_object() ? *function : call;
  const auto arguments = holder.find("arguments");
  return arguments != holder.end() ? &*arguments : nullptr;
}

void repair_arguments(Json& call, bool as_object) {
  Json* arguments = arguments_of(call);
  if (arguments == nullptr) return;
  if (as_object && arguments->is_string()) {
    const std::string& text = *arguments->get_ptr<const Json::string_t*>();
    // What is no JSON object stays text: the template decides, and its error tells.
    if (!jinja::from_json(text).ok()) return;
    Json parsed = Json::parse(text, nullptr, false);
    if (parsed.is_object()) *arguments = std::move(parsed);
  } else if (!as_object && arguments->is_object()) {
    *arguments = dump(*arguments);
  }
}

// The parts' texts, a line each.
std::string joined_parts(const Json& parts) {
  std::string text;
  for (const Json& part : parts) {
    const auto found = part.is_object() ? part.find("text") : part.end();
    const auto* piece = part.is_string()                          ? part.get_ptr<const Json::string_t*>()
                        : part.is_object() && found != part.end() ? found->get_ptr<const Json::string_t*>()
                                                                  : nullptr;
    if (piece == nullptr) continue;
    if (!text.empty()) text += '\n';
    text += *piece;
  }
  return text;
}

void repair_message(Json& message, const Habits& habits) {
  if (!message.contains("content")) message["content"] = nullptr;
  Json& content = message["content"];
  const bool calls =
      message.contains("tool_calls") && message["tool_calls"].is_array() && !message["tool_calls"].empty();
  if (content.is_array() && !habits.reads_parts) content = joined_parts(content);
  if (content.is_null() && !(calls && habits.null_content)) content = "";
  if (message.contains("role") && message["role"] == "developer" && !habits.knows_developer) message["role"] = "system";
  if (!calls) return;
  for (Json& call : message["tool_calls"]) repair_arguments(call, habits.object_arguments);
}

// A text that occurs nowhere in the conversation, to find where the last message ends in the prompt.
std::string end_marker(const Json& messages) {
  const std::string all = dump(messages);
  std::string marker = "pagoda-end";
  while (all.find(marker) != std::string::npos) marker += "-x";
  return marker;
}

Status append_to_content(Json& message, const std::string& marker) {
  Json& content = message["content"];
  if (content.is_string()) {
    content = *content.get_ptr<const Json::string_t*>() + marker;
    return ok_status();
  }
  if (content.is_array() && !content.empty() && content.back().is_object() && content.back().contains("text") &&
      content.back()["text"].is_string()) {
    content.back()["text"] = *content.back()["text"].get_ptr<const Json::string_t*>() + marker;
    return ok_status();
  }
  return Error{Code::kInvalidRequest, "continue_final_message needs a last message with text", "messages"};
}

class JinjaChatTemplate final : public ChatTemplate {
 public:
  JinjaChatTemplate(std::unique_ptr<jinja::Template> parsed, std::string bos, std::string eos)
      : template_(std::move(parsed)), bos_(std::move(bos)), eos_(std::move(eos)) {}

  void learn_habits(std::string_view source) {
    habits_.knows_developer = source.find("developer") != std::string_view::npos;
    habits_.short_ids = dialog::read_format(source).short_call_ids;
    const std::string parts = probe(probe_parts(), Json());
    habits_.reads_parts = parts.find(kMarker) != std::string::npos &&
                          parts.find(fmt::format("'text': '{}'", kMarker)) == std::string::npos &&
                          parts.find(fmt::format("\"text\": \"{}\"", kMarker)) == std::string::npos;
    for (const bool object_arguments : {true, false}) {
      for (const bool null_content : {true, false}) {
        const std::string text = probe(probe_call(null_content, object_arguments), probe_tools());
        const bool shows_call = text.find(kMarker) != std::string::npos && text.find("None") == std::string::npos;
        const bool as_python = text.find(fmt::format("'key': '{}'", kMarker)) != std::string::npos;
        if (!shows_call || as_python) continue;
        habits_.null_content = null_content;
        habits_.object_arguments = object_arguments;
        return;
      }
    }
  }

  Result<std::vector<text::PromptPart>> render(const Json& messages,
                                               const ChatTemplateOptions& options) const override {
    if (!messages.is_array()) return Error{Code::kInvalidRequest, "messages must be an array", "messages"};
    Json repaired = messages;
    complete_messages(repaired, habits_.short_ids);
    for (Json& message : repaired) {
      if (!message.is_object()) return Error{Code::kInvalidRequest, "each of messages must be an object", "messages"};
      repair_message(message, habits_);
    }
    std::string marker;
    if (options.continue_final_message) {
      if (repaired.empty()) return Error{Code::kInvalidRequest, "continue_final_message needs a message", "messages"};
      marker = end_marker(repaired);
      PAGODA_TRY_STATUS(append_to_content(repaired.back(), marker));
    }
    PAGODA_TRY(const jinja::Rendered rendered, render_raw(repaired, options));
    return parts_until(rendered, marker);
  }

 private:
  // The text of a small conversation, "" if the template refuses it.
  std::string probe(const Json& messages, const Json& tools) const {
    ChatTemplateOptions options;
    options.tools = tools;
    const Result<jinja::Rendered> rendered = render_raw(messages, options);
    return rendered.ok() ? rendered.value().text() : std::string();
  }

  Result<jinja::Rendered> render_raw(const Json& messages, const ChatTemplateOptions& options) const {
    PAGODA_TRY(jinja::Value context, this->context(messages, options));
    Result<jinja::Rendered> rendered = template_->render(context, options.today_unix_s);
    if (!rendered.ok()) return Error{rendered.error().code, rendered.error().message, "messages"};
    return rendered;
  }

  Result<jinja::Value> context(const Json& messages, const ChatTemplateOptions& options) const {
    auto out = std::make_shared<jinja::DictObject>();
    const auto set = [&out](const char* name, jinja::Value value) {
      out->set(jinja::Value::string(name), std::move(value));
    };
    if (options.kwargs.is_object()) {
      PAGODA_TRY(const jinja::Value kwargs, jinja::to_value(options.kwargs));
      for (const auto& [name, value] : kwargs.dict().entries) out->set(name, value);
    }
    PAGODA_TRY(const jinja::Value conversation, jinja::to_value(messages));
    // Templates build control tokens from roles, "<|" + role + "|>": the known ones count as the template's own text.
    for (const jinja::Value& message : conversation.items()) {
      const jinja::Value* role = message.is_dict() ? message.dict().find("role") : nullptr;
      if (role != nullptr && role->is_string() && is_known_role(role->view()))
        message.dict().set(jinja::Value::string("role"), jinja::Value::string(std::string(role->view())));
    }
    set("messages", conversation);
    if (options.tools.is_array()) {
      PAGODA_TRY(jinja::Value tools, jinja::to_value(options.tools));
      set("tools", std::move(tools));
    }
    set("add_generation_prompt",
        jinja::Value::boolean(options.add_generation_prompt && !options.continue_final_message));
    set("bos_token", jinja::Value::string(bos_));
    set("eos_token", jinja::Value::string(eos_));
    return jinja::Value::of(jinja::Kind::kDict, std::move(out));
  }

  // The prompt, cut where the marker stands if there is one.
  static Result<std::vector<text::PromptPart>> parts_until(const jinja::Rendered& rendered, const std::string& marker) {
    size_t end = std::string::npos;
    if (!marker.empty()) {
      end = rendered.text().rfind(marker);
      if (end == std::string::npos)
        return Error{Code::kInvalidRequest,
                     "this model's chat template does not print the last message, so it cannot be continued",
                     "continue_final_message"};
    }
    std::vector<text::PromptPart> parts;
    for (const jinja::Span& span : rendered.spans) {
      const std::string text = span.text.substr(0, end);
      if (!text.empty()) parts.push_back({text, !span.from_input});
      end -= end == std::string::npos ? 0 : text.size();
      if (end == 0) break;
    }
    return parts;
  }

  const std::unique_ptr<jinja::Template> template_;
  const std::string bos_;
  const std::string eos_;
  Habits habits_;
};

}  // namespace

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::create(std::string_view source, std::string bos_text,
                                                           std::string eos_text) {
  if (source.empty())
    return Error{Code::kUnsupported,
                 "the model has no chat template: it is a base model, for completions rather than chat"};
  PAGODA_TRY(std::unique_ptr<jinja::Template> parsed, jinja::Template::parse(source));
  auto out = std::make_unique<JinjaChatTemplate>(std::move(parsed), std::move(bos_text), std::move(eos_text));
  out->learn_habits(source);
  return std::unique_ptr<ChatTemplate>(std::move(out));
}

}  // namespace pagoda::api
