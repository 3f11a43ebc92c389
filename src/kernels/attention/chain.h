#pragma once
#include "kernels/attention/attention.h"
#include "kernels/vector_math/scalar_math.h"

namespace pagoda::kernels {

// What every attention kernel shares: where bytes lie, which tokens a row sees, how chunk results merge.

/// Query (row, head) pairs in flight in one call: row-major, heads innermost. Bounds the scratch whatever the prompt's
/// length.
constexpr int32_t kTilePairs = 96;
/// Pairs whose scores of one chunk are in flight at once: 6 x 16 tokens fill the 16 registers of AVX2.
constexpr int32_t kPairGroup = 6;

/// Scratch of one thread, cut from the caller's bytes.
struct AttentionScratch {
  float* q;       // [kTilePairs, Dh] queries times the score scale, in a layout of the kernel\'s choice
  float* merged;  // [kTilePairs, Dh] weighted value sums of the chunks so far
  float* chunk;   // [kPairGroup, Dh] the same of this chunk alone
  float* scores;  // [kPairGroup, 256] scores of this chunk, then probabilities
};

[[gnu::always_inline]] inline AttentionScratch attention_scratch(std::byte* bytes, int32_t head_dim) {
  AttentionScratch s;
  s.q = reinterpret_cast<float*>(bytes);
  s.merged = s.q + int64_t{kTilePairs} * head_dim;
  s.chunk = s.merged + int64_t{kTilePairs} * head_dim;
  s.scores = s.chunk + int64_t{kPairGroup} * head_dim;
  return s;
}

/// Bytes of one K or V value.
[[gnu::always_inline]] inline int64_t kv_value_bytes(KvType type) { return type == KvType::kF16 ? 2 : 4; }

/// K of one head in one block: [Dh, 16].
[[gnu::always_inline]] inline const std::byte* k_of(const KvLayer& kv, BlockId block, int32_t head) {
  const int64_t head_values = int64_t{kv.head_dim} * kBlockTokens;
  return kv.base + static_cast<int64_t>(block) * kv.block_stride_bytes + head * head_values * kv_value_bytes(kv.type);
}

/// V of one head in one block: [16, Dh].
[[gnu::always_inline]] inline const std::byte* v_of(const KvLayer& kv, BlockId block, int32_t head) {
  return k_of(kv, block, kv.kv_heads + head);
}

/// Positions a query at `position` sees: [begin, end).
[[gnu::always_inline]] inline Range visible(int32_t position, int32_t window) {
  const int32_t end = position + 1;
  return {window > 0 && end > window ? end - window : 0, end};
}

/// The part of `seen` inside chunk number `chunk`; empty if the row does not see that chunk.
[[gnu::always_inline]] inline Range in_chunk(Range seen, int32_t chunk) {
  const int32_t begin = chunk * kChunkTokens, end = begin + kChunkTokens;
  return {seen.begin > begin ? seen.begin : begin, seen.end < end ? seen.end : end};
}

/// log2(e) is folded into the scale, so that probabilities are exp2(score - max). A softcap sits between the two.
[[gnu::always_inline]] inline float query_scale(const AttentionArgs& args) {
  return args.softcap > 0.f ? args.scale : args.scale * math::kLog2E;
}

/// A row's maximal score and its sum of probabilities relative to that maximum.
struct MaxSum {
  float max;
  float sum;
};

/// Merge of a chunk's (m, l, O) into (M, L, A): M' = max(M, m), a = 2^(M - M'), b = 2^(m - M'),
/// L' = fma(L, a, l b), A' = fma(A, a, O b). The first chunk is taken as it is. Merges (m, l), returns (a, b).
struct MergeWeights {
  float merged;
  float chunk;
};
[[gnu::always_inline]] inline MergeWeights merge_max_sum(MaxSum& total, MaxSum part) {
  const float max = part.max > total.max ? part.max : total.max;
  const MergeWeights weights{math::exp2(total.max - max), math::exp2(part.max - max)};
  total = {max, __builtin_fmaf(total.sum, weights.merged, part.sum * weights.chunk)};
  return weights;
}

}  // namespace pagoda::kernels
