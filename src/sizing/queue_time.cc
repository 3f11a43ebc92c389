#include "sizing/queue_time.h"

#include <algorithm>
#include <cmath>

namespace pagoda::sizing {

int64_t us_per_place(const StepCost& cost, const QueueFacts& queue) {
  if (!cost.known()) return 0;
  const int32_t slots = std::max(queue.slots, 1), rows = std::max(queue.rows_per_step, 1);
  const auto prompt_step = static_cast<double>(cost.predict_us(chunk_work(0, rows)));
  const auto decode_step = static_cast<double>(cost.predict_us({slots, int64_t{slots} * queue.context}));
  return std::llround(prompt_step * queue.prompt_rows / rows + decode_step * queue.answer_tokens / slots);
}

}  // namespace pagoda::sizing
