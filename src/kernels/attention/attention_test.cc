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
  KvType type = KvType::kF16;
};

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

  Sequence(Shape s, int32_t n, uint32_t seed, const Named& writer = portable())
      : shape(s),
        tokens(n),
        pool((div_ceil(n, kBlockTokens) + 3) * (kv_block_bytes(s.type, s.kv_heads, s.head_dim) + 64)) {
    std::mt19937 rng(seed);
    q = gauss(size_t(n) * s.heads * s.head_dim, rng);
    k = gauss(size_t(n) * s.kv_heads * s.head_dim, rng);
    v = gauss(size_t(n) * s.kv_heads * s.head_dim, rng);
    const int32_t blocks = div_ceil(n, kBlockTokens) + 3;
    const int64_t stride = kv_block_bytes(s.type, s.kv_heads, s.head_dim) + 64;
    std::memset(pool.data.get(), 0xff, blocks * stride);
    kv = {s.type, s.kv_heads, s.head_dim, pool.data.get(), stride};
    std::vector<uint32_t> ids(blocks);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), rng);
    for (int32_t b = 0; b < div_ceil(n, kBlockTokens); ++b) table.push_back(BlockId{ids[b]});
    for (int32_t t = 0; t < n; ++t) write(writer, t);
  }

  void write(const Named& writer, int32_t t) {
    const int64_t width = int64_t{shape.kv_heads} * shape.head_dim;
    writer.write(kv, table[t / kBlockTokens], t % kBlockTokens, &k[t * width], &v[t * width]);
  }

  /// Output rows [begin, begin + rows) of all heads: [rows, heads * Dh].
  std::vector<float> attend(const Named& kernel, int32_t begin, int32_t rows, Variant variant = {}) const {
    const int64_t width = int64_t{shape.heads} * shape.head_dim;
    std::vector<float> out(rows * width, std::nanf(""));
    Aligned scratch(attention_scratch_bytes(shape.head_dim));
    std::memset(scratch.data.get(), 0xff, attention_scratch_bytes(shape.head_dim));
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

  float stored(float x) const { return shape.type == KvType::kF16 ? f16_to_f32(f32_to_f16(x)) : x; }
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
                         {3, 1, 64, KvType::kF32}};

// Goal: the portable kernel computes softmax(q K^T scale) V with causal mask, window and softcap.
// Method: against the formula in double over the stored K and V. Bound, from the chain: a score of Dh fma steps is off
// by at most (Dh + 4) 2^-24 S, S = sum |q k| scale (its effect on p is that much times 2, relative, numerator and
// denominator); a chain of at most 256 values, the lane sums, exp2 and the merges add (256 + 32 + 8 chunks) 2^-24. All
// times max|v|.
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
              const double term = double(s.q[(t * shape.heads + h) * dim + d]) / std::sqrt(double(dim)) *
                                  s.stored(s.k[(j * shape.kv_heads + h / group) * dim + d]);
              dot += term;
              absolute += std::abs(term);
            }
            score.push_back(variant.softcap > 0 ? variant.softcap * std::tanh(dot / variant.softcap) : dot);
            score_abs = std::max(score_abs, absolute);
          }
          const double max = *std::max_element(score.begin(), score.end());
          for (int32_t j = first; j <= t; ++j) {
            const double p = std::exp(score[j - first] - max);
            sum += p;
            for (int32_t d = 0; d < dim; ++d) {
              const double v = s.stored(s.v[(j * shape.kv_heads + h / group) * dim + d]);
              value[d] += p * v;
              value_abs = std::max(value_abs, std::abs(v));
            }
          }
          const double bound = value_abs * 0x1p-24 * (2 * (dim + 4) * score_abs + 256 + 32 + 8 * 3);
          for (int32_t d = 0; d < dim; ++d)
            ASSERT_NEAR(got[h * dim + d], value[d] / sum, bound)
                << "Dh=" << dim << " t=" << t << " h=" << h << " d=" << d;
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
              << k.name << " H=" << shape.heads << " Hkv=" << shape.kv_heads << " Dh=" << shape.head_dim
              << " C=" << tokens << " window=" << variant.window << " softcap=" << variant.softcap;
      }
    }
  }
}

