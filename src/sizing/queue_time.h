#pragma once
#include <cstdint>

#include "sizing/step_cost.h"

namespace pagoda::sizing {

/// A queue before a batch, in counts.
struct QueueFacts {
  int32_t slots = 1;            // sequences computed together
  int32_t prompt_rows = 1;      // of a mean prompt in the queue, tokens
  int32_t answer_tokens = 1;    // of a mean answer
  int32_t context = 0;          // a mean sequence's tokens while it answers
  int32_t rows_per_step = 256;  // token budget
};

/// How long until one more sequence has left, microseconds:
///
///   prompt_rows / rows_per_step * step(rows_per_step)  +  answer_tokens * step(slots) / slots
///
/// that is, each costs its prompt and its share of the steps it answers in. 0 while `cost` knows nothing.
int64_t us_per_place(const StepCost& cost, const QueueFacts& queue);

}  // namespace pagoda::sizing
