#include "model/key_bias.h"

#include <algorithm>

namespace pagoda::model {
namespace {

bool kept_apart(const LayerWeights& w) { return w.wk.bias != nullptr && w.k_norm == nullptr; }

/// bias [Hkv, Dh] turned to positions 0..15: [Hkv, Dh, 16].
void turn_to_slots(const ModelConfig& config, const LayerConfig& layer, const float* bias, const kernels::Ops& ops,
                   float* slots) {
  const RopeConfig& rope = config.rope[static_cast<size_t>(layer.rope)];
  const int32_t width = layer.kv_heads * config.head_dim;
  std::vector<float> turned(static_cast<size_t>(width)), cos_sin(static_cast<size_t>(config.rope_dims));
  for (int32_t slot = 0; slot < kBlockTokens; ++slot) {
    std::copy_n(bias, width, turned.begin());
    kernels::rope_angles(rope.frequencies, slot, rope.magnitude, cos_sin.data());
    ops.rope(turned.data(), layer.kv_heads, config.head_dim, config.rope_dims, config.family->pairing, cos_sin.data());
    for (int32_t i = 0; i < width; ++i) slots[i * kBlockTokens + slot] = turned[static_cast<size_t>(i)];
  }
}

}  // namespace

Result<KeyBiases> KeyBiases::create(const ModelConfig& config, const Weights& weights, const kernels::Ops& ops,
                                    kernels::KvType k, int32_t tokens) {
  KeyBiases biases;
  const int32_t count = static_cast<int32_t>(config.layers.size()), blocks = div_ceil(tokens, kBlockTokens);
  int64_t slot_floats = 0;
  for (int32_t l = 0; l < count; ++l)
    if (kept_apart(weights.layer(l)))
      slot_floats += int64_t{config.layers[static_cast<size_t>(l)].kv_heads} * config.head_dim * kBlockTokens;
  if (slot_floats == 0 || !kernels::is_quantized(k)) return biases;

  const int64_t turn_floats = int64_t{blocks} * config.rope_dims;
  const int64_t floats = slot_floats + turn_floats * static_cast<int64_t>(config.rope.size());
  PAGODA_TRY(biases.buffer_, HugeBuffer::allocate(floats * static_cast<int64_t>(sizeof(float))));
  auto* next = reinterpret_cast<float*>(biases.buffer_.data());
  std::vector<const float*> turns;
  for (const RopeConfig& rope : config.rope) {  // the magnitude is in the slots
    turns.push_back(next);
    for (int32_t m = 0; m < blocks; ++m, next += config.rope_dims)
      kernels::rope_angles(rope.frequencies, m * kBlockTokens, 1.f, next);
  }
  for (int32_t l = 0; l < count; ++l) {
    const LayerConfig& layer = config.layers[static_cast<size_t>(l)];
    const LayerWeights& w = weights.layer(l);
    biases.layers_.emplace_back();
    if (!kept_apart(w)) continue;
    turn_to_slots(config, layer, w.wk.bias, ops, next);
    biases.layers_.back() = {.slots = next,
                             .turns = turns[static_cast<size_t>(layer.rope)],
                             .rot = config.rope_dims,
                             .adjacent = config.family->pairing == kernels::RopePairing::kAdjacent};
    next += int64_t{layer.kv_heads} * config.head_dim * kBlockTokens;
  }
  return biases;
}

}  // namespace pagoda::model
