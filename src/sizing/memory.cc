#include "sizing/memory.h"

#include "sizing/kv_bytes.h"

namespace pagoda::sizing {

int64_t vocabulary_bytes(int64_t tokens, int64_t merges) { return 100 * tokens + 85 * merges; }

int64_t process_bytes(int32_t threads, int32_t blocks) {
  return 17'000'000 + (int64_t{128} << 10) * threads + int64_t{256} * blocks;
}

KvBytesPerToken kv_bytes_per_token(std::span<const AttentionShape> layers, const KvNumbers& k, const KvNumbers& v) {
  KvBytesPerToken bytes{};
  for (AttentionShape layer : layers) {
    bytes.gqa += kv_token_bytes(layer, k, v);
    layer.kv_heads = layer.heads;
    bytes.mha += kv_token_bytes(layer, k, v);
    layer.kv_heads = 1;
    bytes.mqa += kv_token_bytes(layer, k, v);
  }
  return bytes;
}

}  // namespace pagoda::sizing
