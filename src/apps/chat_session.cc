#include "apps/chat_session.h"

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <mutex>
#include <utility>

#include "core/utf8.h"

namespace pagoda::apps {
namespace {

constexpr auto kInterruptPoll = std::chrono::milliseconds(50);

/// Events from the worker thread to the one that prints.
class EventQueue : public scheduler::EventSink {
 public:
  void push(scheduler::Event event) override {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    news_.notify_one();
  }
  /// Empty if none came within the poll interval.
  std::optional<scheduler::Event> pop() {
    std::unique_lock lock(mutex_);
    if (!news_.wait_for(lock, kInterruptPoll, [this] { return !events_.empty(); })) return std::nullopt;
    scheduler::Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<scheduler::Event> events_;
};

std::string text_of(const text::Tokenizer& tokenizer, TokenId id) {
  return tokenizer.valid(id) ? tokenizer.token_bytes(id) : "";
}

}  // namespace

ChatSession::ChatSession(LoadedModel model, scheduler::Limits limits, KvTiers tiers)
    : model_(std::move(model)),
      tiers_(std::move(tiers)),
      metrics_(model_.name),
      scheduler_(*model_.engine, model_.tokenizer.get(), limits, clock_, metrics_, tiers_.view()),
      worker_([this] { scheduler_.run_until_stopped(); }) {}

ChatSession::~ChatSession() {
  scheduler_.stop();
  worker_.join();
  if (tiers_.disk) tiers_.disk->flush(kFlushUs);
}

Result<std::unique_ptr<ChatSession>> ChatSession::create(LoadedModel model, const std::string& template_override,
                                                         scheduler::Limits limits, KvTiers tiers) {
  const std::string& source = template_override.empty() ? model.chat_template : template_override;
  std::unique_ptr<api::ChatTemplate> chat_template;
  if (!source.empty()) {
    const text::VocabSpec& spec = model.tokenizer->spec();
    PAGODA_TRY(chat_template, api::ChatTemplate::create(source, text_of(*model.tokenizer, spec.bos),
                                                        text_of(*model.tokenizer, spec.eos)));
  }
  std::unique_ptr<ChatSession> session(new ChatSession(std::move(model), limits, std::move(tiers)));
  session->template_ = std::move(chat_template);
  return session;
}

void ChatSession::set_system(std::string text) {
  system_ = replace_invalid_utf8(text);
  clear();
}

void ChatSession::clear() { messages_ = nlohmann::ordered_json::array(); }

Result<std::vector<TokenId>> ChatSession::prompt_ids(const std::string& message) const {
  // Raw text may name control tokens, as the prompt of /v1/completions may; a chat message may not.
  if (!template_) return model_.tokenizer->encode(message, {.add_special = true, .parse_special = true});
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  if (!system_.empty()) messages.push_back({{"role", "system"}, {"content", system_}});
  for (const auto& earlier : messages_) messages.push_back(earlier);
  messages.push_back({{"role", "user"}, {"content", message}});
  api::ChatTemplateOptions options;
  options.today_unix_s = static_cast<int64_t>(std::time(nullptr));
  PAGODA_TRY(const std::vector<text::PromptPart> parts, template_->render(messages, options));
  return model_.tokenizer->encode_parts(parts, /*add_special=*/true);
}

Result<Answer> ChatSession::ask(const std::string& raw_message, const AnswerOptions& options,
                                const std::function<bool(std::string_view)>& on_text) {
  const std::string message = replace_invalid_utf8(raw_message);
  scheduler::Request request;
  PAGODA_TRY(request.prompt, prompt_ids(message));
  const auto prompt_tokens = static_cast<int32_t>(request.prompt.size());
  request.max_tokens = options.max_tokens.value_or(std::max(1, scheduler_.context_limit() - prompt_tokens));
  request.sampling = options.sampling;
  request.stop = options.stop;
  const auto events = std::make_shared<EventQueue>();
  request.sink = events;

  const int64_t begin_us = clock_.now_us();
  int64_t first_us = begin_us, last_us = begin_us;
  PAGODA_TRY(const scheduler::RequestId id, scheduler_.submit(std::move(request)));
  Answer answer;
  bool wanted = true;
  for (bool ended = false; !ended;) {
    const std::optional<scheduler::Event> event = events->pop();
    if (event && event->error) return *event->error;
    if (event) {
      last_us = clock_.now_us();
      if (answer.completion_tokens == 0) first_us = last_us;
      answer.prompt_tokens = event->prompt_tokens;
      answer.completion_tokens = event->completion_tokens;
      answer.finish = event->finish.value_or(answer.finish);
      ended = event->finish.has_value();
      if (wanted) answer.text += event->text;
    }
    // Also without news: the caller may have been interrupted.
    if (wanted && !on_text(event ? event->text : "")) {
      wanted = false;
      scheduler_.cancel(id);
    }
  }
  answer.prefill_s = static_cast<double>(first_us - begin_us) * 1e-6;
  answer.decode_s = static_cast<double>(last_us - first_us) * 1e-6;
  if (template_) {
    messages_.push_back({{"role", "user"}, {"content", message}});
    messages_.push_back({{"role", "assistant"}, {"content", answer.text}});
  }
  return answer;
}

}  // namespace pagoda::apps
