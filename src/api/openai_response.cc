#include "api/openai_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "api/http_status.h"
#include "api/json_text.h"
#include "core/utf8.h"

namespace pagoda::api {
namespace {

using scheduler::FinishReason;

Json finish_name(const std::optional<FinishReason>& finish) { return finish ? Json(name_of(*finish)) : Json(nullptr); }

const char* exit_name(scheduler::CacheExit exit) {
  using scheduler::CacheExit;
  switch (exit) {
    case CacheExit::kComplete:
      return "complete";
    case CacheExit::kNewText:
      return "new_text";
    case CacheExit::kSalt:
      return "salt";
    case CacheExit::kEvicted:
      return "evicted";
    case CacheExit::kReset:
      return "reset";
    case CacheExit::kPartialBlock:
      return "partial_block";
    case CacheExit::kPromptScores:
      return "prompt_logprobs";
    case CacheExit::kOff:
      return "off";
    case CacheExit::kDamaged:
      return "damaged";
    case CacheExit::kUnreadable:
      return "unreadable";
    case CacheExit::kLate:
      return "late";
    case CacheExit::kWindow:
      return "window";
  }
  return "new_text";
}

/// The parts that chat and completions share.
class Writer : public ChoiceWriter {
 public:
  using ChoiceWriter::ChoiceWriter;

  std::string stream_end() override {
    std::string events;
    if (facts_.generation.include_usage) {
      JsonText last = envelope(true);
      last.member("choices", Json::array());
      last.member("usage", total_usage());
      last.member("cache", cache_report());
      add_receipt(last);
      events = sse_event(std::move(last).done());
    }
    return events + "data: [DONE]\n\n";
  }

  std::string body() override {
    JsonText choices = JsonText::array();
    for (size_t c = 0; c < choices_.size(); ++c) {
      choices_[c].all.choice = static_cast<int32_t>(c);
      choices.element_text(whole_choice(choices_[c]));
    }
    JsonText answer = envelope(false);
    answer.member_text("choices", std::move(choices).done());
    answer.member("usage", total_usage());
    answer.member("cache", cache_report());
    finish_body(answer);
    add_receipt(answer);
    return std::move(answer).done();
  }

  bool may_wait() const override { return facts_.receipts != nullptr && !facts_.receipts->ready(); }

 protected:
  virtual const char* object_name(bool streaming) const = 0;
  virtual const char* id_prefix() const = 0;
  virtual std::string stream_choice(const Delta& delta, Choice& choice) = 0;
  virtual std::string whole_choice(const Choice& choice) = 0;
  virtual void finish_body(JsonText& /*answer*/) {}
  virtual bool is_chat() const = 0;

  /// Which user-given stop ended it; null for the model's own end of generation.
  Json stop_reason(const Delta& delta) const {
    if (std::string stop = stop_string(delta); !stop.empty()) return stop;
    const auto& ids = facts_.generation.stop_token_ids;
    if (std::find(ids.begin(), ids.end(), delta.stop_token) != ids.end()) return delta.stop_token;
    return nullptr;
  }

  static Json ids_of(const std::vector<sampling::SampledToken>& sampled) {
    Json ids = Json::array();
    for (const auto& token : sampled) ids.push_back(token.id);
    return ids;
  }

  /// vLLM's prompt_logprobs: null, then for each prompt token {"id": {"logprob","rank","decoded_token"}}.
  std::string prompt_logprobs(int32_t choice) const {
    const std::vector<TokenId>& ids = prompt(choice).ids;
    JsonText list = JsonText::array();
    list.element(nullptr);
    for (const engine::PromptScore& score : scores_of(choice)) {
      const auto next = static_cast<size_t>(score.position) + 1;
      if (next >= ids.size()) break;
      Json position = Json::object();
      const auto entry = [&](TokenId id, float logprob, Json rank) {
        Json one;
        one["logprob"] = exact(logprob);
        one["rank"] = std::move(rank);
        one["decoded_token"] = texts_.text(id);
        position.emplace(std::to_string(id), std::move(one));
      };
      for (size_t r = 0; r < score.top.size(); ++r) entry(score.top[r].id, score.top[r].logprob, r + 1);
      entry(ids[next], score.next_logprob, nullptr);  // keeps the entry with its rank if it was among the likeliest
      list.element(position);
    }
    return std::move(list).done();
  }

