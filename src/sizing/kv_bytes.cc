#include "sizing/kv_bytes.h"

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

}  // namespace pagoda::sizing
