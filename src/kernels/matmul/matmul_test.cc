#include "kernels/matmul/matmul.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/half.h"
#include "core/ids.h"
#include "kernels/formats/dequantize.h"
#include "kernels/matmul/kernels.h"
#include "kernels/matmul/layout.h"

namespace pagoda::kernels {
namespace {

struct Named {
  const char* name;
  uint32_t need;
  MatmulOps ops;
  QuantizeActFn quantize;
};

std::vector<Named> available_kernels() {
  std::vector<Named> found;
#define PAGODA_MATMUL_KERNEL(need, name, pack, matmul, quantize) \
  if (isa::covers(isa::detected(), need))                        \
    found.push_back({#name, need, {kGroupRows, packed_bytes_r8, pack, matmul, unpack_row_r8}, quantize});
#include "kernels/matmul/kernels.inc"
#undef PAGODA_MATMUL_KERNEL
  return found;
}

Named portable() { return available_kernels().back(); }

// Every type that has arithmetic, with the offsets of its f16 fields (random bytes elsewhere are valid).
struct Weights {
  TensorType type;
  std::vector<int> f16_at;
};
const std::vector<Weights> kTypes = {
    {TensorType::kF32, {}},        {TensorType::kF16, {0}},    {TensorType::kBF16, {}},     {TensorType::kQ4_0, {0}},
    {TensorType::kQ4_1, {0, 2}},   {TensorType::kQ5_0, {0}},   {TensorType::kQ5_1, {0, 2}}, {TensorType::kQ8_0, {0}},
    {TensorType::kQ2_K, {80, 82}}, {TensorType::kQ3_K, {108}}, {TensorType::kQ4_K, {0, 2}}, {TensorType::kQ5_K, {0, 2}},
    {TensorType::kQ6_K, {208}},    {TensorType::kIQ4_NL, {0}}, {TensorType::kIQ4_XS, {0}},  {TensorType::kMXFP4, {}},
    {TensorType::kIQ2_XXS, {0}},   {TensorType::kIQ2_XS, {0}}, {TensorType::kIQ2_S, {0}},   {TensorType::kIQ3_XXS, {0}},
    {TensorType::kIQ3_S, {0}},     {TensorType::kIQ1_S, {0}},  {TensorType::kIQ1_M, {}},    {TensorType::kTQ1_0, {52}},
    {TensorType::kTQ2_0, {64}},
};

constexpr std::byte kFiniteIq1M{0xbf};  // of its last byte, whose upper nibble holds the upper exponent bits of d

std::vector<std::byte> random_rows(const Weights& weights, int32_t rows, int32_t cols, std::mt19937& rng) {
  const TypeTraits& traits = *type_traits(weights.type);
  std::vector<std::byte> bytes(static_cast<size_t>(rows * row_bytes(weights.type, cols)));
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
  std::uniform_real_distribution<float> value(-1.f, 1.f);
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(traits.block_bytes)) {
    if (weights.type == TensorType::kF32 || weights.type == TensorType::kBF16) {
      const float f = value(rng);
      const uint16_t b = f32_to_bf16(f);
      weights.type == TensorType::kF32 ? std::memcpy(&bytes[at], &f, 4) : std::memcpy(&bytes[at], &b, 2);
    }
    if (weights.type == TensorType::kIQ1_M) bytes[at + 55] &= kFiniteIq1M;
    if (weights.type == TensorType::kMXFP4) bytes[at] = static_cast<std::byte>(118 + rng() % 8);
    for (int field : weights.f16_at) {
      const uint16_t h = f32_to_f16(value(rng) * (weights.type == TensorType::kF16 ? 1.f : 0.01f));
      std::memcpy(&bytes[at + static_cast<size_t>(field)], &h, 2);
    }
  }
  return bytes;
}

// Memory that ends at a page nobody may touch, so that a kernel that reads or writes past a buffer dies in every
// preset.
class Guarded {
 public:
  Guarded() = default;
  Guarded(size_t bytes, int fill) {
    const size_t page = 4096, whole = (bytes + page - 1) / page * page;
    mapping_ = mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    PAGODA_CHECK(mapping_ != MAP_FAILED && mprotect(static_cast<std::byte*>(mapping_) + whole, page, PROT_NONE) == 0);
    mapped_ = whole + page;
    data_ =
        static_cast<std::byte*>(mapping_) + (whole - bytes) / 64 * 64;  // 64-byte aligned, at most 63 bytes of slack
    std::memset(data_, fill, bytes);
  }
  Guarded(Guarded&& other) noexcept { *this = std::move(other); }
  Guarded& operator=(Guarded&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_, other.mapped_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Guarded() {
    if (mapping_) munmap(mapping_, mapped_);
  }
  std::byte* data() const { return data_; }

 private:
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  std::byte* data_ = nullptr;
};

// A matrix packed by one kernel's ops.
struct Packed {
  Guarded storage;
  PackedMatrix matrix;
};

Packed pack(const MatmulOps& ops, TensorType type, const std::vector<std::byte>& rows, int32_t n, int32_t k) {
  Packed p{Guarded(static_cast<size_t>(ops.packed_bytes(type, n, k)), 0xee), {}};
  ops.pack(type, rows.data(), n, k, {0, n}, p.storage.data());
  p.matrix = {type, n, k, p.storage.data()};
  return p;
}

struct Activations {
  Guarded storage;
  ActView view;
};

Mat<const float> rows_of(const float* x, int32_t rows, int32_t cols) { return {x, rows, cols, cols}; }

Activations activations(QuantizeActFn quantize, TensorType weight, const std::vector<float>& x, int32_t rows,
                        int32_t cols) {
  const ActFormat format = act_format(weight);
  const size_t x_bytes = x.size() * sizeof(float);
  Guarded in((x_bytes + 63) / 64 * 64, 0);
  auto* values = reinterpret_cast<float*>(in.data() + (x_bytes + 63) / 64 * 64 - x_bytes);  // ends at the guard
  std::memcpy(values, x.data(), x_bytes);
  if (format == ActFormat::kF32) return {std::move(in), act_view_f32(rows_of(values, rows, cols))};
  Activations a{Guarded(static_cast<size_t>(act_bytes(format, rows, cols)), 0x5a), {}};
  a.view = act_view(format, rows, cols, a.storage.data());
  quantize(rows_of(values, rows, cols), {0, rows}, a.view);
  return a;
}

std::vector<float> random_x(int32_t rows, int32_t cols, std::mt19937& rng) {
  std::vector<float> x(static_cast<size_t>(rows) * static_cast<size_t>(cols));
  std::normal_distribution<float> normal(0.f, 1.f);
  for (float& v : x) v = normal(rng) * std::exp2(static_cast<float>(rng() % 7) - 3.f);
  return x;
}

std::vector<float> multiply(const MatmulOps& ops, const PackedMatrix& w, const ActView& x, std::vector<Range> ranges) {
  const size_t count = static_cast<size_t>(x.rows) * static_cast<size_t>(w.rows), bytes = count * sizeof(float);
  const Guarded storage((bytes + 63) / 64 * 64, 0xee);
  auto* y = reinterpret_cast<float*>(storage.data() + (bytes + 63) / 64 * 64 - bytes);
  for (const Range& range : ranges) ops.matmul(w, x, range, {y, x.rows, w.rows, w.rows});
  return {y, y + count};
}

std::vector<float> multiply(const MatmulOps& ops, const PackedMatrix& w, const ActView& x) {
  return multiply(ops, w, x, {{0, w.rows}});
}

std::vector<int32_t> widths(TensorType type) {
  const int32_t block = type_traits(type)->block_elements;
  if (block == 256) return {256, 768, 1280};
  if (block == 32) return {32, 96, 576, 1056};
  return {1, 7, 64, 257, 576};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Goal: no type that can be read lacks kernels, or a test below.
TEST(Matmul, EveryReadableTypeIsTested) {
  for (uint32_t id = 0; id < 64; ++id) {
    const auto type = static_cast<TensorType>(id);
    const TypeTraits* traits = type_traits(type);
    const bool tested = std::any_of(kTypes.begin(), kTypes.end(), [&](const Weights& w) { return w.type == type; });
    EXPECT_EQ(tested, traits && traits->dequantizable) << id;
  }
}

// Goal: every ISA kernel gives the portable kernel's bits, for every type, batch size, width and row tail.
// Method: memcmp of whole outputs; activations from the portable quantizer.
TEST(Matmul, EveryKernelEqualsThePortableOneBitForBit) {
  std::mt19937 rng(20261129);
  for (const Weights& weights : kTypes)
    for (int32_t k : widths(weights.type))
      for (int32_t n : {5, 8, 24, 40, 83}) {
        const auto rows = random_rows(weights, n, k, rng);
        const Named base = portable();
        const Packed want_w = pack(base.ops, weights.type, rows, n, k);
        for (int32_t t : {1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 17, 64}) {
          if ((n != 83 && t > 8) || (n == 83 && t < 8 && k > 700)) continue;  // the portable kernel is slow
          const Activations a = activations(base.quantize, weights.type, random_x(t, k, rng), t, k);
          const auto want = multiply(base.ops, want_w.matrix, a.view);
          for (const Named& kernel : available_kernels()) {
            const Packed w = pack(kernel.ops, weights.type, rows, n, k);
            EXPECT_TRUE(same_bits(multiply(kernel.ops, w.matrix, a.view), want))
                << kernel.name << " " << type_traits(weights.type)->name << " T=" << t << " K=" << k << " N=" << n;
          }
        }
      }
}

// Goal: a chain that is cut into chunks of k or into panels of many tokens continues where it was. Method: as above,
// with rows longer than any kernel's chunk and more tokens than any threshold.
TEST(Matmul, LongRowsAndManyTokensEqualThePortableOnes) {
  std::mt19937 rng(20261201);
  const Named base = portable();
  for (const Weights& weights : kTypes) {
    const int32_t k = 3328, n = 19, t = 98;
    const auto rows = random_rows(weights, n, k, rng);
    const Packed w = pack(base.ops, weights.type, rows, n, k);
    const Activations a = activations(base.quantize, weights.type, random_x(t, k, rng), t, k);
    const auto want = multiply(base.ops, w.matrix, a.view);
    for (const Named& kernel : available_kernels())
      EXPECT_TRUE(same_bits(multiply(kernel.ops, w.matrix, a.view), want))
          << kernel.name << " " << type_traits(weights.type)->name;
  }
}

// Goal: every packer writes the portable packer's bytes, reads no byte beyond the rows and writes none outside its
// range. Method: rows that end at a guard page, memcmp of the whole matrix over a fill, packed at once and in uneven
// ranges.
TEST(Matmul, EveryPackerEqualsThePortableOneBitForBit) {
  std::mt19937 rng(20261130);
  for (const Weights& weights : kTypes)
    for (int32_t k : widths(weights.type))
      for (int32_t n : {5, 8, 40, 83}) {
        const auto rows = random_rows(weights, n, k, rng);
        const Guarded in((rows.size() + 63) / 64 * 64, 0);
        std::byte* src = in.data() + (rows.size() + 63) / 64 * 64 - rows.size();  // any alignment; ends at the guard
        std::memcpy(src, rows.data(), rows.size());
        const Packed want = pack(portable().ops, weights.type, rows, n, k);
        for (const Named& kernel : available_kernels()) {
          const auto bytes = static_cast<size_t>(kernel.ops.packed_bytes(weights.type, n, k));
          const Guarded whole(bytes, 0xee), pieces(bytes, 0xee);
          kernel.ops.pack(weights.type, src, n, k, {0, n}, whole.data());
          for (const Range range : {Range{0, std::min(n, 8)}, Range{std::min(n, 8), std::min(n, 24)},
                                    Range{std::min(n, 24), n}, Range{n, n}})
            kernel.ops.pack(weights.type, src, n, k, range, pieces.data());
          EXPECT_EQ(0, std::memcmp(whole.data(), want.storage.data(), bytes))
              << kernel.name << " " << type_traits(weights.type)->name << " K=" << k << " N=" << n;
          EXPECT_EQ(0, std::memcmp(pieces.data(), want.storage.data(), bytes))
              << kernel.name << " " << type_traits(weights.type)->name << " K=" << k << " N=" << n << " in pieces";
        }
      }
}

// Goal: a token's outputs do not depend on its neighbours or on how rows are split between threads.
// Method: each row alone against the batch; uneven row ranges against the whole; memcmp.
TEST(Matmul, BatchAndRowRangesChangeNoBit) {
  std::mt19937 rng(7);
  for (const Named& kernel : available_kernels())
    for (const Weights& weights : kTypes) {
      const int32_t k = type_traits(weights.type)->block_elements == 256 ? 512 : 160, n = 139, t = 33;
      const auto rows = random_rows(weights, n, k, rng);
      const Packed w = pack(kernel.ops, weights.type, rows, n, k);
      const auto x = random_x(t, k, rng);
      const Activations all = activations(kernel.quantize, weights.type, x, t, k);
      const auto want = multiply(kernel.ops, w.matrix, all.view);
      EXPECT_TRUE(
          same_bits(want, multiply(kernel.ops, w.matrix, all.view, {{0, 8}, {8, 48}, {48, 120}, {120, n}, {n, n}})))
          << kernel.name << " " << type_traits(weights.type)->name;
      for (int32_t row = 0; row < t; ++row) {
        const std::vector<float> one(x.begin() + row * k, x.begin() + (row + 1) * k);
        const Activations a = activations(kernel.quantize, weights.type, one, 1, k);
        const auto got = multiply(kernel.ops, w.matrix, a.view);
        EXPECT_EQ(0, std::memcmp(got.data(), want.data() + row * n, sizeof(float) * n))
            << kernel.name << " " << type_traits(weights.type)->name << " row " << row;
      }
    }
}

// What the activations say after quantization, in double and natural order.
std::vector<double> dequantized(const ActView& a, int32_t row) {
  std::vector<double> x(static_cast<size_t>(a.cols));
  for (int32_t k = 0; k < a.cols; ++k) {
    const int64_t at = int64_t{row} * a.cols_padded;
    if (a.format == ActFormat::kF32) {
      x[k] = a.f32[row * a.f32_stride + k];
    } else if (a.format == ActFormat::kInt8Block32) {
      x[k] = double{a.d[(at + k) / 32]} * a.q[at + k];
    } else {
      const int32_t block = k % 64 / 32, e = k % 32;
      x[k] = double{a.d[(at + k) / 256]} * a.m[(at + k) / 32] * a.q[at + k / 64 * 64 + e / 2 * 4 + block * 2 + e % 2];
    }
  }
  return x;
}

// Goal: the portable kernel computes the product. Method: double precision on the dequantized numbers of both sides;
// bound of portable.cc, (b + 4) u, plus 4 u for the reference weights' own f32 rounding, with |d q| + |min| <= 3 max|w|
// of a row whose values span the format's range.
TEST(Matmul, PortableKeepsItsBound) {
  std::mt19937 rng(11);
  const Named base = portable();
  for (const Weights& weights : kTypes)
    for (int32_t k : widths(weights.type)) {
      const int32_t n = 19, t = 2;
      const auto rows = random_rows(weights, n, k, rng);
      const Packed w = pack(base.ops, weights.type, rows, n, k);
      const Activations a = activations(base.quantize, weights.type, random_x(t, k, rng), t, k);
      const auto got = multiply(base.ops, w.matrix, a.view);
      std::vector<float> row(static_cast<size_t>(k));
      for (int32_t j = 0; j < n; ++j) {
        dequantize_row(weights.type, rows.data() + j * row_bytes(weights.type, k), k, row.data());
        double most = 0;
        for (float v : row) most = std::max(most, std::fabs(double{v}));
        for (int32_t i = 0; i < t; ++i) {
          const auto x = dequantized(a.view, i);
          double want = 0, size = 0;
          for (int32_t e = 0; e < k; ++e) {
            want += x[e] * row[e];
            size += std::fabs(x[e]) * 3 * most;
          }
          const bool is_float = a.view.format == ActFormat::kF32;
          const double blocks = is_float ? k : k / 32 + 1;
          EXPECT_LE(std::fabs(got[i * n + j] - want), (blocks + 8) * 0x1p-24 * size)
              << type_traits(weights.type)->name << " K=" << k << " n=" << j << " got " << got[i * n + j] << " want "
              << want;
        }
      }
    }
}

// Goal: the quantizer follows its rule. Method: the rule restated in double on rows with outliers, zeros and a short
// tail.
TEST(QuantizeAct, FollowsTheRule) {
  std::mt19937 rng(3);
  for (const Named& kernel : available_kernels())
    for (TensorType weight : {TensorType::kQ4_K, TensorType::kQ8_0}) {
      const bool block256 = weight == TensorType::kQ4_K;
      const int32_t k = block256 ? 768 : 672, t = 4;
      auto x = random_x(t, k, rng);
      std::fill_n(x.begin() + 64, 32, 0.f);  // a zero 32-block
      std::fill_n(x.begin() + k, 256, 0.f);  // a zero 256-block
      x[5] = 4000.f;                         // an outlier
      const Activations a = activations(kernel.quantize, weight, x, t, k);
      for (int32_t row = 0; row < t; ++row) {
        const auto back = dequantized(a.view, row);
        for (int32_t e = 0; e < k; e += 32) {
          const float* part = x.data() + row * k + e;
          const double amax32 = std::fabs(
              *std::max_element(part, part + 32, [](float p, float q) { return std::fabs(p) < std::fabs(q); }));
          double step = amax32 / 127;
          if (block256) {
            const float* whole = x.data() + row * k + e / 256 * 256;
            const double amax256 = std::fabs(
                *std::max_element(whole, whole + 256, [](float p, float q) { return std::fabs(p) < std::fabs(q); }));
            const int m = amax256 == 0 ? 1 : std::clamp(static_cast<int>(std::ceil(8 * amax32 / amax256)), 1, 8);
            EXPECT_EQ(a.view.m[(row * a.view.cols_padded + e) / 32], m);
            step = amax256 / 1016 * m;
          }
          int sum = 0;
          for (int32_t i = 0; i < 32; ++i) {
            EXPECT_LE(std::fabs(back[e + i] - part[i]), step * 0.50001)
                << kernel.name << " row " << row << " k " << e + i;
            if (!block256) sum += a.view.q[row * a.view.cols_padded + e + i];
          }
          if (!block256) {
            EXPECT_EQ(a.view.sums_f32[(row * a.view.cols_padded + e) / 32], sum);
          }
        }
      }
    }
}

// Goal: every quantizer writes the same bytes, padding and corrections included. Method: memcmp of the whole workspace,
// on rows with zeros, tiny, huge and non-finite values.
TEST(QuantizeAct, EveryKernelEqualsThePortableOneBitForBit) {
  std::mt19937 rng(5);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (TensorType weight : {TensorType::kQ4_K, TensorType::kQ8_0})
    for (int32_t k : {32, 256, 576, 1024, 1056}) {
      const int32_t t = 12;
      auto x = random_x(t, k, rng);
      for (int32_t e = 0; e < k; ++e) {
        x[1 * k + e] = 0.f;
        x[2 * k + e] *= 1e-44f;
        x[3 * k + e] *= 1e-38f;
        x[4 * k + e] *= 1e36f;
        x[5 * k + e] = e % 2 ? 3.4e38f : -3.4e38f;
        x[6 * k + e] = static_cast<float>(e % 255 - 127) / 2.f;  // ties
      }
      x[7 * k + 3] = nan;
      x[8 * k + 30] = inf;
      x[9 * k + 31] = -inf;
      const Activations want = activations(portable().quantize, weight, x, t, k);
      const auto bytes = static_cast<size_t>(act_bytes(want.view.format, t, k));
      for (const Named& kernel : available_kernels()) {
        const Activations got = activations(kernel.quantize, weight, x, t, k);
        EXPECT_EQ(0, std::memcmp(got.view.q, want.view.q, bytes)) << kernel.name << " K=" << k;
      }
    }
}

// Goal: the integer sums hold the worst case of every format: largest weights and scales, activations of +-127 and m of
// 8, K of 8960; also where an int16 lane holds the most of one sign while its neighbours hold the least.
// Method: all bits set (and the most negative values), then random bits with random signs, against double; kernels
// against each other are covered by memcmp there.
TEST(Matmul, LargestIntegersDoNotWrap) {
  std::mt19937 rng(17);
  for (const Named& kernel : available_kernels())
    for (const Weights& weights : kTypes) {
      if (act_format(weights.type) == ActFormat::kF32) continue;
      for (int fill : {0xff, 0x00, 0x80, 0x7f, 0xf0, 0x0f, -1})
        for (int sign : {1, -1, 0}) {
          const int32_t n = 8, k = 8960, t = 7;
          std::vector<std::byte> rows(static_cast<size_t>(n * row_bytes(weights.type, k)),
                                      static_cast<std::byte>(fill));
          const uint16_t one = f32_to_f16(1.f);
          for (std::byte& b : rows)
            if (fill < 0) b = static_cast<std::byte>(rng() % 2 ? 0xff : 0x00);
          for (size_t at = 0; at < rows.size(); at += static_cast<size_t>(type_traits(weights.type)->block_bytes)) {
            for (int field : weights.f16_at) std::memcpy(&rows[at + static_cast<size_t>(field)], &one, 2);
            if (weights.type == TensorType::kMXFP4) rows[at] = std::byte{127};
            if (weights.type == TensorType::kIQ1_M) rows[at + 55] &= kFiniteIq1M;
          }
          const Packed w = pack(kernel.ops, weights.type, rows, n, k);
          std::vector<float> values(static_cast<size_t>(k));
          for (float& v : values) v = static_cast<float>(sign ? sign : rng() % 2 ? 1 : -1);
          std::vector<float> all;
          for (int i = 0; i < t; ++i) all.insert(all.end(), values.begin(), values.end());
          const Activations a = activations(kernel.quantize, weights.type, all, t, k);
          const auto got = multiply(kernel.ops, w.matrix, a.view);
          const auto x = dequantized(a.view, 0);
          std::vector<float> row(static_cast<size_t>(k));
          for (int32_t j = 0; j < n; ++j) {
            dequantize_row(weights.type, rows.data() + j * row_bytes(weights.type, k), k, row.data());
            double want = 0, size = 0;
            for (int32_t e = 0; e < k; ++e)
              want += x[e] * row[e], size += std::fabs(x[e]) * (std::fabs(row[e]) + 2 * 63);
            for (int32_t i = 0; i < t; ++i)
              ASSERT_LE(std::fabs(got[i * n + j] - want), (k / 32 + 8) * 0x1p-24 * size)
                  << kernel.name << " " << type_traits(weights.type)->name << " fill " << fill << " sign " << sign;
          }
        }
    }
}

// Goal: a NaN or an infinity in a token makes that token's outputs NaN and leaves the others alone.
TEST(Matmul, NonFiniteActivationsGiveNan) {
  std::mt19937 rng(9);
  for (const Named& kernel : available_kernels())
    for (const Weights& weights : kTypes) {
      const int32_t k = type_traits(weights.type)->block_elements == 256 ? 512 : 64, n = 16, t = 7;
      const auto rows = random_rows(weights, n, k, rng);
      const Packed w = pack(kernel.ops, weights.type, rows, n, k);
      const auto clean = random_x(t, k, rng);
      auto x = clean;
      x[2 * k + 1] = std::numeric_limits<float>::quiet_NaN();
      if (act_format(weights.type) != ActFormat::kF32) x[4 * k + 33] = -std::numeric_limits<float>::infinity();
      const auto want = multiply(kernel.ops, w.matrix, activations(kernel.quantize, weights.type, clean, t, k).view);
      const Activations a = activations(kernel.quantize, weights.type, x, t, k);
      const auto got = multiply(kernel.ops, w.matrix, a.view);
      for (int32_t row = 0; row < t; ++row)
        for (int32_t j = 0; j < n; ++j) {
          const bool spoiled = row == 2 || (row == 4 && a.view.format != ActFormat::kF32);
          if (spoiled) {
            EXPECT_TRUE(std::isnan(got[row * n + j]))
                << kernel.name << " " << type_traits(weights.type)->name << " row " << row;
          } else {
            EXPECT_EQ(got[row * n + j], want[row * n + j]);
          }
        }
    }
}

// Goal: packing loses nothing, whatever the ranges it is done in. Method: unpack_row against dequantize_row, memcmp.
TEST(Matmul, UnpackedRowsAreTheFilesRows) {
  std::mt19937 rng(13);
  for (const Named& kernel : available_kernels())
    for (const Weights& weights : kTypes)
      for (int32_t k : widths(weights.type)) {
        const int32_t n = 21;
        const auto rows = random_rows(weights, n, k, rng);
        Packed w = pack(kernel.ops, weights.type, rows, n, k);
        auto* data = const_cast<std::byte*>(w.matrix.data);
        std::memset(data, 0xcc, static_cast<size_t>(kernel.ops.packed_bytes(weights.type, n, k)));
        for (Range part : {Range{16, n}, Range{0, 8}, Range{8, 16}})
          kernel.ops.pack(weights.type, rows.data(), n, k, part, data);
        std::vector<float> got(static_cast<size_t>(k)), want(static_cast<size_t>(k));
        for (int32_t row = 0; row < n; ++row) {
          kernel.ops.unpack_row(w.matrix, row, got.data());
          dequantize_row(weights.type, rows.data() + row * row_bytes(weights.type, k), k, want.data());
          EXPECT_TRUE(same_bits(got, want)) << type_traits(weights.type)->name << " K=" << k << " row " << row;
        }
      }
}

}  // namespace
}  // namespace pagoda::kernels
