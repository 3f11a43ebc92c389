#pragma once
#include "kernels/attention/x86_avx2.h"
#include "kernels/lanes.h"

// For x86_avx2.cc alone: the inner loops over one chunk of 256 tokens.
//
// Work is cut into groups of up to six (row, head) pairs that share every K and V value loaded: at least eight fma
// chains run (six pairs x 16 tokens, three x 32, one x 64; the same for columns of V), which two fma units of latency
// four need. A pair's chain does not depend on which others it shares a group with.
namespace pagoda::kernels {
namespace {

constexpr int32_t kBlocksAChunk = kChunkTokens / kBlockTokens;
constexpr int32_t kValueBytes = 16384;  // V per pass over the columns: half of L1
constexpr int kAhead = 4;               // blocks between what is read and what is prefetched (into L2)
constexpr int32_t kFewBlocks = 2;       // expanded at once where one group reads them: they stay in L1

/// Up to six pairs at one chunk.
struct Group {
  int32_t pairs;
  const float* q;          // [Dh, kPairGroup] scaled queries: element d of pair n at d * kPairGroup + n
  float* scores;           // [pairs, 256]
  float* out[kPairGroup];  // [Dh] each: the chunk's weighted value sums
  Range part[kPairGroup];  // what each pair sees of the chunk, in [0, 256)
};

/// Blocks [first, first + count) of a chunk: where one head's K lies, then its V, then the K of the next chunk's first
/// blocks. This is the order in which memory is read, so the entry kAhead further on is what to prefetch: no prefetcher
/// of the CPU follows from one block to the next, and decode from memory without it is half as fast.
struct Blocks {
  int32_t first;
  int32_t count;
  const std::byte* data[2 * kBlocksAChunk + kAhead];

