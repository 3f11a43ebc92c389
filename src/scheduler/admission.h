#pragma once
#include <memory>
#include <vector>

#include "core/result.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"

namespace pagoda::scheduler {

/// See Scheduler::context_limit().
int32_t context_limit(const Limits& limits);

inline constexpr int32_t kBeamWidthMax = 32;

/// What can be said about a request before it queues. Errors kInvalidRequest with field, value and limit:
/// empty prompt, prompt that leaves no room within max_model_len, more KV at its longest than the whole pool, n < 1,
/// negative max_tokens, an empty stop string, a deadline outside 0 to a day, a priority where nobody heeds it.
Status check_request(const Request& request, const Limits& limits);

/// True if somebody reads the logprobs of prompt tokens.
bool wants_prompt_scores(const Request& request);

/// What waits for a place.
struct Queued {
  int64_t sequences;
  int64_t prompt_tokens;
};
/// kNoCapacity with the numbers if `request` does not fit the queue as well.
Status check_queue(const Request& request, const Queued& queued, const Limits& limits);

/// One sequence a choice, without ids; of a beam search the first one. `tokenizer` (may be null) says which ids
/// min_tokens must hold back.
std::vector<std::unique_ptr<Sequence>> make_choices(Request request, const text::Tokenizer* tokenizer,
                                                    const Limits& limits);

}  // namespace pagoda::scheduler
