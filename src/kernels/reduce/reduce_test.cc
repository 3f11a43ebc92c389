#include "kernels/reduce/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace pagoda::kernels {
namespace {

struct Named {
  const char* name;
  uint32_t need;
  ArgMaxFn arg_max;
  LogSumExpFn log_sum_exp;
  SumFn sum;
};
const Named kKernels[] = {
#define PAGODA_REDUCE_ISA(need, isa_name) \
  {#isa_name, need, arg_max_f32_##isa_name, log_sum_exp_f32_##isa_name, sum_f32_##isa_name},
#include "kernels/reduce/kernels.inc"
#undef PAGODA_REDUCE_ISA
};

std::vector<Named> runnable() {
  std::vector<Named> found;
  for (const Named& k : kKernels)
    if (isa::covers(isa::detected(), k.need)) found.push_back(k);
  return found;
}

constexpr int64_t kSizes[] = {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1000, 49152, 151936};
const float kInf = INFINITY;

std::vector<float> logits(int64_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.f, 5.f);
  std::vector<float> x(n);
  for (float& e : x) e = normal(rng);
  return x;
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Goal: every ISA kernel gives the portable kernel's bits, for whole vectors, blocks and tails, with masked entries.
TEST(Reduce, EveryKernelEqualsThePortableOneBitForBit) {
  for (const Named& k : runnable()) {
    for (int64_t n : kSizes) {
      std::vector<float> x = logits(n, n);
      for (int masked = 0; masked < 2; ++masked) {
        EXPECT_TRUE(same_bits(k.log_sum_exp(x.data(), n), log_sum_exp_f32_portable(x.data(), n)))
            << k.name << " n=" << n;
        const ArgMax got = k.arg_max(x.data(), n), want = arg_max_f32_portable(x.data(), n);
        EXPECT_EQ(got.index, want.index) << k.name << " n=" << n;
        EXPECT_TRUE(same_bits(got.value, want.value)) << k.name << " n=" << n;
        if (!masked) {
          EXPECT_TRUE(same_bits(k.sum(x.data(), n), sum_f32_portable(x.data(), n))) << k.name << " n=" << n;
        }
        for (int64_t i = 0; i < n; ++i)
          if (i % 3 == 0 || i / 256 == 1) x[i] = -kInf;  // single entries, and a whole block
      }
    }
  }
}

// Goal: sum and log_sum_exp keep the bounds of reduce.h. Method: against double.
TEST(Reduce, PortableStaysWithinTheDocumentedError) {
  for (int64_t n : kSizes) {
    const std::vector<float> x = logits(n, 100 + n);
    double sum = 0, absolute = 0, max = -kInf, exp_sum = 0;
    for (float e : x) sum += e, absolute += std::abs(e), max = std::max(max, double(e));
    for (float e : x) exp_sum += std::exp(e - max);
    EXPECT_NEAR(sum_f32_portable(x.data(), n), sum, (n / 16.0 + 4) * 0x1p-24 * absolute) << n;
    const double want = max + std::log(exp_sum);
    EXPECT_NEAR(log_sum_exp_f32_portable(x.data(), n), want, 0x1p-20 + std::abs(want) * 0x1p-23) << n;
  }
}

// Goal: greedy decoding takes the lowest id among equals, wherever they lie. Method: every pair of places in a short
// vector.
TEST(Reduce, ArgMaxTakesTheLowestIndexOfEquals) {
  for (const Named& k : runnable()) {
    for (int64_t n : {1, 8, 33, 70}) {
      for (int64_t a = 0; a < n; ++a) {
        for (int64_t b = a; b < n; ++b) {
          std::vector<float> x(n, -1.f);
          x[a] = x[b] = 2.f;
          ASSERT_EQ(k.arg_max(x.data(), n).index, a) << k.name << " n=" << n << " b=" << b;
        }
      }
    }
    const float zeros[] = {-1.f, -0.f, 0.f};
    EXPECT_EQ(k.arg_max(zeros, 3).index, 1) << k.name;
    const std::vector<float> masked(40, -kInf);
    EXPECT_EQ(k.arg_max(masked.data(), 40).index, 0) << k.name;
    EXPECT_EQ(k.arg_max(zeros, 0).index, -1) << k.name;
  }
}

// Goal: NaN is reported, never skipped. Method: one NaN at every place, also beside +inf.
TEST(Reduce, NaNIsSeenAnywhere) {
  for (const Named& k : runnable()) {
    for (int64_t n : {1, 9, 32, 67, 300}) {
      for (int64_t at = 0; at < n; ++at) {
        std::vector<float> x(n, 1.f);
        x[n / 2] = at % 2 ? kInf : 5.f;
        x[at] = std::nanf("");
        ASSERT_EQ(k.arg_max(x.data(), n).index, -1) << k.name << " n=" << n << " at=" << at;
        ASSERT_TRUE(std::isnan(k.log_sum_exp(x.data(), n))) << k.name << " n=" << n << " at=" << at;
        std::vector<float> masked(n, -kInf);
        masked[at] = std::nanf("");
        ASSERT_TRUE(std::isnan(k.log_sum_exp(masked.data(), n))) << k.name << " n=" << n << " at=" << at;
      }
    }
  }
}

// Goal: masked entries add nothing; nothing left is -inf. Method: the masked vector equals the vector of what is left
// when that lies in the same lanes (a whole masked block leaves the merge alone).
TEST(Reduce, MaskedEntriesAddNothing) {
  for (const Named& k : runnable()) {
    std::vector<float> x = logits(256, 5);
    const float alone = k.log_sum_exp(x.data(), 256);
    x.resize(1024, -kInf);
    EXPECT_TRUE(same_bits(k.log_sum_exp(x.data(), 1024), alone)) << k.name;
    std::vector<float> late(256, -kInf);
    late.insert(late.end(), x.begin(), x.begin() + 256);
    EXPECT_TRUE(same_bits(k.log_sum_exp(late.data(), 512), alone)) << k.name;
    const std::vector<float> none(300, -kInf);
    EXPECT_EQ(k.log_sum_exp(none.data(), 300), -kInf) << k.name;
    EXPECT_EQ(k.log_sum_exp(none.data(), 0), -kInf) << k.name;
  }
}

}  // namespace
}  // namespace pagoda::kernels
