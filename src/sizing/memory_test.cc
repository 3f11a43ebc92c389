// Goal: the memory formulas give what paper gives. Method: worked examples of known models.
#include "sizing/memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace pagoda::sizing {
namespace {

TEST(Memory, KvBytesOfKnownModels) {
  constexpr KvNumbers f16{16, 0, 0}, int8{8, 4, 0};
  // Llama-3-8B: 32 layers, 32 heads, 8 KV heads of 128, f16: 128 KiB a token; with multi-head attention four times
  // that.
  const std::vector<AttentionShape> llama(32, {32, 8, 128, 0});
  EXPECT_EQ(kv_bytes_per_token(llama, f16, f16).gqa, 131072);
  EXPECT_EQ(kv_bytes_per_token(llama, f16, f16).mha, 4 * 131072);
  EXPECT_EQ(kv_bytes_per_token(llama, f16, f16).mqa, 131072 / 8);
  EXPECT_EQ(kv_bytes_per_token(llama, int8, int8).mqa, 32 * 2 * (128 + 4));
  // smollm2-135m: 30 layers, 9 heads, 3 KV heads of 64.
  EXPECT_EQ(kv_bytes_per_token(std::vector<AttentionShape>(30, {9, 3, 64, 0}), f16, f16).gqa, 23040);
}

TEST(Memory, PartsAddUp) {
  const MemoryPlan plan{10000, 2000, 300, 40, 5, 6, 70000};  // what the kernel can take back is not in the peak
  EXPECT_EQ(plan.peak(), 12351);
  EXPECT_EQ(vocabulary_bytes(1000, 10), 100850);
  EXPECT_EQ(process_bytes(2, 100) - process_bytes(1, 0), (128 << 10) + 25600);
}

}  // namespace
}  // namespace pagoda::sizing
