#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "core/half.h"
#include "kernels/attention/kernels.h"

namespace pagoda::kernels {
namespace {

struct Named {
  const char* name;
  uint32_t need;
  KvWriteFn write;
  AttentionFn attend;
};
const Named kKernels[] = {
#define PAGODA_ATTENTION_ISA(need, isa_name) {#isa_name, need, kv_write_##isa_name, attention_##isa_name},
#include "kernels/attention/kernels.inc"
#undef PAGODA_ATTENTION_ISA
};
const Named& portable() { return kKernels[std::size(kKernels) - 1]; }

/// The kernels this CPU can run.
std::vector<Named> runnable() {
  std::vector<Named> found;
  for (const Named& k : kKernels) {
    if (isa::covers(isa::detected(), k.need))
      found.push_back(k);
    else
      std::printf("[ SKIPPED ] %s: not on this CPU\n", k.name);
  }
  return found;
}

struct Shape {
  int32_t heads, kv_heads, head_dim;
  KvTypes types = KvType::kF16;
  int32_t bias_rot = 0;  // K has a bias kept apart, and so many values of a head rotate; 0 = none
  bool adjacent = false;
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << "H=" << s.heads << " Hkv=" << s.kv_heads << " Dh=" << s.head_dim << " K=" << int(s.types.k)
             << " V=" << int(s.types.v) << " bias=" << s.bias_rot;
}

std::vector<float> gauss(size_t n, std::mt19937& rng) {
  std::normal_distribution<float> normal(0.f, 1.f);
  std::vector<float> values(n);
  for (float& v : values) v = normal(rng);
  return values;
}

struct Aligned {
  explicit Aligned(int64_t bytes)
      : data(static_cast<std::byte*>(std::aligned_alloc(64, round_up(bytes, 64))), std::free) {}
  std::unique_ptr<std::byte, void (*)(void*)> data;
};

struct Variant {
  int32_t window = 0;
  float softcap = 0;
};

/// One sequence of `tokens` tokens, its K and V in a pool that is NaN wherever nothing was written.
struct Sequence {
  Shape shape;
  int32_t tokens;
  std::vector<float> q, k, v;  // [tokens, heads * Dh], [tokens, Hkv * Dh]
  std::vector<BlockId> table;
  Aligned pool;
  KvLayer kv;
  std::vector<float> bias, slots, turns;  // [Hkv, Dh], and what KeyBias points to

  Sequence(Shape s, int32_t n, uint32_t seed, const Named& writer = portable())
      : shape(s),
        tokens(n),
        pool((div_ceil(n, kBlockTokens) + 3) * (kv_block_bytes(s.types, s.kv_heads, s.head_dim) + 64)) {
    std::mt19937 rng(seed);
    q = gauss(size_t(n) * s.heads * s.head_dim, rng);
    k = gauss(size_t(n) * s.kv_heads * s.head_dim, rng);
    v = gauss(size_t(n) * s.kv_heads * s.head_dim, rng);
    const int32_t blocks = div_ceil(n, kBlockTokens) + 3;
    const int64_t stride = kv_block_bytes(s.types, s.kv_heads, s.head_dim) + 64;
    std::memset(pool.data.get(), 0xff, blocks * stride);
    kv = {s.types, s.kv_heads, s.head_dim, pool.data.get(), stride};
    if (s.bias_rot > 0) add_bias(blocks, rng);
    std::vector<uint32_t> ids(blocks);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), rng);
    for (int32_t b = 0; b < div_ceil(n, kBlockTokens); ++b) table.push_back(BlockId{ids[b]});
    for (int32_t t = 0; t < n; ++t) write(writer, t);
  }

  double frequency(int32_t i) const { return std::pow(1e4, -2. * i / shape.bias_rot); }

  void add_bias(int32_t blocks, std::mt19937& rng) {
    bias = gauss(size_t(shape.kv_heads) * shape.head_dim, rng);
    for (size_t i = 0; i < bias.size(); i += 7) bias[i] *= 50;
    slots.resize(bias.size() * kBlockTokens);
    for (int32_t h = 0; h < shape.kv_heads; ++h)
      for (int32_t d = 0; d < shape.head_dim; ++d)
        for (int32_t t = 0; t < kBlockTokens; ++t)
          slots[(h * shape.head_dim + d) * kBlockTokens + t] = static_cast<float>(turned_bias(h, d, t));
    for (int32_t m = 0; m < blocks; ++m)
      for (int32_t i = 0; i < shape.bias_rot / 2; ++i)
        for (const double value : {std::cos(16 * m * frequency(i)), std::sin(16 * m * frequency(i))})
          turns.push_back(static_cast<float>(value));
    kv.bias = {slots.data(), turns.data(), shape.bias_rot, shape.adjacent};
  }

