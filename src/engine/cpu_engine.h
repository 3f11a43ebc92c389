#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/thread_pool.h"
#include "engine/batch.h"
#include "kernels/attention/attention.h"
#include "model/config.h"
#include "weights/gguf.h"

namespace pagoda::engine {

/// What the operator may choose; 0 (of `isa`, nothing: 0 is the portable level) means "decide for me".
struct EngineOptions {
  int32_t threads = 0;            // default_threads()
  std::optional<uint32_t> isa{};  // a level of isa::; isa::level_from_environment()
  int32_t max_num_seqs = 64;
  int32_t max_num_batched_tokens = 256;
  int32_t max_model_len = 0;        // the model's context length
  double memory_utilization = 0.9;  // share of available memory that weights and KV may use, (0, 1]
  int64_t kv_cache_bytes = 0;       // KV pool, instead of memory_utilization
  kernels::KvTypes kv_types{};      // how K and V are stored
  /// Layers with a sliding window keep their K and V in pages of their own, so that a scheduler can free what they do
  /// not see any more (kv_layout). Whoever builds batches by hand then gives a table for each page of a block.
  bool pages_by_window = false;
  std::function<void(double)> progress{};  // loading, 0..1; called from the loading thread
  /// For tests (one row of a batch goes bad): may change a row's raw logits; called on the engine's threads.
  std::function<void(SeqId, int32_t position, std::span<float>)> alter_logits{};
};

/// What came of it.
struct EngineInfo {
  std::string architecture;
  std::string model_name;  // general.name, "" if absent
  std::string isa;
  int32_t threads;
  int32_t vocab_size;
  int32_t context_length;  // of the model file
  int32_t max_model_len;   // served
  int32_t total_blocks;    // KV pool, in pages where a block is several
  kvcache::BlockShape block_shape;
  int64_t weight_bytes;        // packed, resident
  int64_t kv_bytes_per_token;  // of all layers, padding included
  kernels::KvTypes kv_types;
  int64_t parameters;
};

/// What CpuEngine::load() would take, in bytes, without reading a matrix.
struct EnginePlan {
  model::ModelConfig config;
  int64_t weight_bytes;    // packed
  int64_t key_bias_bytes;  // model::KeyBiases; 0 unless K is quantized and has biases
  int64_t kv_block_bytes;  // over all layers
  int32_t max_model_len;   // tokens
  int32_t total_blocks;    // KV pool, in pages where a block is several
  kvcache::BlockShape block_shape;
  int64_t page_bytes;        // of one of them, padding included
  int64_t pages_of_longest;  // of a sequence of max_model_len tokens
  int64_t scratch_bytes;     // activations and logits of the largest step
  int32_t threads;
  std::optional<Error> refusal{};  // why load() would refuse: no room for the KV pool (total_blocks is 0 then)

  int64_t kv_pool_bytes() const { return page_bytes * total_blocks; }
  /// Of one sequence of max_model_len tokens, at its most; and so many of them the pool holds.
  int64_t kv_sequence_bytes() const { return pages_of_longest * page_bytes; }
  int64_t longest_sequences() const { return total_blocks / pages_of_longest; }
  /// Tokens in the pool if no sequence leaves a window.
  int64_t kv_pool_tokens() const { return int64_t{total_blocks / block_shape.pages()} * kBlockTokens; }
};

/// The engine on the CPU: packed weights, KV storage, one thread pool.
class CpuEngine : public Engine {
 public:
  /// Packs the weights of `file` (in parallel) and sizes the KV pool: min(what max_num_seqs x max_model_len can use,
  /// memory_utilization x available memory - weights - 512 MiB), touched on first use.
  /// Errors: kUnsupported (architecture or tensor type, naming it), kCorruptFile (missing or misshapen tensor),
  /// kNoCapacity with the numbers and three ways out.
  static Result<std::unique_ptr<CpuEngine>> load(const weights::GgufFile& file, const EngineOptions& options);
  /// Errors: as load(), but for the pool (EnginePlan::refusal).
  static Result<EnginePlan> plan(const weights::GgufFile& file, const EngineOptions& options);
  virtual const EngineInfo& info() const = 0;
  /// Sizes for cost formulas.
  virtual const model::ModelConfig& config() const = 0;
  /// The packed matrices, in the order a step reads them: what a bandwidth measurement should read.
  virtual std::span<const std::byte> packed_weights() const = 0;
  /// Returns when the weights lie in the pages they stay in: for who measures decoding (model::Weights::settle).
  virtual void settle_memory() = 0;
  /// The threads that run steps; whoever measures the machine between two steps should do it with them.
  virtual ThreadPool& thread_pool() = 0;
};

}  // namespace pagoda::engine