// Goal: chunking changes no bit (DESIGN, promise 1). Method: one call for all rows against row by row and other cuts.
TEST(Attention, OneTileOrManyRowsOrOneRowTheSameBits) {
  for (const Named& k : runnable()) {
    for (const Shape& shape : {Shape{3, 1, 64}, Shape{6, 1, 64}, Shape{7, 1, 40}, Shape{1, 1, 64}}) {
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
              << k.name << " H=" << shape.heads << " step=" << step << " window=" << variant.window;
        }
      }
    }
  }
}

// Goal: where a block lies does not matter, nor what the slots after the last token hold. Method: the same tokens under
// two block tables; then finite rubbish instead of NaN in the unwritten slots.
TEST(Attention, BlockPlacesAndStaleSlotsDoNotMatter) {
  const Shape shape{6, 2, 64};
  const int32_t tokens = 269;
  for (const Named& k : runnable()) {
    Sequence a(shape, tokens, 5), b(shape, tokens, 5);
    std::memset(b.pool.data.get(), 0x3c, b.kv.block_stride_bytes * (div_ceil(tokens, kBlockTokens) + 3));
    std::reverse(b.table.begin(), b.table.end());
    for (int32_t t = 0; t < tokens; ++t) b.write(k, t);
    EXPECT_TRUE(same_bits(a.attend(k, 0, tokens), b.attend(k, 0, tokens))) << k.name;
    const std::vector<float> last = a.attend(k, tokens - 1, 1);
    for (float x : last) EXPECT_TRUE(std::isfinite(x)) << k.name;
  }
}

// Goal: a token outside the window has no influence at all. Method: NaN into the first tokens; rows that do not see
// them keep their bits, rows that do become NaN.
TEST(Attention, WindowExcludesByBoundNotByZero) {
  const Shape shape{3, 1, 64};
  const int32_t tokens = 320, window = 40, poisoned = 270;
  for (const Named& k : runnable()) {
    Sequence s(shape, tokens, 3);
    const std::vector<float> before = s.attend(k, 0, tokens, {window, 0});
    for (int32_t t = 0; t < poisoned; ++t) {
      for (int32_t d = 0; d < shape.head_dim; ++d)
        s.k[t * shape.head_dim + d] = s.v[t * shape.head_dim + d] = std::nanf("");
      s.write(k, t);
    }
    const std::vector<float> after = s.attend(k, 0, tokens, {window, 0});
    const int64_t width = int64_t{shape.heads} * shape.head_dim;
    for (int32_t t = poisoned - 1 + window; t < tokens; ++t)
      EXPECT_EQ(0, std::memcmp(&before[t * width], &after[t * width], width * sizeof(float))) << k.name << " t=" << t;
    for (int64_t i = 0; i < width; ++i) EXPECT_TRUE(std::isnan(after[(poisoned - 2 + window) * width + i])) << k.name;
  }
}

// Goal: a broken score is not hidden: NaN in a query or a visible key makes the output NaN, so that the engine can see
// it.
TEST(Attention, NaNReachesTheOutput) {
  for (const Named& k : runnable()) {
    Sequence s({2, 1, 64}, 40, 9);
    s.k[5 * 64 + 3] = std::nanf("");
    s.write(k, 5);
    for (float x : s.attend(k, 39, 1)) EXPECT_TRUE(std::isnan(x)) << k.name;
  }
}

// Goal: one token sees itself alone, so the output is its own V exactly. Method: context 1, p = exp2(0) = 1.
TEST(Attention, OneTokenGivesItsOwnValue) {
  for (const Named& k : runnable()) {
    const Sequence s({4, 2, 64}, 1, 2);
    const std::vector<float> out = s.attend(k, 0, 1);
    for (int32_t h = 0; h < 4; ++h)
      for (int32_t d = 0; d < 64; ++d) EXPECT_EQ(out[h * 64 + d], s.stored(s.v[h / 2 * 64 + d])) << k.name;
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
      }
      EXPECT_EQ(0, std::memcmp(a.pool.data.get(), b.pool.data.get(), a.kv.block_stride_bytes * 6)) << k.name;
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
