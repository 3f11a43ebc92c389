#include "sizing/kv_bytes.h"

#include <algorithm>

#include "core/ids.h"

namespace pagoda::sizing {
namespace {

int64_t head_bytes(const KvNumbers& numbers, int32_t head_dim) {
  const int64_t scales = numbers.scale_values > 0 ? div_ceil(head_dim, numbers.scale_values) : 1;
  return int64_t{head_dim} * numbers.bits / 8 + scales * numbers.scale_bytes;
}

}  // namespace

int64_t kv_token_bytes(const AttentionShape& layer, const KvNumbers& k, const KvNumbers& v) {
  return layer.kv_heads * (head_bytes(k, layer.head_dim) + head_bytes(v, layer.head_dim));
}

int64_t kv_token_bytes(std::span<const AttentionShape> layers, const KvNumbers& k, const KvNumbers& v) {
  int64_t bytes = 0;
  for (const AttentionShape& layer : layers) bytes += kv_token_bytes(layer, k, v);
  return bytes;
}

int64_t kv_sequence_bytes(std::span<const AttentionShape> layers, const KvNumbers& k, const KvNumbers& v,
                          int32_t tokens, int32_t step_tokens) {
  int64_t bytes = 0;
  for (const AttentionShape& layer : layers) {
    const int64_t seen = layer.window > 0 ? std::min<int64_t>(tokens, int64_t{layer.window} + step_tokens) : tokens;
    bytes += seen * kv_token_bytes(layer, k, v);
  }
  return bytes;
}

}  // namespace pagoda::sizing
