#include <cmath>
#include <cstring>

#include "core/check.h"
#include "core/half.h"
#include "core/ids.h"
#include "kernels/formats/codebook.h"
#include "kernels/formats/dequantize.h"
#include "kernels/matmul/kernels.h"
#include "kernels/matmul/layout.h"

// The oracle: one output row, one token, one fma chain over the blocks of the format in ascending order.
//
//   Q4_K Q5_K Q2_K   acc = fma(dy, fma(-dmin, f32(sum mn ms), d f32(sum sc m dot)), acc)   once per 256
//   Q6_K Q3_K IQ4_XS IQ1 IQ2 IQ3 TQ   acc = fma(dy, d f32(sum sc m dot(w)), acc)           once per 256
//   Q4_1 Q5_1   acc = fma(dy, fma(m, f32(sum), d f32(dot)), acc)                           once per 32
//   Q4_0 Q5_0 Q8_0 IQ4_NL MXFP4   acc = fma(dy, d f32(dot(w)), acc)                        once per 32
//   F32 F16 BF16   acc = fma(w, x, acc)                                                    once per k
//
// w is the integer that d multiplies: q - 32 of Q6_K, q - 4 of Q3_K, the table's number of IQ4_XS, IQ4_NL, MXFP4 and
// the codebook formats.
// ms is m times the sum of the activations that share mn: 32 of them, 16 for Q2_K.
//
// Bound against exact arithmetic on the same quantized numbers, with b blocks (or K values) and u = 2^-24:
//   |error| <= (b + 4) u sum over blocks of |dy| (|d f32(..)| + |dmin f32(..)|)
// The integers are exact: worst cases below.
namespace pagoda::kernels {
namespace {

constexpr int64_t kActMax = 127, kMMax = 8;
constexpr int64_t kQ4KSum = 256 * 15 * kActMax * 63 * kMMax;
constexpr int64_t kQ4KMins = 256 * kActMax * 63 * kMMax;
constexpr int64_t kQ6KSum = 256 * 32 * kActMax * 128 * kMMax;
constexpr int64_t kQ5KSum = 256 * 31 * kActMax * 63 * kMMax;
constexpr int64_t kQ3KSum = 256 * 4 * kActMax * 32 * kMMax;
constexpr int64_t kQ2KSum = 256 * 15 * kActMax * 15 * kMMax;  // sums and mins
constexpr int64_t kIQ4XSSum = 256 * 127 * kActMax * 32 * kMMax;
constexpr int64_t kCodesSum = 256 * 62 * kActMax * 31 * kMMax;
static_assert(kQ4KSum <= INT32_MAX && kQ4KMins <= INT32_MAX && kQ6KSum <= INT32_MAX && kQ5KSum <= INT32_MAX);
static_assert(kQ3KSum <= INT32_MAX && kQ2KSum <= INT32_MAX && kIQ4XSSum <= INT32_MAX && kCodesSum <= INT32_MAX);
// An int16 lane of a byte dot product over one 32-block (16 products; 8 for Q6_K, flushed each 16 elements).
static_assert(16 * 15 * kActMax <= INT16_MAX && 16 * 16 * kActMax <= INT16_MAX && 8 * 32 * kActMax <= INT16_MAX);
static_assert(8 * 31 * kActMax <= INT16_MAX);      // Q5_K, flushed each four products
static_assert(32 * kActMax * kMMax <= INT16_MAX);  // ActView::sums

// Sums run in uint32_t: a broken bound would wrap, not be undefined.
uint32_t product(int32_t a, int32_t b) { return static_cast<uint32_t>(a) * static_cast<uint32_t>(b); }
float to_float(uint32_t sum) { return static_cast<float>(static_cast<int32_t>(sum)); }
float factor(uint16_t d) { return f16_to_f32(d); }
float factor(float d) { return d; }

struct Q4K {
  using Tile = TileQ4K;
  static void accumulate(const Tile& tile, const ActView& x, int64_t block, float* acc) {
    const int8_t* q = x.q + block * 256;
    const int16_t *m = x.m + block * 8, *sums = x.sums + block * 8;
    for (int r = 0; r < kGroupRows; ++r) {
      uint32_t total = 0, mins = 0;
      for (int p = 0; p < 4; ++p) {
        const TileQ4K::Pair& pair = tile.pair[p];
        uint32_t dot[2] = {0, 0};
        for (int j = 0; j < 8; ++j)
          for (int c = 0; c < 4; ++c) {
            const int8_t* a = q + 64 * p + 8 * j + c;
            dot[c / 2] += product(pair.q[j][r][c] & 15, a[0]) + product(pair.q[j][r][c] >> 4, a[4]);
          }
        for (int s = 0; s < 2; ++s) {
          total += product(pair.scale[r][s] * m[2 * p + s], static_cast<int32_t>(dot[s]));
          mins += product(pair.min[r][s], sums[2 * p + s]);
        }
      }
      const float scaled = f16_to_f32(tile.d[r]) * to_float(total);
      acc[r] = std::fma(x.d[block], std::fma(-f16_to_f32(tile.dmin[r]), to_float(mins), scaled), acc[r]);
    }
  }
};

struct Q6K {
  using Tile = TileQ6K;
  static void accumulate(const Tile& tile, const ActView& x, int64_t block, float* acc) {
    const int8_t* q = x.q + block * 256;
    const int16_t* m = x.m + block * 8;
    for (int r = 0; r < kGroupRows; ++r) {
      uint32_t total = 0;
      for (int p = 0; p < 4; ++p)
        for (int h = 0; h < 2; ++h) {
          const TileQ6K::Half& half = tile.pair[p].half[h];
          uint32_t dot[2] = {0, 0};
          for (int n = 0; n < 8; ++n)
            for (int c = 0; c < 4; ++c) {
              const int low = half.low[n / 2][r][c] >> (4 * (n % 2)) & 15;
              const int high = half.high[n / 4][r][c] >> (2 * (n % 4)) & 3;
              dot[c / 2] += product((low | high << 4) - 32, q[64 * p + 32 * h + 4 * n + c]);
            }
          for (int s = 0; s < 2; ++s)
            total += product(tile.pair[p].scale[h][r][s] * m[2 * p + s], static_cast<int32_t>(dot[s]));
        }
      acc[r] = std::fma(x.d[block], f16_to_f32(tile.d[r]) * to_float(total), acc[r]);
    }
  }
};

// Formats whose pairs are two halves of eight dwords; F says what a value and its scale are.
template <class F>
struct Halves {
  using Tile = typename F::Tile;
  static void accumulate(const Tile& tile, const ActView& x, int64_t block, float* acc) {
    const int8_t* q = x.q + block * 256;
    const int16_t* m = x.m + block * 8;
    for (int r = 0; r < kGroupRows; ++r) {
      uint32_t total = 0, mins = 0;
      for (int p = 0; p < 4; ++p)
        for (int h = 0; h < 2; ++h) {
          uint32_t dwords[8];
          get_dwords(F::half(tile, p, h), r, dwords);
          uint32_t dot[2] = {0, 0}, sum[2] = {0, 0};
          for (int n = 0; n < 8; ++n)
            for (int c = 0; c < 4; ++c) {
              const int32_t a = q[64 * p + 32 * h + 4 * n + c];
              dot[c / 2] += product(F::value(dwords[n] >> (8 * c) & 255u), a);
              sum[c / 2] += static_cast<uint32_t>(a);
            }
          for (int s = 0; s < 2; ++s) {
            total += product(F::scale(tile, p, h, r, s) * m[2 * p + s], static_cast<int32_t>(dot[s]));
            if constexpr (F::kMin)
              mins += product(F::min(tile, p, h, r, s) * m[2 * p + s], static_cast<int32_t>(sum[s]));
          }
        }
      float v = factor(tile.d[r]) * to_float(total);
      if constexpr (F::kMin) v = std::fma(-f16_to_f32(tile.dmin[r]), to_float(mins), v);
      acc[r] = std::fma(x.d[block], v, acc[r]);
    }
  }
};

struct Q5K {
  using Tile = TileQ5K;
  static constexpr bool kMin = true;
  static const Bits5& half(const Tile& tile, int p, int h) { return tile.pair[p].half[h]; }
  static int32_t value(uint32_t q) { return static_cast<int32_t>(q); }
  static int32_t scale(const Tile& tile, int p, int, int r, int s) { return tile.pair[p].scale[r][s]; }
  static int32_t min(const Tile& tile, int p, int, int r, int s) { return tile.pair[p].min[r][s]; }
};

struct Q3K {
  using Tile = TileQ3K;
  static constexpr bool kMin = false;
  static const Bits3& half(const Tile& tile, int p, int h) { return tile.pair[p].half[h]; }
  static int32_t value(uint32_t q) { return static_cast<int32_t>(q) - 4; }
  static int32_t scale(const Tile& tile, int p, int h, int r, int s) { return tile.pair[p].scale[h][r][s]; }
};

struct Q2K {
  using Tile = TileQ2K;
  static constexpr bool kMin = true;
  static const Bits2& half(const Tile& tile, int p, int h) { return tile.pair[p].half[h]; }
  static int32_t value(uint32_t q) { return static_cast<int32_t>(q); }
  static int32_t scale(const Tile& tile, int p, int h, int r, int s) { return tile.pair[p].scale_min[h][r][s] & 15; }
  static int32_t min(const Tile& tile, int p, int h, int r, int s) { return tile.pair[p].scale_min[h][r][s] >> 4; }
};

struct IQ4XS {
  using Tile = TileIQ4XS;
  static constexpr bool kMin = false;
  static const Bits4& half(const Tile& tile, int p, int h) { return tile.half[p][h]; }
  static int32_t value(uint32_t q) { return kIq4Values[q]; }
  static int32_t scale(const Tile& tile, int p, int, int r, int s) { return tile.scale[p][r][s]; }
};

template <Codebook book, class Bits>
struct Codes {
  using Tile = TileCodes<Bits>;
  static constexpr bool kMin = false;
  static const Bits& half(const Tile& tile, int p, int h) { return tile.pair[p].half[h]; }
  static int32_t value(uint32_t q) { return kCodebookValues[static_cast<int>(book)][q]; }
  static int32_t scale(const Tile& tile, int p, int h, int r, int s) { return tile.pair[p].scale[h][r][s]; }
};

// Dots of eight rows with 32 activations. Two rows are eight int16 lanes: lane 4r+c sums the products of elements 4g+c
// of row r, eight of them, which int16 holds. Neighbours in memory are neighbours here, so that a compiler finds
// vectors; integers, so that the order does not matter.
static_assert(8 * 31 * kActMax <= INT16_MAX);
using Lanes = int16_t[8];

int16_t times(int32_t w, int16_t a) { return static_cast<int16_t>(w * a); }

// Of 16 + 16 nibbles [4][8][4]; `high` adds a fifth bit if kFive.
template <bool kFive>
void dot_nibbles(const uint8_t (*q)[8][4], [[maybe_unused]] const uint8_t (*high)[4], int offset, const int8_t* a,
                 int32_t (&dot)[kGroupRows]) {
  Lanes lane[4] = {};
  for (int j = 0; j < 4; ++j) {
    Lanes low_act, high_act;
    for (int i = 0; i < 8; ++i) {
      low_act[i] = a[4 * j + i % 4];
      high_act[i] = a[16 + 4 * j + i % 4];
    }
    for (int p = 0; p < 4; ++p) {
      const uint8_t* bytes = &q[j][2 * p][0];
      for (int i = 0; i < 8; ++i) {
        int32_t low = (bytes[i] & 15) - offset, up = (bytes[i] >> 4) - offset;
        if constexpr (kFive) {
          const int32_t fifth = (&high[2 * p][0])[i];
          low += (fifth >> j & 1) << 4;
          up += (fifth >> (4 + j) & 1) << 4;
        }
        lane[p][i] = static_cast<int16_t>(lane[p][i] + times(low, low_act[i]) + times(up, high_act[i]));
      }
    }
  }
  for (int r = 0; r < kGroupRows; ++r) {
    const int16_t* own = &lane[r / 2][4 * (r % 2)];
    dot[r] = own[0] + own[1] + own[2] + own[3];
  }
}

// A format of 32-blocks: the exact dots of one block, and what they are worth in row r.
struct Q4_0 {
  using Tile = TileQ4_0;
  static void dots(const Tile& tile, int b, const int8_t* a, int32_t (&dot)[kGroupRows]) {
    dot_nibbles<false>(tile.q[b], nullptr, 8, a, dot);
  }
  static float value(const Tile& tile, int b, int r, float dot, float) { return f16_to_f32(tile.d[b][r]) * dot; }
};

struct Q4_1 {
  using Tile = TileQ4_1;
  static void dots(const Tile& tile, int b, const int8_t* a, int32_t (&dot)[kGroupRows]) {
    dot_nibbles<false>(tile.q[b], nullptr, 0, a, dot);
  }
  static float value(const Tile& tile, int b, int r, float dot, float sum) {
    return std::fma(f16_to_f32(tile.m[b][r]), sum, f16_to_f32(tile.d[b][r]) * dot);
  }
};

struct Q5_0 {
  using Tile = TileQ5_0;
  static void dots(const Tile& tile, int b, const int8_t* a, int32_t (&dot)[kGroupRows]) {
    dot_nibbles<true>(tile.block[b].low, tile.block[b].high, 16, a, dot);
  }
  static float value(const Tile& tile, int b, int r, float dot, float) { return f16_to_f32(tile.d[b][r]) * dot; }
};

struct Q5_1 {
  using Tile = TileQ5_1;
  static void dots(const Tile& tile, int b, const int8_t* a, int32_t (&dot)[kGroupRows]) {
    dot_nibbles<true>(tile.block[b].low, tile.block[b].high, 0, a, dot);
  }
  static float value(const Tile& tile, int b, int r, float dot, float sum) {
    return std::fma(f16_to_f32(tile.m[b][r]), sum, f16_to_f32(tile.d[b][r]) * dot);
  }
};

// Of 16 + 16 nibbles that stand for numbers of a table.
void dot_table(const uint8_t (*q)[8][4], const int8_t (&table)[16], const int8_t* a, int32_t (&dot)[kGroupRows]) {
  for (int r = 0; r < kGroupRows; ++r) {
    dot[r] = 0;
    for (int g = 0; g < 8; ++g)
      for (int c = 0; c < 4; ++c) dot[r] += table[q[g % 4][r][c] >> (4 * (g / 4)) & 15] * a[4 * g + c];
  }
}

struct IQ4NL {
  using Tile = TileQ4_0;
  static void dots(const Tile& tile, int b, const int8_t* a, int32_t (&dot)[kGroupRows]) {
    dot_table(tile.q[b], kIq4Values, a, dot);
  }
  static float value(const Tile& tile, int b, int r, float dot, float) { return f16_to_f32(tile.d[b][r]) * dot; }
};

struct MXFP4 {
  using Tile = TileMXFP4;
  static void dots(const Tile& tile, int b, const int8_t* a, int32_t (&dot)[kGroupRows]) {
    dot_table(tile.q[b], kMxfp4Values, a, dot);
  }
  static float value(const Tile& tile, int b, int r, float dot, float) { return mxfp4_scale(tile.e[b][r]) * dot; }
};

struct Q8_0 {
  using Tile = TileQ8_0;
  static void dots(const Tile& tile, int b, const int8_t* a, int32_t (&dot)[kGroupRows]) {
    for (int r = 0; r < kGroupRows; ++r) {
      dot[r] = 0;
      for (int k = 0; k < 32; ++k) dot[r] += tile.q[b][k / 2][r][k % 2] * a[k];
    }
  }
  static float value(const Tile& tile, int b, int r, float dot, float) { return f16_to_f32(tile.d[b][r]) * dot; }
};

// 32-block formats: a tile is two blocks of eight rows.
template <class Format>
struct Pairs {
  using Tile = typename Format::Tile;
  static void accumulate(const Tile& tile, const ActView& x, int64_t pair, float* acc) {
    for (int b = 0; b < 2; ++b) {
      const int64_t at = 2 * pair + b;
      int32_t dot[kGroupRows];
      Format::dots(tile, b, x.q + 32 * at, dot);
      for (int r = 0; r < kGroupRows; ++r)
        acc[r] = std::fma(x.d[at], Format::value(tile, b, r, static_cast<float>(dot[r]), x.sums_f32[at]), acc[r]);
    }
  }
};

// A view of row t alone.
ActView row_of(const ActView& x, int32_t t) {
  const int64_t padded = x.cols_padded, row = t;
  const bool block256 = x.format == ActFormat::kInt8Block256;
  ActView one = x;
  one.q += row * padded;
  one.d += row * (padded / (block256 ? 256 : 32));
  if (block256) {
    one.m += row * (padded / 32);
    one.sums += row * (padded / 32);
  } else {
    one.sums_f32 += row * (padded / 32);
  }
  return one;
}

void store_group(const float* acc, const PackedMatrix& w, int32_t group, int32_t t, Mat<float> y) {
  for (int32_t r = 0; r < kGroupRows && group * kGroupRows + r < w.rows; ++r) y.row(t)[group * kGroupRows + r] = acc[r];
}

template <class Format>
void matmul_tiles(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  const int64_t bytes = group_bytes(w.type, w.cols);
  const int64_t tiles = bytes / int64_t{sizeof(typename Format::Tile)};
  for (int32_t g = groups.begin; g < groups.end; ++g) {
    const auto* tile = reinterpret_cast<const typename Format::Tile*>(w.data + g * bytes);
    for (int32_t t = 0; t < x.rows; ++t) {
      const ActView row = row_of(x, t);
      float acc[kGroupRows] = {};
      for (int64_t i = 0; i < tiles; ++i) Format::accumulate(tile[i], row, i, acc);
      store_group(acc, w, g, t, y);
    }
  }
}

// Weights of a group as f32 [count][8].
void float_weights(const PackedMatrix& w, int32_t group, int32_t begin, int32_t count, float* dst) {
  const std::byte* at = w.data + group * group_bytes(w.type, w.cols);
  if (w.type == TensorType::kF32) {
    std::memcpy(dst, at + int64_t{begin} * kGroupRows * int64_t{sizeof(float)},
                sizeof(float) * kGroupRows * static_cast<size_t>(count));
  } else {
    const auto* half = reinterpret_cast<const uint16_t*>(at) + int64_t{begin} * kGroupRows;
    const bool f16 = w.type == TensorType::kF16;
    for (int32_t i = 0; i < count * kGroupRows; ++i) dst[i] = f16 ? f16_to_f32(half[i]) : bf16_to_f32(half[i]);
  }
}

void matmul_floats(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  constexpr int32_t kChunk = 256, kTokens = 64;
  float weights[kChunk * kGroupRows], acc[kTokens][kGroupRows];
  for (int32_t g = groups.begin; g < groups.end; ++g)
    for (int32_t t0 = 0; t0 < x.rows; t0 += kTokens) {
      const int32_t tokens = x.rows - t0 < kTokens ? x.rows - t0 : kTokens;
      std::memset(acc, 0, sizeof acc);
      for (int32_t k0 = 0; k0 < w.cols; k0 += kChunk) {
        const int32_t count = w.cols - k0 < kChunk ? w.cols - k0 : kChunk;
        float_weights(w, g, k0, count, weights);
        for (int32_t t = 0; t < tokens; ++t) {
          const float* a = x.f32 + (t0 + t) * x.f32_stride + k0;
          for (int32_t k = 0; k < count; ++k)
            for (int32_t r = 0; r < kGroupRows; ++r) acc[t][r] = std::fma(weights[k * kGroupRows + r], a[k], acc[t][r]);
        }
      }
      for (int32_t t = 0; t < tokens; ++t) store_group(acc[t], w, g, t0 + t, y);
    }
}

}  // namespace

void matmul_portable(const PackedMatrix& w, const ActView& x, Range range, Mat<float> y) {
  PAGODA_CHECK(x.format == act_format(w.type) && x.cols == w.cols && y.rows >= x.rows);
  if (range.empty()) return;
  PAGODA_CHECK(range.begin % kGroupRows == 0 && (range.end % kGroupRows == 0 || range.end == w.rows));
  const Range groups{range.begin / kGroupRows, div_ceil(range.end, kGroupRows)};
  switch (w.type) {
    case TensorType::kQ4_K:
      return matmul_tiles<Q4K>(w, x, groups, y);
    case TensorType::kQ6_K:
      return matmul_tiles<Q6K>(w, x, groups, y);
    case TensorType::kQ5_K:
      return matmul_tiles<Halves<Q5K>>(w, x, groups, y);
    case TensorType::kQ3_K:
      return matmul_tiles<Halves<Q3K>>(w, x, groups, y);
    case TensorType::kQ2_K:
      return matmul_tiles<Halves<Q2K>>(w, x, groups, y);
    case TensorType::kIQ4_XS:
      return matmul_tiles<Halves<IQ4XS>>(w, x, groups, y);
    case TensorType::kQ4_0:
      return matmul_tiles<Pairs<Q4_0>>(w, x, groups, y);
    case TensorType::kQ4_1:
      return matmul_tiles<Pairs<Q4_1>>(w, x, groups, y);
    case TensorType::kQ5_0:
      return matmul_tiles<Pairs<Q5_0>>(w, x, groups, y);
    case TensorType::kQ5_1:
      return matmul_tiles<Pairs<Q5_1>>(w, x, groups, y);
    case TensorType::kIQ4_NL:
      return matmul_tiles<Pairs<IQ4NL>>(w, x, groups, y);
    case TensorType::kMXFP4:
      return matmul_tiles<Pairs<MXFP4>>(w, x, groups, y);
    case TensorType::kQ8_0:
      return matmul_tiles<Pairs<Q8_0>>(w, x, groups, y);
    default:
      break;
  }
  switch (codebook_of(w.type)) {
    case Codebook::kIq2:
      return matmul_tiles<Halves<Codes<Codebook::kIq2, Bits3>>>(w, x, groups, y);
    case Codebook::kIq3Xxs:
      return matmul_tiles<Halves<Codes<Codebook::kIq3Xxs, Bits4>>>(w, x, groups, y);
    case Codebook::kIq3S:
      return matmul_tiles<Halves<Codes<Codebook::kIq3S, Bits4>>>(w, x, groups, y);
    case Codebook::kIq1:
      return matmul_tiles<Halves<Codes<Codebook::kIq1, Bits3>>>(w, x, groups, y);
    case Codebook::kTernary:
      return matmul_tiles<Halves<Codes<Codebook::kTernary, Bits2>>>(w, x, groups, y);
    case Codebook::kNone:
      return matmul_floats(w, x, groups, y);
  }
}

}  // namespace pagoda::kernels
