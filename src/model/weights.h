#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/fresh_pages.h"
#include "core/huge_buffer.h"
#include "core/result.h"
#include "core/thread_pool.h"
#include "kernels/ops.h"
#include "model/config.h"
#include "weights/gguf.h"

namespace pagoda::model {

/// y = W x + bias
struct Linear {
  kernels::PackedMatrix w{};
  const float* bias = nullptr;  // [N], null if none
};

/// Families that store q, k, v or gate, up as one tensor are cut apart when packed: a row of a file is whole blocks, so
/// a range of rows is a matrix of its own.
/// Shapes: wq [H*Dh, D], wk and wv [Hkv*Dh, D], wo [D, H*Dh], w_gate and w_up [F, D], w_down [D, F]. Gains are null
/// where the family has none.
struct LayerWeights {
  const float* attn_norm = nullptr;  // [D]
  Linear wq, wk, wv, wo;
  const float* q_norm = nullptr;          // [Dh]
  const float* k_norm = nullptr;          // [Dh]
  const float* post_attn_norm = nullptr;  // [D]
  const float* ffn_norm = nullptr;        // [D]
  Linear w_gate, w_up, w_down;
  const float* post_ffn_norm = nullptr;  // [D]
};

/// Rows of wq, wk and wv that one thread computes at once: whole heads, so that it can norm and rotate what it made.
struct QkvPart {
  Range q, k, v;
};
/// A unit is a head (or as many as row_grain asks for) of the query, then key, then value heads.
int32_t qkv_units(const LayerConfig& layer, int32_t head_dim, int32_t row_grain);
QkvPart qkv_part(Range units, const LayerConfig& layer, int32_t head_dim, int32_t row_grain);

/// All weights of a model in the layout of `ops`, in huge pages that all threads filled.
class Weights {
 public:
  /// Checks every tensor's presence, type and shape (errors name it, expected and actual), then packs in parallel. The
  /// file must outlive the weights: rows of an untied embedding are read from it. Errors: kCorruptFile, kUnsupported
  /// (type without weights, tensors this architecture has no use for), kIo.
  static Result<Weights> load(const weights::GgufFile& file, const ModelConfig& config, const kernels::Ops& ops,
                              ThreadPool& pool, const std::function<void(double)>& progress);

  /// What load() would make, for whoever wants its bytes() before a matrix is read: gains and biases are there, the
  /// matrices have shapes and no data. Errors: as load().
  static Result<Weights> outline(const weights::GgufFile& file, const ModelConfig& config, const kernels::Ops& ops);

  const LayerWeights& layer(int32_t l) const { return layers_[static_cast<size_t>(l)]; }
  const float* output_norm() const { return output_norm_; }  // [D]
  const Linear& head() const { return head_; }               // [V, D]
  int64_t bytes() const { return packed_.bytes() + vector_bytes_; }

  /// One row of the embedding [V, D] in f32, unscaled.
  void embed(const kernels::Ops& ops, TokenId token, float* row) const;

  /// All packed matrices, layer by layer, then the head.
  std::span<const std::byte> packed() const { return {packed_.data(), static_cast<size_t>(packed_.bytes())}; }

  /// Returns when the weights lie in the pages they stay in (FreshPages); until then reading them may be a sixth
  /// slower.
  void settle() const {
    if (pages_) pages_->settle_now();
  }

 private:
  friend class WeightLoader;
  std::vector<LayerWeights> layers_;
  const float* output_norm_ = nullptr;
  Linear head_;
  const weights::GgufTensor* embedding_ = nullptr;  // null when tied to the head
  HugeBuffer packed_;
  std::unique_ptr<FreshPages> pages_;              // of packed_; ends before it
  std::vector<std::unique_ptr<float[]>> vectors_;  // gains and biases
  int64_t vector_bytes_ = 0;
};

}  // namespace pagoda::model
