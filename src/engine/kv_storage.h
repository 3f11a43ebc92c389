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

/// Where the layers of a block lie: in one page, or cut by windows into pages of equal bytes.
struct KvLayout {
  struct Place {
    int32_t page;          // of the block's
    int64_t offset_bytes;  // in it
  };
  kvcache::BlockShape shape{};
  int64_t page_bytes = 0;  // padding included
  std::vector<Place> layers{};
};

/// Layers with a sliding window in pages of their own if `by_window` and a sequence of `max_model_len` tokens, computed
/// in steps of `step_tokens`, ever leaves something behind its window. A page holds as many layers as cost at most 1/16
/// of a block in padding: gemma3:270m 3 of its 18, so 1 page that is always read and 5 that are not. Where all layers
/// have windows, the pages of the first eighth of them stay nevertheless: a path must exist to be found.
KvLayout kv_layout(const model::ModelConfig& config, kernels::KvTypes types, int32_t max_model_len, int32_t step_tokens,
                   bool by_window);

/// The type in the plain numbers of the cost formulas.
sizing::KvNumbers kv_numbers(kernels::KvType type);

/// What decides how many KV blocks there are.
struct KvDemand {
  int32_t max_num_seqs;
  int32_t max_model_len;  // tokens
  kvcache::BlockShape shape{};
  int32_t step_tokens = 0;  // rows of a step at most
  int64_t page_bytes;       // over all layers, where a block is one page
  int64_t weight_bytes;
  int64_t memory_available_bytes;  // before weights were loaded
  double memory_utilization;       // (0, 1]
  int64_t kv_cache_bytes;          // 0 = from memory_utilization
};

/// Pages of the pool: min(max_num_seqs x those of max_model_len, what the memory leaves). A pool sized by hand may be
/// smaller than one sequence (then long requests are refused one by one); a pool sized by memory must hold one. Error
/// kNoCapacity with the numbers and three ways out.
Result<int32_t> plan_kv_blocks(const KvDemand& demand);

/// The bytes of the KV cache, scales included: [page][layer], lowest blocks touched first, so an idle pool costs no
/// memory and a short conversation one huge page instead of one a layer.
class KvStorage {
 public:
  ///   biases   outlive the storage; what they hold of a layer's K is not stored
  static Result<KvStorage> create(const model::ModelConfig& config, kernels::KvTypes types, const KvLayout& layout,
                                  const model::KeyBiases& biases, int32_t total_pages);
  std::span<const kernels::KvLayer> layers() const { return layers_; }
  const KvLayout& layout() const { return layout_; }
  /// Of a whole block, without padding.
  int64_t block_bytes() const { return block_bytes_; }
  /// A block's layers one after another, whatever its pages.
  void save(kvcache::Pages pages, std::span<std::byte> into) const;
  void load(kvcache::Pages pages, std::span<const std::byte> from) const;
  /// Copies pieces of one page, of copy_pieces(); threads may share them out.
  void copy(BlockCopy copy, Range pieces) const;
  int32_t copy_pieces() const;

 private:
  template <class F>
  void each_layer(kvcache::Pages pages, const F& f) const;  // f(bytes of the layer)

  HugeBuffer buffer_;
  KvLayout layout_{};
  int64_t block_bytes_ = 0;
  std::vector<kernels::KvLayer> layers_;
};

}  // namespace pagoda::engine
