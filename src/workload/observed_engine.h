#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/batch.h"

namespace pagoda::workload {

/// Passes every batch on and remembers how large they were.
class ObservedEngine final : public engine::Engine {
 public:
  explicit ObservedEngine(engine::Engine& inner) : inner_(inner) {}

  Result<engine::StepOutput> run(const engine::Batch& batch) override {
    int32_t prompt_rows = 0;
    for (const engine::SequenceChunk& chunk : batch.chunks)
      if (chunk.count > 1 || chunk.begin + 1 < static_cast<int32_t>(chunk.history.size())) prompt_rows += chunk.count;
    ++steps_;
    sequences_ = std::max(sequences_, static_cast<int32_t>(batch.chunks.size()));
    prompt_rows_ = std::max(prompt_rows_, prompt_rows);
    return inner_.run(batch);
  }

  int64_t block_bytes() const override { return inner_.block_bytes(); }
  kvcache::BlockShape block_shape() const override { return inner_.block_shape(); }
  void save_block(kvcache::Pages pages, std::span<std::byte> into) const override { inner_.save_block(pages, into); }
  void load_block(kvcache::Pages pages, std::span<const std::byte> from) override { inner_.load_block(pages, from); }

  /// What was seen so far does not count.
  void forget() { steps_ = sequences_ = prompt_rows_ = 0; }

  int32_t steps() const { return steps_; }
  int32_t sequences() const { return sequences_; }      // in one step, at most
  int32_t prompt_rows() const { return prompt_rows_; }  // in one step, at most: rows of chunks that are no decode

 private:
  engine::Engine& inner_;
  int32_t steps_ = 0;
  int32_t sequences_ = 0;
  int32_t prompt_rows_ = 0;
};

/// Computes nothing and samples token 0: for rehearsing what a scheduler does with a load whose lengths are fixed.
class NullEngine final : public engine::Engine {
 public:
  /// `block_bytes`: of the engine that it stands for, whose blocks may go to other tiers; nothing is copied.
  explicit NullEngine(int64_t block_bytes) : block_bytes_(block_bytes) {}

  int64_t block_bytes() const override { return block_bytes_; }
  Result<engine::StepOutput> run(const engine::Batch& batch) override {
    engine::StepOutput out;
    for (const engine::SequenceChunk& chunk : batch.chunks) {
      out.chunks.emplace_back();
      if (chunk.sample) out.chunks.back().token = sampling::SampledToken{.id = 0};
    }
    return out;
  }

 private:
  const int64_t block_bytes_;
};

}  // namespace pagoda::workload