  const std::byte* const* k() const { return data; }
  const std::byte* const* v() const { return data + count; }
};

// The inner loops stay apart from their callers (noinline), or the compiler spills their pointers and sums.

// ---- scores ----

// Of N scalars and V vectors the fewer are held in registers and the others streamed: 12 sums and at most 4 operands.
// The sums are touched only here, never through a reference, or gcc keeps a copy of each in memory.

/// scores[n][16 (first + b) ..] for N pairs and B blocks: one fma chain over d a token lane.
template <class Type, int N, int B>
[[gnu::noinline]] void score_blocks(const float* q, const std::byte* const* k_blocks, int32_t head_dim, float* scores) {
  __m256 acc[N][2 * B];
  const typename Type::Stored *k[B], *ahead[B];
#pragma GCC unroll 12
  for (int b = 0; b < B; ++b) {
    k[b] = reinterpret_cast<const typename Type::Stored*>(k_blocks[b]);
    ahead[b] = reinterpret_cast<const typename Type::Stored*>(k_blocks[b + kAhead]);
  }
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 12
    for (int v = 0; v < 2 * B; ++v) acc[n][v] = _mm256_setzero_ps();
  for (int64_t d = 0; d < head_dim; ++d, q += kPairGroup) {
#pragma GCC unroll 12
    for (int b = 0; b < B; ++b)
      if (sizeof(typename Type::Stored) > 1 || d % 4 == 0) _mm_prefetch(ahead[b] + d * kBlockTokens, _MM_HINT_T1);
    if constexpr (N <= 2 * B) {
      __m256 query[N];
#pragma GCC unroll 12
      for (int n = 0; n < N; ++n) query[n] = _mm256_broadcast_ss(q + n);
#pragma GCC unroll 12
      for (int v = 0; v < 2 * B; ++v) {
        const __m256 key = Type::load(k[v / 2] + d * kBlockTokens + 8 * (v % 2));
#pragma GCC unroll 12
        for (int n = 0; n < N; ++n) acc[n][v] = _mm256_fmadd_ps(query[n], key, acc[n][v]);
      }
    } else {
      __m256 key[2 * B];
#pragma GCC unroll 12
      for (int v = 0; v < 2 * B; ++v) key[v] = Type::load(k[v / 2] + d * kBlockTokens + 8 * (v % 2));
#pragma GCC unroll 12
      for (int n = 0; n < N; ++n) {
        const __m256 query = _mm256_broadcast_ss(q + n);
#pragma GCC unroll 12
        for (int v = 0; v < 2 * B; ++v) acc[n][v] = _mm256_fmadd_ps(query, key[v], acc[n][v]);
      }
    }
  }
  if constexpr (Type::kScaled) {
#pragma GCC unroll 12
    for (int v = 0; v < 2 * B; ++v) {
      const auto* scales = reinterpret_cast<const float*>(k[v / 2] + int64_t{head_dim} * kBlockTokens);
      const __m256 scale = _mm256_loadu_ps(scales + 8 * (v % 2));
#pragma GCC unroll 12
      for (int n = 0; n < N; ++n) acc[n][v] = _mm256_mul_ps(acc[n][v], scale);
    }
  }
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 12
    for (int v = 0; v < 2 * B; ++v) _mm256_storeu_ps(scores + n * kChunkTokens + 8 * v, acc[n][v]);
}

template <class Type, int N>
void score_range(const Group& g, const Blocks& blocks, int32_t head_dim) {
  constexpr int kBlocks = N == 1 ? 4 : N <= 3 ? 2 : 1;
  float* scores = g.scores + blocks.first * kBlockTokens;
  int32_t b = 0;
  for (; b + kBlocks <= blocks.count; b += kBlocks)
    score_blocks<Type, N, kBlocks>(g.q, blocks.k() + b, head_dim, scores + b * kBlockTokens);
  for (; b < blocks.count; ++b) score_blocks<Type, N, 1>(g.q, blocks.k() + b, head_dim, scores + b * kBlockTokens);
}

template <class Type>
void scores_of(const Group& g, const Blocks& blocks, int32_t head_dim) {
  switch (g.pairs) {
    case 1:
      return score_range<Type, 1>(g, blocks, head_dim);
    case 2:
      return score_range<Type, 2>(g, blocks, head_dim);
    case 3:
      return score_range<Type, 3>(g, blocks, head_dim);
    case 4:
      return score_range<Type, 4>(g, blocks, head_dim);
    case 5:
      return score_range<Type, 5>(g, blocks, head_dim);
    default:
      return score_range<Type, 6>(g, blocks, head_dim);
  }
}

// ---- softmax ----

/// All ones in the lanes of tokens [at, at + 8) that lie in `part`.
__m256 lanes_in(Range part, int32_t at) {
  return _mm256_castsi256_ps(_mm256_andnot_si256(avx2::first_lanes(part.begin - at), avx2::first_lanes(part.end - at)));
}

/// Scores to probabilities exp2(s - max) over the tokens of a chunk that the row sees; the others count as -inf and 0.
MaxSum softmax_chunk(float* s, Range part, float softcap) {
  const int32_t begin = part.begin / kLanes * kLanes;
  if (softcap > 0.f) {
    const __m256 c = _mm256_set1_ps(softcap), scale = _mm256_set1_ps(softcap * math::kLog2E);
    for (int32_t j = begin; j < part.end; j += 8)
      _mm256_storeu_ps(s + j, _mm256_mul_ps(scale, avx2::tanh(_mm256_div_ps(_mm256_loadu_ps(s + j), c))));
  }
  const __m256 minus_inf = _mm256_set1_ps(-__builtin_inff());
  __m256 max_low = minus_inf, max_high = minus_inf;
  for (int32_t j = begin; j < part.end; j += kLanes) {
    __m256 low = _mm256_loadu_ps(s + j), high = _mm256_loadu_ps(s + j + 8);
    if (j < part.begin || j + kLanes > part.end) {
      low = _mm256_blendv_ps(minus_inf, low, lanes_in(part, j));
      high = _mm256_blendv_ps(minus_inf, high, lanes_in(part, j + 8));
    }
    max_low = _mm256_max_ps(low, max_low);  // NaN loses here, as in the portable loop; its exp2 is NaN again
    max_high = _mm256_max_ps(high, max_high);
  }
  const float max = avx2::max_lane(_mm256_max_ps(max_low, max_high));
  const __m256 m = _mm256_set1_ps(max);
  avx2::Lanes sum{_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int32_t j = begin; j < part.end; j += kLanes) {
    __m256 low = avx2::exp2_not_positive(_mm256_sub_ps(_mm256_loadu_ps(s + j), m));
    __m256 high = avx2::exp2_not_positive(_mm256_sub_ps(_mm256_loadu_ps(s + j + 8), m));
    if (j < part.begin || j + kLanes > part.end) {
      low = _mm256_and_ps(low, lanes_in(part, j));
      high = _mm256_and_ps(high, lanes_in(part, j + 8));
    }
    _mm256_storeu_ps(s + j, low);
    _mm256_storeu_ps(s + j + 8, high);
    sum.low = _mm256_add_ps(sum.low, low);
    sum.high = _mm256_add_ps(sum.high, high);
  }
  return {max, avx2::fold_lanes(sum)};
}

// ---- values ----

/// K or V values in a cache line.
template <class Type>
constexpr int32_t kLineValues = 64 / sizeof(typename Type::Stored);

/// Tokens [begin, end) of a chunk.
struct Values {
  const Blocks& blocks;
  bool prefetch;  // the first group of a tile fetches for all
  int32_t begin;
  int32_t end;
  int32_t head_dim;
};

/// out[n][column .. column + 8 V) += p[n][j] v[j] for N pairs from `first` on: one fma chain over tokens a value.
/// Prefetch also asks for these columns of the blocks ahead: twice a line where a pass is half a line wide, since once
/// measured slower from memory. Where all is in L2 already it would cost a tenth.
template <class Type, int N, int V, bool Prefetch>
[[gnu::noinline]] void add_columns(const Group& g, int32_t first, const Values& values, int32_t column) {
  __m256 acc[N][V];
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 12
    for (int v = 0; v < V; ++v) acc[n][v] = _mm256_loadu_ps(g.out[first + n] + column + 8 * v);
  const float* p = g.scores + first * kChunkTokens;
  const int64_t head_dim = values.head_dim;
  for (int32_t j = values.begin; j < values.end;) {
    const int32_t block = j / kBlockTokens, block_end = (block + 1) * kBlockTokens;
    const int32_t stop = block_end < values.end ? block_end : values.end;
    const int64_t offset = j % kBlockTokens * head_dim + column;
    const std::byte* const* stored = values.blocks.v() + (block - values.blocks.first);
    const auto* row = reinterpret_cast<const typename Type::Stored*>(stored[0]) + offset;
    const auto* ahead = reinterpret_cast<const typename Type::Stored*>(stored[kAhead]) + offset;
    for (; j < stop; ++j, row += head_dim, ahead += head_dim) {
      if constexpr (Prefetch) {
        _mm_prefetch(ahead, _MM_HINT_T1);
        if constexpr (8 * V > kLineValues<Type>) _mm_prefetch(ahead + kLineValues<Type>, _MM_HINT_T1);
      }
      if constexpr (N <= V) {
        __m256 weight[N];
#pragma GCC unroll 12
        for (int n = 0; n < N; ++n) weight[n] = _mm256_broadcast_ss(p + n * kChunkTokens + j);
#pragma GCC unroll 12
        for (int v = 0; v < V; ++v) {
          const __m256 value = Type::load(row + 8 * v);
#pragma GCC unroll 12
          for (int n = 0; n < N; ++n) acc[n][v] = _mm256_fmadd_ps(weight[n], value, acc[n][v]);
        }
      } else {
        __m256 value[V];
#pragma GCC unroll 12
        for (int v = 0; v < V; ++v) value[v] = Type::load(row + 8 * v);
#pragma GCC unroll 12
        for (int n = 0; n < N; ++n) {
          const __m256 weight = _mm256_broadcast_ss(p + n * kChunkTokens + j);
#pragma GCC unroll 12
          for (int v = 0; v < V; ++v) acc[n][v] = _mm256_fmadd_ps(weight, value[v], acc[n][v]);
        }
      }
    }
  }
#pragma GCC unroll 12
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 12
    for (int v = 0; v < V; ++v) _mm256_storeu_ps(g.out[first + n] + column + 8 * v, acc[n][v]);
}

template <class Type, int N>
void add_values(const Group& g, int32_t first, Values v) {
  constexpr int kVectors = N == 1 ? 8 : N <= 3 ? 4 : 2;
  const int32_t end = v.end, row_bytes = v.head_dim * static_cast<int32_t>(sizeof(typename Type::Stored));
  const int32_t blocks_a_pass = div_ceil(kValueBytes, row_bytes * kBlockTokens);
  while (v.begin < end) {
    const int32_t stop = (v.begin / kBlockTokens + blocks_a_pass) * kBlockTokens;
    v.end = stop < end ? stop : end;
    int32_t column = 0;
    for (; column + 8 * kVectors <= v.head_dim; column += 8 * kVectors) {
      if (v.prefetch && (sizeof(typename Type::Stored) > 1 || column % 32 == 0))
        add_columns<Type, N, kVectors, true>(g, first, v, column);
      else
        add_columns<Type, N, kVectors, false>(g, first, v, column);
    }
    for (; column < v.head_dim; column += 8) add_columns<Type, N, 1, true>(g, first, v, column);
    v.begin = v.end;
  }
}

template <class Type>
void values_of(const Group& g, int32_t first, int32_t pairs, const Values& v) {
  switch (pairs) {
    case 1:
      return add_values<Type, 1>(g, first, v);
    case 2:
      return add_values<Type, 2>(g, first, v);
    case 3:
      return add_values<Type, 3>(g, first, v);
    case 4:
      return add_values<Type, 4>(g, first, v);
    case 5:
      return add_values<Type, 5>(g, first, v);
    default:
      return add_values<Type, 6>(g, first, v);
  }
}

/// p[n][j] *= scale[j] of V.
void scale_probabilities(const Group& g, const Blocks& blocks, int32_t head_dim) {
  for (int32_t b = 0; b < blocks.count; ++b) {
    const auto* scales = reinterpret_cast<const float*>(blocks.v()[b] + int64_t{head_dim} * kBlockTokens);
    const __m256 low = _mm256_loadu_ps(scales), high = _mm256_loadu_ps(scales + 8);
    float* p = g.scores + (blocks.first + b) * kBlockTokens;
    for (int32_t n = 0; n < g.pairs; ++n, p += kChunkTokens) {
      _mm256_storeu_ps(p, _mm256_mul_ps(_mm256_loadu_ps(p), low));
      _mm256_storeu_ps(p + 8, _mm256_mul_ps(_mm256_loadu_ps(p + 8), high));
    }
  }
}

/// Adds every pair's visible values. Rows see slightly different ranges, so the tokens are cut where the set of pairs
/// that see them changes; rows ascend, so such a set is contiguous.
template <class Type>
void weighted_values(const Group& g, const Blocks& blocks, bool prefetch, Range tokens, int32_t head_dim) {
  if constexpr (Type::kScaled) scale_probabilities(g, blocks, head_dim);
  for (int32_t at = tokens.begin; at < tokens.end;) {
    int32_t first = 0, last = 0, next = tokens.end;
    for (int32_t i = 0; i < g.pairs; ++i) {
      const Range part = g.part[i];
      if (part.begin > at && part.begin < next) next = part.begin;
      if (part.end > at && part.end < next) next = part.end;
      if (part.end <= at) first = i + 1;
      if (part.begin <= at) last = i + 1;
    }
    values_of<Type>(g, first, last - first, {blocks, prefetch, at, next, head_dim});
    at = next;
  }
}

}  // namespace
}  // namespace pagoda::kernels