 private:
  JsonText envelope(bool streaming) const {
    JsonText json = JsonText::object();
    json.member("id", id_prefix() + facts_.id);
    json.member("object", object_name(streaming));
    json.member("created", facts_.created_unix_s);
    json.member("model", facts_.model);
    json.member("system_fingerprint", facts_.fingerprint);
    json.member("seed", static_cast<int64_t>(facts_.generation.sampling.seed));
    return json;
  }

  std::string frames(const Delta& delta, Choice& choice) override {
    JsonText json = envelope(true);
    json.member_text("choices", "[" + stream_choice(delta, choice) + "]");
    if (generation().continuous_usage_stats)
      json.member("usage", usage(delta.prompt_tokens, delta.completion_tokens, delta.cached_tokens));
    if (unfinished_ == 0 && !generation().include_usage) add_receipt(json);  // else the usage event is the last
    std::string events = sse_event(std::move(json).done());
    if (delta.error) events += sse_event(error_body(http_status(delta.error->code), *delta.error));
    return events;
  }

  /// An answer that was broken off has none: nothing says where.
  void add_receipt(JsonText& json) const {
    if (facts_.receipts == nullptr) return;
    std::vector<ReceiptChoice> choices;
    for (const Choice& choice : choices_) {
      const auto finish = choice.all.finish;
      if (finish != FinishReason::kStop && finish != FinishReason::kLength) return;
      choices.push_back(receipt_choice(choice.all.ids, *finish));
    }
    std::vector<ReceiptPrompt> prompts;
    for (const PromptEcho& prompt : facts_.prompts) prompts.push_back(receipt_prompt(prompt.ids, prompt.max_tokens));
    json.member("receipt", receipt_json(*facts_.receipts, facts_.generation, is_chat(), facts_.echo, prompts, choices));
  }

  static Json usage(int64_t prompt_tokens, int64_t completion_tokens, int64_t cached_tokens) {
    Json json;
    json["prompt_tokens"] = prompt_tokens;
    json["completion_tokens"] = completion_tokens;
    json["total_tokens"] = prompt_tokens + completion_tokens;
    json["prompt_tokens_details"] = Json{{"cached_tokens", cached_tokens}};
    return json;
  }

  /// One entry a prompt: how much of it was found in which place, and where and why it left what is cached.
  Json cache_report() const {
    Json report = Json::array();
    for (size_t c = 0; c < choices_.size(); c += static_cast<size_t>(facts_.generation.n)) {
      const Delta& first = choices_[c].all;
      Json prompt;
      prompt["cached_tokens"] = first.cached_tokens;
      const int32_t host = first.from_tiers.host, disk = first.from_tiers.disk;
      prompt["from"] = Json{{"pool", first.cached_tokens - host - disk}, {"host", host}, {"disk", disk}};
      prompt["left_at"] = first.cache_exit_at;
      prompt["why"] = exit_name(first.cache_exit);
      report.push_back(std::move(prompt));
    }
    return report;
  }

  Json total_usage() const {
    const Totals all = totals();
    return usage(all.prompt, all.completion, all.cached);
  }
};

class ChatWriter final : public Writer {
 public:
  using Writer::Writer;

 private:
  const char* object_name(bool streaming) const override {
    return streaming ? "chat.completion.chunk" : "chat.completion";
  }
  const char* id_prefix() const override { return "chatcmpl-"; }
  bool is_chat() const override { return true; }