  /// Value d of the bias of a head at a position.
  double turned_bias(int32_t h, int32_t d, int32_t position) const {
    if (bias.empty()) return 0;
    const float* b = &bias[h * shape.head_dim];
    if (d >= shape.bias_rot) return b[d];
    const int32_t half = shape.bias_rot / 2, i = shape.adjacent ? d / 2 : d % half;
    const int32_t first = shape.adjacent ? 2 * i : i, second = shape.adjacent ? 2 * i + 1 : i + half;
    const double c = std::cos(position * frequency(i)), sin = std::sin(position * frequency(i));
    return d == first ? b[first] * c - b[second] * sin : b[first] * sin + b[second] * c;
  }

  /// What is stored for value d of a token's head, read by the layout that attention.h describes.
  double stored_k(int32_t t, int32_t h, int32_t d) const {
    const std::byte* head = block(t) + h * head_bytes(shape.types.k);
    const int32_t slot = t % kBlockTokens, at = d * kBlockTokens + slot;
    if (shape.types.k != KvType::kInt4) return stored_number(shape.types.k, head, at, slot);
    const auto* scales = half(head + 8 * shape.head_dim) + d / 32 * 32 + slot;
    return int4(head, d / 2 * kBlockTokens + slot, d % 2, scales[0], scales[16]);
  }
  double stored_v(int32_t t, int32_t h, int32_t d) const {
    const std::byte* head = block(t) + shape.kv_heads * head_bytes(shape.types.k) + h * head_bytes(shape.types.v);
    const int32_t slot = t % kBlockTokens, at = slot * shape.head_dim + d;
    if (shape.types.v != KvType::kInt4) return stored_number(shape.types.v, head, at, slot);
    const auto* scales = half(head + 8 * shape.head_dim) + (slot * ((shape.head_dim + 31) / 32) + d / 32) * 2;
    return int4(head, at / 2, d % 2, scales[0], scales[1]);
  }
  const std::byte* block(int32_t t) const {
    return pool.data.get() + static_cast<int64_t>(table[t / kBlockTokens]) * kv.block_stride_bytes;
  }
  int64_t head_bytes(KvType type) const { return kv_block_bytes(KvTypes(type), 1, shape.head_dim) / 2; }
  static const uint16_t* half(const std::byte* at) { return reinterpret_cast<const uint16_t*>(at); }
  static double int4(const std::byte* head, int32_t at, int32_t high, uint16_t d, uint16_t m) {
    return double(f16_to_f32(d)) * (int(head[at]) >> (4 * high) & 15) + double(f16_to_f32(m));
  }
  double stored_number(KvType type, const std::byte* head, int32_t at, int32_t slot) const {
    if (type == KvType::kF32) return reinterpret_cast<const float*>(head)[at];
    if (type == KvType::kF16) return f16_to_f32(half(head)[at]);
    if (type == KvType::kBf16) return bf16_to_f32(half(head)[at]);
    const double scale = reinterpret_cast<const float*>(head + 16 * shape.head_dim)[slot];
    const int code = int(head[at]);
    if (type == KvType::kInt8) return scale * static_cast<int8_t>(code);
    const int mantissa = type == KvType::kFp8E4m3 ? 3 : 2, exponent = (code & 127) >> mantissa;
    const double fraction = double(code & ((1 << mantissa) - 1)) / (1 << mantissa);
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
    return (code & 128 ? -1 : 1) * magnitude * scale;
  }

  void write(const Named& writer, int32_t t) {
    const int64_t width = int64_t{shape.kv_heads} * shape.head_dim;
    writer.write(kv, table[t / kBlockTokens], t % kBlockTokens, &k[t * width], &v[t * width]);
  }

