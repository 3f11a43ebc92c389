#include "api/ollama_response.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>

#include "api/dialect.h"
#include "api/json_text.h"

namespace pagoda::api {
namespace {

using scheduler::FinishReason;

class OllamaWriter final : public ChoiceWriter {
 public:
  OllamaWriter(ResponseFacts facts, const text::Tokenizer& tokenizer, bool chat)
      : ChoiceWriter(std::move(facts), tokenizer), chat_(chat) {}

  std::string_view stream_type() const override { return "application/x-ndjson"; }
  HttpResponse refuse(const Error& error) const override { return error_response(Dialect::kOllama, error); }
  std::string stream_end() override { return {}; }

  std::string body() override {
    Choice& choice = choices_[0];
    Json json = words(choice.all, choice.all.calls);
    finish(choice, json);
    return dump(json);
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::string frames(const Delta& delta, Choice& choice) override {
    if (!choice.started) first_token_ = Clock::now();
    for (const dialog::CallDelta& call : delta.calls) {
      if (call.begins) {
        calls_.push_back(call);
      } else {
        calls_.back().arguments += call.arguments;
      }
    }
    if (delta.error) return refuse(*delta.error).body + "\n";
    const bool says = !delta.text.empty() || !delta.reasoning.empty() || !delta.sampled.empty();
    if (!delta.finish) return says ? dump(words(delta, {})) + "\n" : std::string();
    std::string lines;
    if (says || !calls_.empty()) lines = dump(words(delta, calls_)) + "\n";
    Json last = words(Delta{}, {});
    finish(choice, last);
    return lines + dump(last) + "\n";
  }

  /// An object with what was said. Arguments that are no JSON object are told as text.
  Json words(const Delta& said, const std::vector<dialog::CallDelta>& calls) const {
    Json json;
    json["model"] = facts_.model;
    json["created_at"] = utc_now();
    std::string text = said.text;
    Json list = Json::array();
    for (const dialog::CallDelta& call : calls) {
      Json arguments = Json::parse(call.arguments, nullptr, false);
      if (!arguments.is_object()) {
        text += call.name + " " + call.arguments;
        continue;
      }
      list.push_back(Json{{"function", Json{{"name", call.name}, {"arguments", std::move(arguments)}}}});
    }
    Json message;
    message["role"] = "assistant";
    message["content"] = text;
    if (!said.reasoning.empty()) message["thinking"] = said.reasoning;
    if (!list.empty()) message["tool_calls"] = std::move(list);
    if (chat_) {
      json["message"] = std::move(message);
    } else {
      json["response"] = text;
      if (!said.reasoning.empty()) json["thinking"] = said.reasoning;
    }
    json["done"] = false;
    if (wants_logprobs() && !said.sampled.empty()) json["logprobs"] = logprobs(said.sampled);
    return json;
  }

  void finish(const Choice& choice, Json& json) const {
    const auto now = Clock::now();
    const auto nanoseconds = [](Clock::duration time) {
      return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    };
    const Totals all = totals();
    json["done"] = true;
    json["done_reason"] = choice.all.finish == FinishReason::kLength ? "length" : "stop";
    json["total_duration"] = nanoseconds(now - begun_);
    json["load_duration"] = 0;
    json["prompt_eval_count"] = all.prompt;
    json["prompt_eval_duration"] = nanoseconds(first_token_ - begun_);
    json["eval_count"] = all.completion;
    json["eval_duration"] = nanoseconds(now - first_token_);
  }

  Json logprobs(const std::vector<sampling::SampledToken>& sampled) const {
    Json list = Json::array();
    for (const sampling::SampledToken& token : sampled) {
      Json one = token_json(token.id, token.logprob);
      if (generation().sampling.logprobs > 0) one["top_logprobs"] = Json::array();
      for (const auto& top : token.top) one["top_logprobs"].push_back(token_json(top.id, top.logprob));
      list.push_back(std::move(one));
    }
    return list;
  }

  Json token_json(TokenId id, float logprob) const {
    Json json{{"token", texts_.text(id)}, {"logprob", exact(logprob)}, {"bytes", Json::array()}};
    for (const char byte : texts_.bytes(id)) json["bytes"].push_back(static_cast<unsigned char>(byte));
    return json;
  }

  const bool chat_;
  const Clock::time_point begun_ = Clock::now();
  Clock::time_point first_token_ = begun_;  // without a stream it is not seen: all counts as generation
  std::vector<dialog::CallDelta> calls_{};
};

}  // namespace

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now - seconds).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)), micros);
}

std::unique_ptr<ResponseWriter> make_ollama_chat_writer(ResponseFacts facts, const text::Tokenizer& tokenizer) {
  return std::make_unique<OllamaWriter>(std::move(facts), tokenizer, true);
}
std::unique_ptr<ResponseWriter> make_ollama_generate_writer(ResponseFacts facts, const text::Tokenizer& tokenizer) {
  return std::make_unique<OllamaWriter>(std::move(facts), tokenizer, false);
}

}  // namespace pagoda::api
