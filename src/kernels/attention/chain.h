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
  float* k;       // [16, Dh, 16] this chunk's K where it is expanded
  float* v;       // [16, 16, Dh] its V
};

[[gnu::always_inline]] inline AttentionScratch attention_scratch(std::byte* bytes, int32_t head_dim) {
  AttentionScratch s;
  s.q = reinterpret_cast<float*>(bytes);
  s.merged = s.q + int64_t{kTilePairs} * head_dim;
  s.chunk = s.merged + int64_t{kTilePairs} * head_dim;
  s.scores = s.chunk + int64_t{kPairGroup} * head_dim;
  s.k = s.scores + kPairGroup * kChunkTokens;
  s.v = s.k + int64_t{kChunkTokens} * head_dim;
  return s;
}

/// Values that share one d and m in int4.
constexpr int32_t kInt4Group = 32;

/// Bytes of the numbers of one head's K or V in one block, without scales.
[[gnu::always_inline]] inline int64_t kv_number_bytes(KvType type, int32_t head_dim) {
  const int64_t values = int64_t{head_dim} * kBlockTokens;
  if (type == KvType::kInt4) return values / 2;
  return type == KvType::kF32 ? values * 4 : is_quantized(type) ? values : values * 2;
}

/// Bytes of one head's K or V in one block: a multiple of 64.
[[gnu::always_inline]] inline int64_t kv_head_bytes(KvType type, int32_t head_dim) {
  const int64_t scale_lines = type == KvType::kInt4 ? div_ceil(head_dim, kInt4Group) : is_quantized(type) ? 1 : 0;
  return kv_number_bytes(type, head_dim) + 64 * scale_lines;
}

/// K of one head in one block.
[[gnu::always_inline]] inline std::byte* k_of(const KvLayer& kv, BlockId block, int32_t head) {
  return kv.base + static_cast<int64_t>(block) * kv.block_stride_bytes + head * kv_head_bytes(kv.types.k, kv.head_dim);
}

/// V of one head in one block.
[[gnu::always_inline]] inline std::byte* v_of(const KvLayer& kv, BlockId block, int32_t head) {
  return k_of(kv, block, kv.kv_heads) + head * kv_head_bytes(kv.types.v, kv.head_dim);
}

/// K (or V, which has no bias) is read through f32 copies of its blocks.
[[gnu::always_inline]] inline bool expands_k(const KvLayer& kv) {
  return kv.types.k == KvType::kInt4 || kv.bias.slots != nullptr;
}
[[gnu::always_inline]] inline bool expands_v(const KvLayer& kv) { return kv.types.v == KvType::kInt4; }

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
