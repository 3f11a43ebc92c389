#include "sizing/kv_bytes.h"

#include <gtest/gtest.h>

#include <vector>

namespace pagoda::sizing {
namespace {

constexpr KvNumbers kF16{16, 0, 0}, kInt8{8, 4, 0}, kInt4{4, 4, 32};

// Goal: the formula gives the table beside it and known models. Method: by hand; Qwen2.5-1.5B has 28 layers of 2 x 128
// (KERNELS 4: 28 KiB a token in f16), a head of 80 has three groups of int4.
TEST(KvBytes, OfTypesAndModels) {
  const AttentionShape one{1, 1, 128, 0};
  EXPECT_EQ(kv_token_bytes(one, {32, 0, 0}, {32, 0, 0}), 2 * 512);
  EXPECT_EQ(kv_token_bytes(one, kF16, kF16), 2 * 256);
  EXPECT_EQ(kv_token_bytes(one, kInt8, kInt8), 2 * 132);
  EXPECT_EQ(kv_token_bytes(one, kInt8, kInt4), 132 + 80);
  EXPECT_EQ(kv_token_bytes({1, 2, 80, 0}, kF16, kInt4), 2 * (160 + 40 + 3 * 4));
  const std::vector<AttentionShape> qwen(28, {12, 2, 128, 0});
  EXPECT_EQ(kv_token_bytes(qwen, kF16, kF16), 28 << 10);
  EXPECT_EQ(kv_token_bytes(qwen, kInt8, kInt8), 28 * 2 * 2 * 132);
}

// Goal: layers with windows need no more than these. Method: gemma3:270m, 3 of 18 layers see everything, by hand.
TEST(KvBytes, OfASequenceThatLeavesItsWindows) {
  std::vector<AttentionShape> gemma(15, {4, 1, 256, 512});
  gemma.insert(gemma.end(), 3, {4, 1, 256, 0});
  const int64_t layer = 2 * 256 * 2;
  EXPECT_EQ(kv_sequence_bytes(gemma, kF16, kF16, 300, 256), 300 * 18 * layer);
  EXPECT_EQ(kv_sequence_bytes(gemma, kF16, kF16, 8192, 256), (3 * 8192 + 15 * 768) * layer);
}

}  // namespace
}  // namespace pagoda::sizing
