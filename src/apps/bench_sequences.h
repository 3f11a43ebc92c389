#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/clock.h"
#include "core/ids.h"
#include "core/result.h"
#include "engine/cpu_engine.h"
#include "sampling/params.h"

namespace pagoda::apps {

/// A text of arbitrary tokens with cache blocks of its own. Its cache holds what the model itself computed for the
/// first `filled` tokens: every measurement prefills or decodes this same text, so what it writes are the same bytes.
struct BenchSequence {
  std::vector<TokenId> tokens;
  std::vector<BlockId> blocks;
  int32_t filled = 0;
};

/// Drives the engine itself, without scheduler and queues: what is timed is steps.
class SequenceRunner {
 public:
  /// rows_max: rows of a prefill step, at most the engine's max_num_batched_tokens.
  SequenceRunner(engine::CpuEngine& engine, int32_t rows_max) : engine_(engine), rows_max_(rows_max) {
    greedy_.temperature = 0;
  }

  /// A sequence of `tokens` tokens in the next free blocks. Sequences of different `index` differ. Error kNoCapacity
  /// with the numbers when the pool is too small.
  Result<BenchSequence> make(int32_t tokens, int32_t index);

  /// Makes sure that the first `tokens` tokens are cached.
  Status fill(BenchSequence& sequence, int32_t tokens);

  /// Seconds to prefill the first `tokens` tokens from nothing, the last one's logits and choice included.
  Result<double> time_prefill(BenchSequence& sequence, int32_t tokens);

  /// Seconds a step in which each sequence decodes its token at `context`, `context` + 1, ... (`steps` of them), logits
  /// and choice included. The texts must have context + steps tokens; what is missing in the caches is filled before.
  Result<double> time_decode(std::span<BenchSequence> sequences, int32_t context, int32_t steps);

  int32_t blocks_used() const { return next_block_; }

 private:
  /// One step of tokens [begin, begin + count) of each sequence.
  Status step(std::span<BenchSequence> sequences, int32_t begin, int32_t count, bool sample);
  Status prefill(BenchSequence& sequence, int32_t begin, int32_t end);

  engine::CpuEngine& engine_;
  int32_t rows_max_;
  int32_t next_block_ = 0;
  SteadyClock clock_;
  sampling::SamplingParams greedy_{};
};

}  // namespace pagoda::apps
