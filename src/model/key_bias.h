#pragma once
#include <memory>
#include <vector>

#include "core/huge_buffer.h"
#include "core/result.h"
#include "kernels/ops.h"
#include "model/config.h"
#include "model/weights.h"

namespace pagoda::model {

/// The biases of K that stay out of the cache (kernels::KeyBias), turned to every position once: rope is linear, so
/// rope(k + b) = rope(k) + rope(b), and the second part depends on the position alone.
class KeyBiases {
 public:
  KeyBiases() = default;

  ///   k        how K is stored: only quantized types gain
  ///   tokens   longest sequence that will be served
  ///
  /// Bytes: 64 Hkv Dh a layer with a bias and 8 x rot/2 a block of `tokens`, once a rotation. Error kIo.
  static Result<KeyBiases> create(const ModelConfig& config, const Weights& weights, const kernels::Ops& ops,
                                  kernels::KvType k, int32_t tokens);

  /// For kernels::KvLayer: empty where the layer's K is stored whole (no bias, or a norm between bias and rope).
  kernels::KeyBias of(int32_t layer) const {
    return layers_.empty() ? kernels::KeyBias{} : layers_[static_cast<size_t>(layer)];
  }
  bool any() const { return buffer_.bytes() > 0; }
  int64_t bytes() const { return buffer_.bytes(); }

 private:
  HugeBuffer buffer_;
  std::vector<kernels::KeyBias> layers_;  // [L], or none
};

}  // namespace pagoda::model