  std::string stream_choice(const Delta& delta, Choice& choice) override {
    Json said = Json::object();
    if (!choice.started) said["role"] = "assistant";  // together with the first token: one chunk a token
    const bool other = !delta.reasoning.empty() || !delta.calls.empty();
    if (!delta.text.empty() || !choice.started || (delta.tokens > 0 && !other)) said["content"] = delta.text;
    if (!delta.reasoning.empty()) said["reasoning_content"] = delta.reasoning;
    for (const dialog::CallDelta& call : delta.calls) said["tool_calls"].push_back(call_json(call, true));
    JsonText json = JsonText::object();
    json.member("index", delta.choice);
    json.member("delta", said);
    json.member_text("logprobs", logprobs(delta.sampled));
    json.member("finish_reason", finish_of(delta, choice));
    if (delta.finish) json.member("stop_reason", stop_reason(delta));
    if (generation().return_token_ids) json.member("token_ids", ids_of(delta.sampled));
    return std::move(json).done();
  }

  std::string whole_choice(const Choice& choice) override {
    const Delta& all = choice.all;
    Json message;
    message["role"] = "assistant";
    message["content"] = all.text.empty() && !all.calls.empty() ? Json() : Json(all.text);
    message["refusal"] = nullptr;
    if (!all.reasoning.empty()) message["reasoning_content"] = all.reasoning;
    for (const dialog::CallDelta& call : all.calls) message["tool_calls"].push_back(call_json(call, false));
    JsonText json = JsonText::object();
    json.member("index", all.choice);
    json.member("message", message);
    json.member_text("logprobs", logprobs(all.sampled));
    json.member("finish_reason", finish_of(all, choice));
    json.member("stop_reason", stop_reason(all));
    if (generation().return_token_ids) json.member("token_ids", ids_of(all.sampled));
    return std::move(json).done();
  }

  static Json finish_of(const Delta& delta, const Choice& choice) {
    return delta.finish == FinishReason::kStop && choice.calls > 0 ? Json("tool_calls") : finish_name(delta.finish);
  }

  /// A whole call, or a stream's piece of one: id, type and name come once.
  static Json call_json(const dialog::CallDelta& call, bool streaming) {
    Json json;
    if (streaming) json["index"] = call.index;
    if (call.begins) {
      json["id"] = call.id;
      json["type"] = "function";
      json["function"]["name"] = call.name;
    }
    json["function"]["arguments"] = call.arguments;
    return json;
  }

  void finish_body(JsonText& answer) override {
    if (generation().prompt_logprobs) answer.member_text("prompt_logprobs", prompt_logprobs(0));
    if (generation().return_token_ids) answer.member("prompt_token_ids", prompt(0).ids);
  }

  std::string logprobs(const std::vector<sampling::SampledToken>& sampled) const {
    if (!wants_logprobs()) return "null";
    JsonText content = JsonText::array();
    for (const sampling::SampledToken& token : sampled) {
      Json one = token_json(token.id, token.logprob);
      one["top_logprobs"] = Json::array();
      for (const auto& top : token.top) one["top_logprobs"].push_back(token_json(top.id, top.logprob));
      content.element(one);
    }
    JsonText json = JsonText::object();
    json.member_text("content", std::move(content).done());
    json.member("refusal", nullptr);
    return std::move(json).done();
  }

  Json token_json(TokenId id, float logprob) const {
    Json json;
    json["token"] = texts_.text(id);
    json["logprob"] = exact(logprob);
    json["bytes"] = Json::array();
    for (const char byte : texts_.bytes(id)) json["bytes"].push_back(static_cast<unsigned char>(byte));
    return json;
  }
};

/// OpenAI's four parallel arrays of completion logprobs. The chosen token is always among top_logprobs; of two tokens
/// with one spelling the likelier stays.
class CompletionLogprobs {
 public:
  explicit CompletionLogprobs(const TokenTexts& texts) : texts_(texts) {}

  /// Nothing predicts a prompt's first token.
  void add_first(TokenId id, int64_t offset) {
    tokens_.element(texts_.text(id));
    token_logprobs_.element(nullptr);
    top_logprobs_.element(nullptr);
    text_offset_.element(offset);
  }
  void add(TokenId id, float logprob, const std::vector<sampling::TokenLogprob>& likeliest, int64_t offset) {
    Json top = Json::object();
    for (const auto& one : likeliest) top.emplace(texts_.text(one.id), exact(one.logprob));
    top.emplace(texts_.text(id), exact(logprob));
    tokens_.element(texts_.text(id));
    token_logprobs_.element(exact(logprob));
    top_logprobs_.element(top);
    text_offset_.element(offset);
  }
  std::string done() && {
    JsonText json = JsonText::object();
    json.member_text("tokens", std::move(tokens_).done());
    json.member_text("token_logprobs", std::move(token_logprobs_).done());
    json.member_text("top_logprobs", std::move(top_logprobs_).done());
    json.member_text("text_offset", std::move(text_offset_).done());
    return std::move(json).done();
  }

