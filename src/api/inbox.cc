#include "api/inbox.h"

#include <algorithm>
#include <iterator>

namespace pagoda::api {

class Inbox::Sink final : public scheduler::EventSink {
 public:
  Sink(std::shared_ptr<Inbox> inbox, int32_t first_choice) : inbox_(std::move(inbox)), first_choice_(first_choice) {}
  void push(scheduler::Event event) override {
    const int32_t choice = first_choice_ + event.choice;
    inbox_->push(choice, std::move(event));
  }

 private:
  const std::shared_ptr<Inbox> inbox_;
  const int32_t first_choice_;
};

Inbox::Inbox(int32_t choices, bool streaming, bool keep_sampled, std::function<void()> notify)
    : streaming_(streaming),
      keep_sampled_(keep_sampled),
      notify_(std::move(notify)),
      last_of_choice_(static_cast<size_t>(choices), -1),
      ended_(static_cast<size_t>(choices), false),
      running_(choices) {}

std::shared_ptr<scheduler::EventSink> Inbox::sink(int32_t first_choice) {
  return std::make_shared<Sink>(shared_from_this(), first_choice);
}

void Inbox::push(int32_t choice, scheduler::Event event) {
  bool notify = false;
  {
    const std::lock_guard lock(mutex_);
    const auto c = static_cast<size_t>(choice);
    if (event.finish && !ended_[c]) {
      ended_[c] = true;
      --running_;
    }
    failed_ = failed_ || event.error.has_value();
    const bool room = streaming_ ? unread_.size() < kUnmergedMax : last_of_choice_[c] < 0;
    if (room || last_of_choice_[c] < 0) {
      last_of_choice_[c] = static_cast<int32_t>(unread_.size());
      unread_.push_back(Delta{.choice = choice});
    }
    merge(choice, std::move(event));
    if ((streaming_ || running_ == 0 || failed_) && !notified_) notify = notified_ = true;
  }
  if (notify) notify_();
}

void Inbox::merge(int32_t choice, scheduler::Event event) {
  Delta& delta = unread_[static_cast<size_t>(last_of_choice_[static_cast<size_t>(choice)])];
  delta.tokens += event.token.has_value() ? 1 : 0;
  delta.text += event.text;
  if (event.token) delta.ids.push_back(event.token->id);
  if (keep_sampled_ && event.token) delta.sampled.push_back(std::move(*event.token));
  std::move(event.prompt_scores.begin(), event.prompt_scores.end(), std::back_inserter(delta.prompt_scores));
  if (event.finish) {
    delta.finish = event.finish;
    delta.stop_string = std::move(event.stop_string);
    delta.stop_token = event.stop_token;
    delta.error = std::move(event.error);
  }
  delta.prompt_tokens = std::max(delta.prompt_tokens, event.prompt_tokens);
  delta.completion_tokens = std::max(delta.completion_tokens, event.completion_tokens);
  delta.cached_tokens = std::max(delta.cached_tokens, event.cached_tokens);
  delta.from_tiers = event.from_tiers;
  delta.cache_exit_at = event.cache_exit_at;
  delta.cache_exit = event.cache_exit;
}

std::vector<Delta> Inbox::take() {
  const std::lock_guard lock(mutex_);
  notified_ = false;
  std::fill(last_of_choice_.begin(), last_of_choice_.end(), -1);
  return std::exchange(unread_, {});
}

bool Inbox::finished() const {
  const std::lock_guard lock(mutex_);
  return running_ == 0;
}

bool Inbox::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

}  // namespace pagoda::api
