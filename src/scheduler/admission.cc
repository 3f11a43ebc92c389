#include "scheduler/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/check.h"

namespace pagoda::scheduler {
namespace {

/// Of the longest sequence that the pool holds, if it is alone.
int64_t pool_tokens(const Limits& limits) {
  if (limits.mode != SchedulingMode::kPaged) return int64_t{limits.total_blocks / limits.shape.pages()} * kBlockTokens;
  return limits.shape.tokens_in(limits.total_blocks, limits.max_num_batched_tokens);
}

Error invalid(const char* param, std::string message) {
  return Error{Code::kInvalidRequest, std::move(message), param};
}

/// Ids that would end the choice are masked until it has min_tokens.
void suppress_endings(sampling::SamplingParams& sampling, const Request& request, const text::Tokenizer* tokenizer) {
  if (sampling.min_tokens <= 0) return;
  std::vector<TokenId>& ids = sampling.suppressed_until_min_tokens;
  ids.insert(ids.end(), request.stop_token_ids.begin(), request.stop_token_ids.end());
  if (tokenizer != nullptr && !request.ignore_eos) {
    const text::VocabSpec& spec = tokenizer->spec();
    ids.insert(ids.end(), spec.end_of_generation.begin(), spec.end_of_generation.end());
    ids.insert(ids.end(), {spec.eos, spec.eot});
    std::erase_if(ids, [&](TokenId id) { return !tokenizer->valid(id); });
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace

namespace {

Status check_beams(const Request& request, const Limits& limits) {
  const sampling::BeamParams& beam = request.beam;
  if (beam.width == 0) return ok_status();
  if (beam.width < request.n)
    return invalid("n", fmt::format("n is {}, a beam search of width {} has no more answers", request.n, beam.width));
  if (beam.width > kBeamWidthMax)
    return invalid("beam_width", fmt::format("beam_width is {}, limit {}", beam.width, kBeamWidthMax));
  if (limits.mode != SchedulingMode::kPaged)
    return invalid("use_beam_search", fmt::format("beam search needs paged scheduling, this server schedules by {}",
                                                  name_of(limits.mode)));
  if (request.max_tokens < 1) return invalid("max_tokens", "max_tokens is 0, a beam search needs at least 1");
  if (!request.stop.empty()) return invalid("stop", "stop strings cannot end a beam: use stop_token_ids");
  return ok_status();
}

/// Of how many sequences a request consists at most.
int64_t sequences_of(const Request& request) { return std::max(request.n, request.beam.width); }

/// The engine brings candidates; which of them go on is the search's to say.
void begin_beams(RequestState& owner, Sequence& first, const text::Tokenizer* tokenizer) {
  Request& request = owner.request;
  const auto is_end = [&request, tokenizer](TokenId id) {
    if (std::ranges::find(request.stop_token_ids, id) != request.stop_token_ids.end()) return true;
    return !request.ignore_eos && tokenizer != nullptr && tokenizer->valid(id) && tokenizer->is_end_of_generation(id);
  };
  owner.beams = std::make_unique<BeamGroup>(
      BeamGroup{.search = sampling::BeamSearch(request.beam, request.n, first.prompt_tokens, first.answer_tokens_max,
                                               request.sampling.logprobs, is_end),
                .live = {&first}});
  request.sampling = {
      .temperature = 0.f,
      .logprobs = std::max(request.sampling.logprobs, sampling::BeamSearch::candidates(request.beam.width))};
}

}  // namespace

int32_t context_limit(const Limits& limits) {
  return static_cast<int32_t>(std::min<int64_t>(limits.max_model_len, pool_tokens(limits)));
}

Status check_request(const Request& request, const Limits& limits) {
  if (request.prompt.empty()) return invalid("prompt", "prompt has 0 tokens, at least 1 is needed");
  if (request.n < 1) return invalid("n", fmt::format("n is {}, at least 1 is needed", request.n));
  if (request.max_tokens < 0)
    return invalid("max_tokens", fmt::format("max_tokens is {}, limit 0", request.max_tokens));
  for (const std::string& stop : request.stop)
    if (stop.empty()) return invalid("stop", "stop holds an empty string");

  if (request.priority != 0 && limits.policy != Policy::kPriority)
    return invalid("priority", fmt::format("priority is {}, but this server schedules by {}: start it with "
                                           "--scheduling-policy priority",
                                           request.priority, name_of(limits.policy)));
  if (request.deadline_us < 0 || request.deadline_us > kDeadlineUsMax)
    return invalid("deadline_ms", fmt::format("the deadline is {} us, limit {}", request.deadline_us, kDeadlineUsMax));

  PAGODA_TRY_STATUS(check_beams(request, limits));

  const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
  const int64_t needed = prompt_tokens + (request.max_tokens > 0 ? 1 : 0);
  if (needed > limits.max_model_len)
    return invalid("prompt", fmt::format("prompt has {} tokens{}, max_model_len is {}", prompt_tokens,
                                         request.max_tokens > 0 ? " and needs room for at least 1 more" : "",
                                         limits.max_model_len));
  // The last token of an answer is never read back, so it needs no place in the cache.
  const int64_t longest = std::min<int64_t>(prompt_tokens + request.max_tokens, limits.max_model_len);
  const int64_t cached = longest - (request.max_tokens > 0 ? 1 : 0);
  if (cached > pool_tokens(limits))
    return invalid("max_tokens",
                   fmt::format("prompt of {} tokens and max_tokens {} need {} tokens of KV cache, the whole "
                               "cache holds {}",
                               prompt_tokens, request.max_tokens, cached, pool_tokens(limits)));
  return ok_status();
}

bool wants_prompt_scores(const Request& request) {
  return request.prompt_logprobs.has_value() || !request.score_ids.empty();
}

Status check_queue(const Request& request, const Queued& queued, const Limits& limits) {
  if (queued.sequences + sequences_of(request) > limits.max_queued)
    return Error{Code::kNoCapacity, fmt::format("{} sequences wait and {} more were asked for, limit {}",
                                                queued.sequences, sequences_of(request), limits.max_queued)};
  const int64_t tokens = std::ssize(request.prompt) * (request.beam.width > 0 ? 1 : request.n);
  // One alone is always taken: it would never get in otherwise.
  if (limits.max_queued_tokens > 0 && queued.sequences > 0 && queued.prompt_tokens + tokens > limits.max_queued_tokens)
    return Error{Code::kNoCapacity, fmt::format("{} prompt tokens wait and {} more were asked for, limit {}",
                                                queued.prompt_tokens, tokens, limits.max_queued_tokens)};
  return ok_status();
}

std::vector<std::unique_ptr<Sequence>> make_choices(Request request, const text::Tokenizer* tokenizer,
                                                    const Limits& limits) {
  auto owner = std::make_shared<RequestState>();
  owner->request = std::move(request);
  Request& kept = owner->request;
  suppress_endings(kept.sampling, kept, tokenizer);
  owner->score = {.top = kept.prompt_logprobs.value_or(0), .ids_at = kept.score_ids};
  std::vector<std::unique_ptr<Sequence>> choices;
  const int32_t sequences = kept.beam.width > 0 ? 1 : kept.n;  // the others are beams that fork from it
  for (int32_t i = 0; i < sequences; ++i) {
    auto seq = std::make_unique<Sequence>();
    seq->answer_tokens_max = std::min(kept.max_tokens, limits.max_model_len - static_cast<int32_t>(kept.prompt.size()));
    seq->history = kept.prompt;
    seq->prompt_tokens = static_cast<int32_t>(kept.prompt.size());
    seq->choice = i;
    seq->owner = owner;
    // Nobody reads scores of the other choices: they count as delivered.
    if (i > 0 || !wants_prompt_scores(kept)) seq->prompt_scored = seq->prompt_tokens;
    choices.push_back(std::move(seq));
  }
  if (kept.beam.width > 0) begin_beams(*owner, *choices.front(), tokenizer);
  return choices;
}

}  // namespace pagoda::scheduler
