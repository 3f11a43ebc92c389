#include "scheduler/transcript.h"

#include <algorithm>

namespace pagoda::scheduler {

Transcript::Transcript(const text::Tokenizer* tokenizer, const Request& request, int32_t max_model_len)
    : tokenizer_(tokenizer),
      request_(request),
      completion_max_(std::min(request.max_tokens, max_model_len - static_cast<int32_t>(request.prompt.size()))),
      stops_(request.stop, request.include_stop_str_in_output) {
  if (tokenizer == nullptr) return;
  const std::span<const TokenId> shown =
      request.shown_tokens ? std::span<const TokenId>(*request.shown_tokens) : std::span<const TokenId>();
  detokenizer_.emplace(*tokenizer, request.skip_special_tokens, /*at_start=*/false, shown);
}

/// Appends text that a stop string may cut.
void Transcript::match(std::string_view piece, Step& step) {
  text::StopMatcher::Step matched = stops_.push(piece);
  step.text += matched.text;
  if (!matched.stopped) return;
  step.finish = FinishReason::kStop;
  step.stop_string = std::move(matched.matched);
}

/// Nothing follows: whatever is held comes out, and may still complete a stop string.
void Transcript::close(Step& step) {
  if (detokenizer_) match(detokenizer_->finish(), step);
  if (step.stop_string.empty()) step.text += stops_.finish();
}

Transcript::Step Transcript::push(TokenId id) {
  ++completion_tokens_;
  const bool may_stop = completion_tokens_ > request_.sampling.min_tokens;
  const bool stop_id =
      std::find(request_.stop_token_ids.begin(), request_.stop_token_ids.end(), id) != request_.stop_token_ids.end();
  const bool known = tokenizer_ != nullptr && tokenizer_->valid(id);  // a model may have more rows than its vocabulary
  const bool end_id = !request_.ignore_eos && known && tokenizer_->is_end_of_generation(id);

  Step step;
  if (may_stop && (stop_id || end_id)) {
    if (known && request_.include_stop_str_in_output) step.text = detokenizer_->push(id);
    close(step);
    step.finish = FinishReason::kStop;
    step.stop_token = id;
    return step;
  }
  if (known) {
    std::string piece = detokenizer_->push(id);
    if (may_stop)
      match(piece, step);
    else
      step.text = std::move(piece);
  }
  if (!step.finish && completion_tokens_ >= completion_max_) {
    close(step);
    if (!step.finish) step.finish = FinishReason::kLength;
  }
  return step;
}

std::string Transcript::flush() {
  Step step;
  close(step);
  return std::move(step.text);
}

}  // namespace pagoda::scheduler