 private:
  const TokenTexts& texts_;
  JsonText tokens_ = JsonText::array(), token_logprobs_ = JsonText::array(), top_logprobs_ = JsonText::array(),
           text_offset_ = JsonText::array();
};

class CompletionWriter final : public Writer {
 public:
  using Writer::Writer;

 private:
  const char* object_name(bool /*streaming*/) const override { return "text_completion"; }
  const char* id_prefix() const override { return "cmpl-"; }
  bool is_chat() const override { return false; }

  std::string stream_choice(const Delta& delta, Choice& choice) override {
    const bool echo = facts_.echo && !choice.started;
    JsonText json = JsonText::object();
    json.member("index", delta.choice);
    json.member("text", echo ? prompt(delta.choice).text + delta.text : delta.text);
    json.member_text("logprobs", logprobs(delta, echo, choice.characters));
    json.member("finish_reason", finish_name(delta.finish));
    if (delta.finish) json.member("stop_reason", stop_reason(delta));
    if (generation().return_token_ids) json.member("token_ids", ids_of(delta.sampled));
    return std::move(json).done();
  }

  std::string whole_choice(const Choice& choice) override {
    const Delta& all = choice.all;
    int64_t characters = 0;
    JsonText json = JsonText::object();
    json.member("index", all.choice);
    json.member("text", facts_.echo ? prompt(all.choice).text + all.text : all.text);
    json.member_text("logprobs", logprobs(all, facts_.echo, characters));
    json.member("finish_reason", finish_name(all.finish));
    json.member("stop_reason", stop_reason(all));
    if (generation().prompt_logprobs) json.member_text("prompt_logprobs", prompt_logprobs(all.choice));
    if (generation().return_token_ids) {
      json.member("token_ids", ids_of(all.sampled));
      json.member("prompt_token_ids", prompt(all.choice).ids);
    }
    return std::move(json).done();
  }

  void append_prompt(CompletionLogprobs& lists, int32_t choice) const {
    const PromptEcho& echoed = prompt(choice);
    const auto offset = [&echoed](size_t i) { return i < echoed.text_offsets.size() ? echoed.text_offsets[i] : 0; };
    if (echoed.ids.empty()) return;
    lists.add_first(echoed.ids[0], offset(0));
    for (const engine::PromptScore& score : scores_of(choice)) {
      const auto next = static_cast<size_t>(score.position) + 1;
      if (next >= echoed.ids.size()) break;
      lists.add(echoed.ids[next], score.next_logprob, score.top, offset(next));
    }
  }

  /// `characters` is where the delta's text begins in the whole text; it moves on.
  std::string logprobs(const Delta& delta, bool echo, int64_t& characters) const {
    if (!wants_logprobs()) return "null";
    CompletionLogprobs lists(texts_);
    if (echo) {
      append_prompt(lists, delta.choice);
      characters += count_code_points(prompt(delta.choice).text);
    }
    int64_t at = characters;
    for (const sampling::SampledToken& token : delta.sampled) {
      lists.add(token.id, token.logprob, token.top, at);
      at += count_code_points(texts_.text(token.id));
    }
    characters += count_code_points(delta.text);
    return std::move(lists).done();
  }
};

}  // namespace

std::unique_ptr<ResponseWriter> make_chat_writer(ResponseFacts facts, const text::Tokenizer& tokenizer) {
  return std::make_unique<ChatWriter>(std::move(facts), tokenizer);
}
std::unique_ptr<ResponseWriter> make_completion_writer(ResponseFacts facts, const text::Tokenizer& tokenizer) {
  return std::make_unique<CompletionWriter>(std::move(facts), tokenizer);
}

}  // namespace pagoda::api
