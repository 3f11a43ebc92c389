#include "api/anthropic_response.h"

#include "api/dialect.h"
#include "api/json_text.h"

namespace pagoda::api {
namespace {

using scheduler::FinishReason;

enum class Block { kNone, kThinking, kText, kToolUse };

class AnthropicWriter final : public ChoiceWriter {
 public:
  using ChoiceWriter::ChoiceWriter;

  HttpResponse refuse(const Error& error) const override { return error_response(Dialect::kAnthropic, error); }

  std::string stream_end() override { return failed_ ? "" : event("message_stop", Json::object()); }

  std::string body() override {
    const Delta& all = choices_[0].all;
    Json content = Json::array();
    if (!all.reasoning.empty())
      content.push_back(Json{{"type", "thinking"}, {"thinking", all.reasoning}, {"signature", ""}});
    if (!all.text.empty()) content.push_back(Json{{"type", "text"}, {"text", all.text}});
    for (const dialog::CallDelta& call : all.calls) content.push_back(tool_use(call));
    Json json = message(std::move(content));
    json["stop_reason"] = stop_reason(choices_[0]);
    json["stop_sequence"] = stop_sequence(choices_[0]);
    json["usage"] = usage();
    return dump(json);
  }

 private:
  std::string frames(const Delta& delta, Choice& choice) override {
    std::string events;
    if (!choice.started) {
      Json start = message(Json::array());
      start["stop_reason"] = nullptr;
      start["stop_sequence"] = nullptr;
      start["usage"] = usage();
      events += event("message_start", Json{{"message", std::move(start)}});
    }
    if (!delta.reasoning.empty()) {
      events += open(Block::kThinking, Json{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      events += gain("thinking_delta", "thinking", delta.reasoning);
    }
    if (!delta.text.empty()) {
      events += open(Block::kText, Json{{"type", "text"}, {"text", ""}});
      events += gain("text_delta", "text", delta.text);
    }
    for (const dialog::CallDelta& call : delta.calls) {
      if (call.begins) {
        events += close();
        const Json block{{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", Json::object()}};
        events += open(Block::kToolUse, block);
      }
      if (!call.arguments.empty()) events += gain("input_json_delta", "partial_json", call.arguments);
    }
    if (delta.error) {
      failed_ = true;
      return events + sse_event("error", refuse(*delta.error).body);
    }
    if (!delta.finish) return events;
    events += close();
    const Json end{{"stop_reason", stop_reason(choice)}, {"stop_sequence", stop_sequence(choice)}};
    return events + event("message_delta", Json{{"delta", end}, {"usage", usage()}});
  }

  /// A block of this kind is open from here on.
  std::string open(Block kind, Json block) {
    if (open_ == kind) return {};
    std::string events = close();
    open_ = kind;
    return events + event("content_block_start", Json{{"index", index_}, {"content_block", std::move(block)}});
  }

  std::string close() {
    if (open_ == Block::kNone) return {};
    std::string events;
    if (open_ == Block::kThinking) events += gain("signature_delta", "signature", "");
    open_ = Block::kNone;
    return events + event("content_block_stop", Json{{"index", index_++}});
  }

  std::string gain(const char* type, const char* member, const std::string& text) const {
    return event("content_block_delta", Json{{"index", index_}, {"delta", Json{{"type", type}, {member, text}}}});
  }

  static std::string event(const char* name, const Json& members) {
    Json json{{"type", name}};
    json.update(members);
    return sse_event(name, dump(json));
  }

  Json message(Json content) const {
    Json json;
    json["id"] = "msg_" + facts_.id;
    json["type"] = "message";
    json["role"] = "assistant";
    json["model"] = facts_.model;
    json["content"] = std::move(content);
    return json;
  }

  static Json tool_use(const dialog::CallDelta& call) {
    Json input = Json::parse(call.arguments, nullptr, false);
    if (!input.is_object()) input = Json{{"raw", call.arguments}};  // cut off, or no JSON: what the model wrote
    return Json{{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", std::move(input)}};
  }

  Json stop_reason(const Choice& choice) const {
    if (choice.all.finish == FinishReason::kLength) return "max_tokens";
    if (choice.calls > 0) return "tool_use";
    return stop_string(choice.all).empty() ? "end_turn" : "stop_sequence";
  }

  Json stop_sequence(const Choice& choice) const {
    std::string stop = stop_string(choice.all);
    return stop.empty() ? Json() : Json(std::move(stop));
  }

  /// Anthropic counts what came from a cache beside the input, not in it.
  Json usage() const {
    const Totals all = totals();
    return Json{{"input_tokens", all.prompt - all.cached},
                {"cache_creation_input_tokens", 0},
                {"cache_read_input_tokens", all.cached},
                {"output_tokens", all.completion}};
  }

  Block open_ = Block::kNone;
  int32_t index_ = 0;  // of the block that is open or comes next
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<ResponseWriter> make_anthropic_writer(ResponseFacts facts, const text::Tokenizer& tokenizer) {
  return std::make_unique<AnthropicWriter>(std::move(facts), tokenizer);
}

}  // namespace pagoda::api