  /// Output rows [begin, begin + rows) of all heads: [rows, heads * Dh].
  std::vector<float> attend(const Named& kernel, int32_t begin, int32_t rows, Variant variant = {}) const {
    const int64_t width = int64_t{shape.heads} * shape.head_dim;
    std::vector<float> out(rows * width, std::nanf(""));
    const int64_t scratch_bytes =
        attention_scratch_bytes(shape.head_dim, attention_expands(shape.types, shape.bias_rot > 0));
    Aligned scratch(scratch_bytes);
    std::memset(scratch.data.get(), 0xff, scratch_bytes);
    const int32_t group = shape.heads / shape.kv_heads;
    for (int32_t h = 0; h < shape.kv_heads; ++h) {
      AttentionArgs args{};
      args.q = &q[begin * width];
      args.q_stride = width;
      args.out = out.data();
      args.out_stride = width;
      args.rows = rows;
      args.position = begin;
      args.head_begin = h * group;
      args.head_end = (h + 1) * group;
      args.kv_head = h;
      args.block_table = table.data();
      args.scale = 1.f / std::sqrt(float(shape.head_dim));
      args.window = variant.window;
      args.softcap = variant.softcap;
      kernel.attend(kv, args, scratch.data.get());
    }
    return out;
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

constexpr int32_t kContexts[] = {1, 15, 16, 17, 255, 256, 257, 700};
const Shape kShapes[] = {{2, 2, 64},
                         {3, 1, 64},
                         {6, 1, 128},
                         {7, 1, 64},
                         {5, 1, 8},
                         {12, 2, 128},
                         {4, 1, 256},
                         {17, 1, 40},
                         {2, 1, 96},
                         {4, 2, 80},
                         {3, 1, 64, KvType::kF32},
                         {3, 1, 64, KvType::kBf16},
                         {3, 1, 64, KvType::kInt8},
                         {6, 1, 128, KvType::kFp8E4m3},
                         {1, 1, 40, KvType::kFp8E5m2},
                         {12, 2, 128, {KvType::kInt8, KvType::kInt4}},
                         {7, 1, 64, {KvType::kFp8E5m2, KvType::kFp8E4m3}},
                         {4, 1, 256, KvType::kInt4},
                         {17, 1, 40, KvType::kInt4},
                         {5, 1, 8, {KvType::kF16, KvType::kInt4}},
                         {4, 2, 80, {KvType::kInt4, KvType::kF32}},
                         {6, 1, 64, KvType::kInt8, 64},
                         {5, 1, 80, KvType::kInt4, 32, true},
                         {4, 2, 96, {KvType::kFp8E4m3, KvType::kF16}, 96, true},
                         {2, 1, 64, {KvType::kFp8E5m2, KvType::kInt8}, 48}};

/// One of each way to store K and V.
const Shape kStorages[] = {{3, 1, 64},
                           {3, 1, 64, KvType::kBf16},
                           {3, 1, 64, KvType::kInt8},
                           {3, 1, 64, {KvType::kFp8E4m3, KvType::kFp8E5m2}},
                           {3, 1, 64, KvType::kInt4},
                           {3, 1, 64, KvType::kInt8, 64}};

// Goal: the portable kernel computes softmax(q K^T scale) V with causal mask, window and softcap.
// Method: against the formula in double over the stored K and V. Bound, from the chain: a score of Dh fma steps is off
// by at most (Dh + 4) 2^-24 S, S = sum |q k| scale (its effect on p is that much times 2, relative, numerator and
// denominator); a chain of at most 256 values, the lane sums, exp2 and the merges add (256 + 32 + 8 chunks) 2^-24. All
// times max|v|.
// Scales, expansion and a bias add 4 roundings to a key, 4 to a value.
TEST(Attention, PortableStaysWithinTheDocumentedError) {
  for (const Shape& shape : kShapes) {
    for (const Variant variant : {Variant{}, {100, 0}, {0, 20.f}}) {
      const int32_t tokens = 530;
      const Sequence s(shape, tokens, 7);
      const int32_t group = shape.heads / shape.kv_heads, dim = shape.head_dim;
      for (int32_t t : {0, 15, 255, 256, 529}) {
        const std::vector<float> got = s.attend(portable(), t, 1, variant);
        for (int32_t h = 0; h < shape.heads; ++h) {
          const int32_t first = variant.window > 0 ? std::max(0, t - variant.window + 1) : 0;
          std::vector<double> score, value(dim, 0.);
          double score_abs = 0, value_abs = 0, sum = 0;
          for (int32_t j = first; j <= t; ++j) {
            double dot = 0, absolute = 0;
            for (int32_t d = 0; d < dim; ++d) {
              const double q = double(s.q[(t * shape.heads + h) * dim + d]) / std::sqrt(double(dim));
              const double k = s.stored_k(j, h / group, d), b = s.turned_bias(h / group, d, j);
              dot += q * (k + b);
              absolute += std::abs(q) * (std::abs(k) + (shape.bias_rot > 0 ? 100 : 0));  // two biases of a pair at most
            }
            score.push_back(variant.softcap > 0 ? variant.softcap * std::tanh(dot / variant.softcap) : dot);
            score_abs = std::max(score_abs, absolute);
          }
          const double max = *std::max_element(score.begin(), score.end());
          for (int32_t j = first; j <= t; ++j) {
            const double p = std::exp(score[j - first] - max);
            sum += p;
            for (int32_t d = 0; d < dim; ++d) {
              const double v = s.stored_v(j, h / group, d);
              value[d] += p * v;
              value_abs = std::max(value_abs, std::abs(v));
            }
          }
          const double bound = value_abs * 0x1p-24 * (2 * (dim + 8) * score_abs + 256 + 32 + 8 * 3 + 4);
          for (int32_t d = 0; d < dim; ++d)
            ASSERT_NEAR(got[h * dim + d], value[d] / sum, bound) << shape << " t=" << t << " h=" << h << " d=" << d;
        }
      }
    }
  }
}

// Goal: every ISA kernel gives the portable kernel's bits. Method: memcmp of whole prefills, over head groupings,
// widths (multiples of 8), contexts around block and chunk borders, windows and softcaps.
TEST(Attention, EveryKernelEqualsThePortableOneBitForBit) {
  for (const Named& k : runnable()) {
    if (k.attend == portable().attend) continue;
    for (const Shape& shape : kShapes) {
      for (int32_t tokens : kContexts) {
        const Sequence s(shape, tokens, tokens);
        const int32_t rows = std::min(tokens, 2 + 30 / shape.heads);
        for (const Variant variant : {Variant{}, {1, 0}, {16, 0}, {37, 0}, {256, 30.f}})
          ASSERT_TRUE(
              same_bits(s.attend(k, tokens - rows, rows, variant), s.attend(portable(), tokens - rows, rows, variant)))
              << k.name << " " << shape << " C=" << tokens << " window=" << variant.window
              << " softcap=" << variant.softcap;
      }
    }
  }
}

// Goal: chunking changes no bit (DESIGN, promise 1). Method: one call for all rows against row by row and other cuts.
TEST(Attention, OneTileOrManyRowsOrOneRowTheSameBits) {
  for (const Named& k : runnable()) {
    for (const Shape& shape :
         {Shape{3, 1, 64}, Shape{6, 1, 64}, Shape{7, 1, 40}, Shape{1, 1, 64}, Shape{7, 1, 40, KvType::kInt8},
          Shape{3, 1, 64, KvType::kInt4}, Shape{7, 1, 64, {KvType::kFp8E4m3, KvType::kInt4}, 64}}) {
      for (const Variant variant : {Variant{}, {50, 0}, {260, 0}}) {
        const int32_t tokens = k.need == isa::kNone ? 70 : 300;  // the portable kernel is slow
        const Sequence s(shape, tokens, 11);
        const std::vector<float> whole = s.attend(k, 0, tokens, variant);
        for (int32_t step : {1, 5, 16, 64, 113}) {
          std::vector<float> pieces;
          for (int32_t t = 0; t < tokens; t += step) {
            const std::vector<float> piece = s.attend(k, t, std::min(step, tokens - t), variant);
            pieces.insert(pieces.end(), piece.begin(), piece.end());
          }
          ASSERT_TRUE(same_bits(whole, pieces))
              << k.name << " " << shape << " step=" << step << " window=" << variant.window;
        }
      }
    }
  }
}

// Goal: where a block lies does not matter, nor what the slots after the last token hold. Method: the same tokens under
// two block tables; then finite rubbish instead of NaN in the unwritten slots.
TEST(Attention, BlockPlacesAndStaleSlotsDoNotMatter) {
  const int32_t tokens = 269;
  for (const Named& k : runnable())
    for (const Shape& shape : kStorages) {
      Sequence a(shape, tokens, 5), b(shape, tokens, 5);
      std::memset(b.pool.data.get(), 0x3c, b.kv.block_stride_bytes * (div_ceil(tokens, kBlockTokens) + 3));
      std::reverse(b.table.begin(), b.table.end());
      for (int32_t t = 0; t < tokens; ++t) b.write(k, t);
      EXPECT_TRUE(same_bits(a.attend(k, 250, tokens - 250), b.attend(k, 250, tokens - 250))) << k.name << " " << shape;
      const std::vector<float> last = a.attend(k, tokens - 1, 1);
      for (float x : last) EXPECT_TRUE(std::isfinite(x)) << k.name;
    }
}

// Goal: a token outside the window has no influence at all. Method: NaN into the first tokens; rows that do not see
// them keep their bits, rows that do become NaN.
TEST(Attention, WindowExcludesByBoundNotByZero) {
  const int32_t tokens = 320, window = 40, poisoned = 270;
  for (const Named& k : runnable())
    for (const Shape& shape : kStorages) {
      Sequence s(shape, tokens, 3);
      const int32_t from = poisoned - 10;  // rows before see nothing else
      const std::vector<float> before = s.attend(k, from, tokens - from, {window, 0});
      for (int32_t t = 0; t < poisoned; ++t) {
        for (int32_t d = 0; d < shape.head_dim; ++d)
          s.k[t * shape.head_dim + d] = s.v[t * shape.head_dim + d] = std::nanf("");
        s.write(k, t);
      }
      const std::vector<float> after = s.attend(k, from, tokens - from, {window, 0});
      const int64_t width = int64_t{shape.heads} * shape.head_dim;
      for (int32_t t = poisoned - 1 + window - from; t < tokens - from; ++t)
        EXPECT_EQ(0, std::memcmp(&before[t * width], &after[t * width], width * sizeof(float))) << k.name << " t=" << t;
      for (int64_t i = 0; i < width; ++i)
        EXPECT_TRUE(std::isnan(after[(poisoned - 2 + window - from) * width + i])) << k.name << " " << shape;
    }
}

// Goal: a broken score is not hidden: NaN in a query or a visible key makes the output NaN, so that the engine can see
// it.
TEST(Attention, NaNReachesTheOutput) {
  for (const Named& k : runnable()) {
    for (const Shape& shape : kStorages) {
      for (const float bad : {std::nanf(""), INFINITY}) {
        Sequence s(shape, 40, 9);
        s.k[5 * 64 + 3] = bad;
        s.write(k, 5);
        if (is_quantized(shape.types.k) || std::isnan(bad)) {
          for (float x : s.attend(k, 39, 1)) EXPECT_TRUE(std::isnan(x)) << k.name << " " << shape;
        }
        Sequence v(shape, 40, 9);
        v.v[5 * 64 + 3] = bad;
        v.write(k, 5);
        EXPECT_FALSE(std::isfinite(v.attend(k, 39, 1)[3])) << k.name << " " << shape;
      }
    }
  }
}

// Goal: one token sees itself alone, so the output is its own V exactly. Method: context 1, p = exp2(0) = 1.
TEST(Attention, OneTokenGivesItsOwnValue) {
  for (const Named& k : runnable()) {
    for (const Shape& shape : kStorages) {
      const Sequence s(shape, 1, 2);
      const std::vector<float> out = s.attend(k, 0, 1);
      for (int32_t h = 0; h < shape.heads; ++h)
        for (int32_t d = 0; d < 64; ++d)
          EXPECT_EQ(out[h * 64 + d], static_cast<float>(s.stored_v(0, 0, d))) << k.name << " " << shape;
    }
  }
}

// Goal: quantized numbers are the nearest there are. Method: |stored - x| against half a step of each type, for
// ordinary values, a lone large one, and all zeros; int4 also has d and m rounded to f16.
TEST(KvWrite, StaysWithinHalfAStep) {
  for (const Shape& shape : kShapes) {
    if (!is_quantized(shape.types.v)) continue;
    Sequence s(shape, 20, 4);
    const int32_t dim = shape.head_dim, width = shape.kv_heads * dim;
    for (int32_t d = 0; d < dim; ++d) s.v[3 * width + d] = 0.f;
    s.v[4 * width + 2] = 1000.f;
    s.v[5 * width + 1] = 1e-38f;
    for (int32_t t = 0; t < 20; ++t) s.write(portable(), t);
    for (int32_t t = 0; t < 20; ++t) {
      for (int32_t d = 0; d < dim; ++d) {
        const float* row = &s.v[t * width];
        const int32_t group = shape.types.v == KvType::kInt4 ? d / 32 * 32 : 0;
        const int32_t end = shape.types.v == KvType::kInt4 ? std::min(group + 32, dim) : dim;
        double low = row[group], high = row[group], max = 0;
        for (int32_t i = group; i < end; ++i) {
          low = std::min<double>(low, row[i]);
          high = std::max<double>(high, row[i]);
          max = std::max<double>(max, std::abs(row[i]));
        }
        double half = 0;
        if (shape.types.v == KvType::kInt8) half = max / 127 / 2;
        if (shape.types.v == KvType::kFp8E4m3) half = std::max(std::abs(row[d]) / 16., max / 1.75 * 0x1p-18);
        if (shape.types.v == KvType::kFp8E5m2) half = std::max(std::abs(row[d]) / 8., max / 57344 * 0x1p-17);
        if (shape.types.v == KvType::kInt4)
          half = (high - low) / 30 + std::abs(low) * 0x1p-11 + (high - low) * 0x1p-11 + 0x1p-24;
        ASSERT_NEAR(s.stored_v(t, 0, d), row[d], half * 1.001 + 1e-30) << shape << " t=" << t << " d=" << d;
      }
    }
  }
}

// Goal: ties go to even. Method: a row whose scale is exactly 1 (e5m2) or 2^15 (e4m3), numbers by hand; the same row,
// with ties down into the subnormals, by memcmp.
TEST(KvWrite, TiesGoToEven) {
  const Shape e4m3{1, 1, 64, KvType::kFp8E4m3}, e5m2{1, 1, 64, KvType::kFp8E5m2};
  const auto with_ties = [](Sequence& s, const Named& writer) {
    for (int32_t d = 0; d < 64; ++d)
      s.k[d] = s.v[d] = (d % 2 ? -1.f : 1.f) * (1.f + float(d % 32) / 32) * std::ldexp(1.f, 14 - d / 2);
    s.k[0] = s.v[0] = 57344.f;
    s.k[1] = s.v[1] = 0x1.1p14f;  // between 1 and 1.125 of e4m3
    s.k[2] = s.v[2] = 0x1.3p14f;  // between 1.125 and 1.25
    s.k[3] = s.v[3] = 0x1.2p14f;  // between 1 and 1.25 of e5m2
    s.k[4] = s.v[4] = 0x1.6p14f;  // between 1.25 and 1.5
    s.write(writer, 0);
  };
  Sequence eight(e4m3, 1, 1), five(e5m2, 1, 1);
  with_ties(eight, portable());
  with_ties(five, portable());
  EXPECT_EQ(eight.stored_v(0, 0, 1), 0x1p14);
  EXPECT_EQ(eight.stored_v(0, 0, 2), 0x1.4p14);
  EXPECT_EQ(five.stored_v(0, 0, 3), 0x1p14);
  EXPECT_EQ(five.stored_v(0, 0, 4), 0x1.8p14);
  for (const Named& k : runnable()) {
    for (Sequence* want : {&eight, &five}) {
      Sequence got(want->shape, 1, 1);
      with_ties(got, k);
      EXPECT_EQ(0, std::memcmp(want->pool.data.get(), got.pool.data.get(), got.kv.block_stride_bytes * 4)) << k.name;
    }
  }
}

// Goal: kv_write rounds as core/half.h and writes its slot only. Method: memcmp of whole pools after writes of
// ordinary, tiny, huge, infinite and NaN values.
TEST(KvWrite, EveryKernelEqualsThePortableOneBitForBit) {
  const float special[] = {0.f,     -0.f,   1e-8f,    -6e-8f,    6.1e-5f, 65504.f, 65519.9f,
                           65520.f, -1e30f, INFINITY, -INFINITY, NAN,     0.1f};
  for (const Named& k : runnable()) {
    for (const Shape& shape : kShapes) {
      Sequence a(shape, 33, 4), b(shape, 33, 4, k);
      for (Sequence* s : {&a, &b}) {
        for (size_t i = 0; i < s->k.size(); ++i) {
          s->k[i] = special[i % std::size(special)];
          s->v[i] = special[(i + 5) % std::size(special)];
        }
        s->write(s == &a ? portable() : k, 17);
        for (size_t i = 0; i < s->k.size(); ++i) {  // a scale needs finite values
          if (!std::isfinite(s->k[i]) || i % 29 < 16) s->k[i] = 0.37f * float(i % 61) - 9;
          if (!std::isfinite(s->v[i])) s->v[i] = -1e-8f * float(i % 7);
        }
        s->write(s == &a ? portable() : k, 18);
      }
      EXPECT_EQ(0, std::memcmp(a.pool.data.get(), b.pool.data.get(), a.kv.block_stride_bytes * 6))
          << k.name << " " << shape;
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
