#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/huge_buffer.h"
#include "core/result.h"
#include "core/tensor_view.h"
#include "engine/batch.h"
#include "engine/cpu_engine.h"
#include "kernels/attention/attention.h"
#include "model/config.h"
#include "model/key_bias.h"
#include "sizing/kv_bytes.h"

namespace pagoda::engine {

/// Bytes of one block over all layers: sizing::kv_token_bytes() x 16.
int64_t kv_block_bytes(const model::ModelConfig& config, kernels::KvTypes types);

/// The type in the plain numbers of the cost formulas.
sizing::KvNumbers kv_numbers(kernels::KvType type);

/// What decides how many KV blocks there are.
struct KvDemand {
  int32_t max_num_seqs;
  int32_t max_model_len;  // tokens
  int64_t block_bytes;    // over all layers
  int64_t weight_bytes;
  int64_t memory_available_bytes;  // before weights were loaded
  double memory_utilization;       // (0, 1]
  int64_t kv_cache_bytes;          // 0 = from memory_utilization
};

/// Blocks of the pool: min(max_num_seqs x max_model_len, what the memory leaves). A pool sized by hand may be smaller
/// than one sequence (then long requests are refused one by one); a pool sized by memory must hold one. Error
/// kNoCapacity with the numbers and three ways out.
Result<int32_t> plan_kv_blocks(const KvDemand& demand);

/// The bytes of the KV cache, scales included: [block][layer], lowest blocks touched first, so an idle pool costs no
/// memory and a short conversation one huge page instead of one a layer.
class KvStorage {
 public:
  ///   biases   outlive the storage; what they hold of a layer's K is not stored
  static Result<KvStorage> create(const model::ModelConfig& config, kernels::KvTypes types,
                                  const model::KeyBiases& biases, int32_t total_blocks);
  std::span<const kernels::KvLayer> layers() const { return layers_; }
  int64_t block_bytes() const { return layers_.empty() ? 0 : layers_.front().block_stride_bytes; }
  /// All layers of one block lie side by side.
  std::span<std::byte> block(BlockId block) const;
  /// Copies one block in the given layers; threads may share out the layers.
  void copy(BlockCopy copy, Range layers) const;

 private:
  HugeBuffer buffer_;
  std::vector<kernels::KvLayer> layers_;
};

}  // namespace pagoda::engine
