#include "kernels/rms_norm/rms_norm.h"

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
  RmsNormFn fn;
};
const Named kKernels[] = {
#define PAGODA_RMS_NORM_KERNEL(need, fn) {#fn, need, fn},
#include "kernels/rms_norm/kernels.inc"
#undef PAGODA_RMS_NORM_KERNEL
};

std::vector<float> gauss_row(int32_t dim, std::mt19937& rng) {
  std::normal_distribution<float> gauss(0.f, 3.f);
  std::vector<float> row(dim);
  for (float& e : row) e = gauss(rng);
  return row;
}

constexpr int32_t kDims[] = {1, 7, 8, 9, 15, 16, 17, 64, 576, 4097};

// Goal: every ISA kernel gives the portable kernel's bits, for whole vectors, tails and one element, strided rows and
// in place. Method: memcmp. It is what makes a request's bytes independent of the machine.
TEST(RmsNorm, EveryKernelEqualsThePortableOneBitForBit) {
  std::mt19937 rng(20261129);  // fixed seed: a failure must replay
  for (const Named& k : kKernels) {
    if (!isa::covers(isa::detected(), k.need)) continue;
    for (int32_t dim : kDims) {
      const int32_t rows = 3, stride = dim + 5;
      const std::vector<float> x = gauss_row(rows * stride, rng), gain = gauss_row(dim, rng);
      std::vector<float> got = x, want(rows * stride, 0.f);
      k.fn({got.data(), rows, dim, stride}, gain.data(), 1e-5f, {got.data(), rows, dim, stride});
      rms_norm_f32_portable({x.data(), rows, dim, stride}, gain.data(), 1e-5f, {want.data(), rows, dim, stride});
      for (int32_t t = 0; t < rows; ++t) {
        EXPECT_EQ(0, std::memcmp(&got[t * stride], &want[t * stride], dim * sizeof(float))) << k.name << " D=" << dim;
        EXPECT_EQ(0, std::memcmp(&got[t * stride + dim], &x[t * stride + dim], 5 * sizeof(float)))
            << "wrote past a row";
      }
    }
  }
}

// Goal: the portable kernel computes the formula in rms_norm.h. Bound: the one the header states.
TEST(RmsNorm, PortableStaysWithinTheDocumentedError) {
  std::mt19937 rng(20261130);
  for (int32_t dim : kDims) {
    const std::vector<float> x = gauss_row(dim, rng), gain = gauss_row(dim, rng);
    std::vector<float> y(dim);
    rms_norm_f32_portable({x.data(), 1, dim, dim}, gain.data(), 1e-5f, {y.data(), 1, dim, dim});
    double sum_sq = 0;
    for (float e : x) sum_sq += double(e) * e;
    const double scale = 1 / std::sqrt(sum_sq / dim + double(1e-5f));
    for (int32_t d = 0; d < dim; ++d) {
      const double want = x[d] * scale * gain[d];
      EXPECT_NEAR(y[d], want, std::abs(want) * (dim / 32.0 + 8) * 0x1p-24) << "D=" << dim << " d=" << d;
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
