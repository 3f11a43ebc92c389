#include "apps/bench_sequences.h"

#include <fmt/format.h>

#include <algorithm>

namespace pagoda::apps {

Result<BenchSequence> SequenceRunner::make(int32_t tokens, int32_t index) {
  const int32_t blocks = div_ceil(tokens, kBlockTokens);
  if (next_block_ + blocks > engine_.info().total_blocks)
    return Error{Code::kNoCapacity, fmt::format("sequences of {} blocks do not fit the KV cache of {} blocks",
                                                next_block_ + blocks, engine_.info().total_blocks)};
  BenchSequence s;
  const int64_t vocab = engine_.info().vocab_size;
  for (int32_t i = 0; i < tokens; ++i)
    s.tokens.push_back(static_cast<TokenId>((int64_t{7919} * (i + 1 + 31 * index)) % vocab));
  for (int32_t b = 0; b < blocks; ++b) s.blocks.push_back(BlockId{static_cast<uint32_t>(next_block_++)});
  return s;
}

Status SequenceRunner::step(std::span<BenchSequence> sequences, int32_t begin, int32_t count, bool sample) {
  engine::Batch batch;
  for (const BenchSequence& s : sequences)
    batch.chunks.push_back({.id = SeqId{1},
                            .history = std::span(s.tokens).first(static_cast<size_t>(begin + count)),
                            .begin = begin,
                            .count = count,
                            .blocks = s.blocks,
                            .sample = sample,
                            .params = &greedy_,
                            .prompt_tokens = 1,
                            .sample_index = 0});
  PAGODA_TRY(const engine::StepOutput out, engine_.run(batch));
  for (const engine::ChunkOutput& chunk : out.chunks)
    if (chunk.error) return *chunk.error;
  for (BenchSequence& s : sequences) s.filled = std::max(s.filled, begin + count);
  return ok_status();
}

Status SequenceRunner::prefill(BenchSequence& sequence, int32_t begin, int32_t end) {
  for (int32_t at = begin; at < end; at += rows_max_) {
    const int32_t count = std::min(rows_max_, end - at);
    PAGODA_TRY_STATUS(step({&sequence, 1}, at, count, at + count == end));
  }
  return ok_status();
}

Status SequenceRunner::fill(BenchSequence& sequence, int32_t tokens) {
  return prefill(sequence, sequence.filled, tokens);
}

Result<double> SequenceRunner::time_prefill(BenchSequence& sequence, int32_t tokens) {
  const int64_t begin = clock_.now_us();
  PAGODA_TRY_STATUS(prefill(sequence, 0, tokens));
  return static_cast<double>(clock_.now_us() - begin) * 1e-6;
}

Result<double> SequenceRunner::time_decode(std::span<BenchSequence> sequences, int32_t context, int32_t steps) {
  for (BenchSequence& sequence : sequences) PAGODA_TRY_STATUS(fill(sequence, context));
  const int64_t begin = clock_.now_us();
  for (int32_t i = 0; i < steps; ++i) PAGODA_TRY_STATUS(step(sequences, context + i, 1, true));
  return static_cast<double>(clock_.now_us() - begin) * 1e-6 / steps;
}

}  // namespace pagoda::apps
