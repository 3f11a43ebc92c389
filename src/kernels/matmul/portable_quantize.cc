#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/check.h"
#include "kernels/matmul/kernels.h"

// Rule and accuracy: golden/README. Division is the instruction on every ISA, rounding is to nearest even.
namespace pagoda::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The largest |x| as bits: a NaN or an infinity wins, so one comparison finds it.
uint32_t amax_bits(const float* x, int32_t n) {
  uint32_t most = 0;
  for (int32_t i = 0; i < n; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu;
    most = bits > most ? bits : most;
  }
  return most;
}

bool finite(uint32_t bits) { return bits < 0x7f800000u; }

// q = clamp(rne(x / step), -127, 127); step 0 (all zero, or too small to scale) gives zeros.
void quantize32(const float* x, float step, int8_t* q) {
  for (int i = 0; i < 32; ++i) {
    if (step == 0.f) {
      q[i] = 0;
      continue;
    }
    const float v = std::nearbyint(x[i] / step);
    q[i] = static_cast<int8_t>(v < -127.f ? -127.f : v > 127.f ? 127.f : v);
  }
}

int32_t sum_of(const int8_t* q, int32_t n) {
  int32_t sum = 0;
  for (int32_t i = 0; i < n; ++i) sum += q[i];
  return sum;
}

void quantize_block32(const float* x, int64_t block, ActView& out) {
  const uint32_t amax = amax_bits(x, 32);
  const float d = std::bit_cast<float>(amax) / 127.f;
  int8_t* q = out.q + 32 * block;
  quantize32(x, finite(amax) ? d : 0.f, q);
  out.d[block] = finite(amax) ? d : kNan;
  int32_t lanes[2] = {0, 0};
  for (int i = 0; i < 32; ++i) {
    out.q16[32 * block + i] = q[i];
    lanes[i % 4 / 2] += q[i];
  }
  for (int lane = 0; lane < 2; ++lane) out.lane_sums[2 * block + lane] = static_cast<int16_t>(16 * lanes[lane]);
  out.sums_f32[block] = static_cast<float>(lanes[0] + lanes[1]);
}

void quantize_block256(const float* x, int64_t block, ActView& out) {
  const uint32_t amax = amax_bits(x, 256);
  const bool usable = finite(amax);
  const float amax256 = std::bit_cast<float>(amax), d = amax256 / 1016.f;
  out.d[block] = usable ? d : kNan;
  for (int p = 0; p < 4; ++p) {
    int8_t natural[64];
    for (int s = 0; s < 2; ++s) {
      const float* part = x + 64 * p + 32 * s;
      const float amax32 = std::bit_cast<float>(amax_bits(part, 32));
      float m = usable && amax256 > 0.f ? std::ceil(amax32 / amax256 * 8.f) : 1.f;
      m = m < 1.f ? 1.f : m > 8.f ? 8.f : m;
      quantize32(part, usable ? d * m : 0.f, natural + 32 * s);
      const int64_t at = 8 * block + 2 * p + s;
      out.m[at] = static_cast<int16_t>(m);
      out.sums[at] = static_cast<int16_t>(static_cast<int32_t>(m) * sum_of(natural + 32 * s, 32));
      for (int i = 0; i < 4; ++i)
        out.lane_sums[32 * block + 8 * p + 2 * i + s] = static_cast<int16_t>(32 * sum_of(natural + 32 * s + 8 * i, 8));
    }
    int8_t* q = out.q + 256 * block + 64 * p;
    for (int i = 0; i < 16; ++i)
      for (int c = 0; c < 4; ++c) q[4 * i + c] = natural[32 * (c / 2) + 2 * i + c % 2];
  }
}

}  // namespace

void quantize_act_portable(Mat<const float> x, Range rows, ActView out) {
  const bool block256 = out.format == ActFormat::kInt8Block256;
  PAGODA_CHECK(out.format != ActFormat::kF32 && x.cols == out.cols);
  const int32_t width = block256 ? 256 : 32;
  const int64_t blocks = out.cols_padded / width;
  for (int32_t t = rows.begin; t < rows.end; ++t)
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t begin = b * width, left = x.cols - begin;
      float padded[256] = {};
      const float* in = x.row(t) + begin;
      if (left < width) {
        if (left > 0) std::memcpy(padded, in, static_cast<size_t>(left) * sizeof(float));
        in = padded;
      }
      block256 ? quantize_block256(in, t * blocks + b, out) : quantize_block32(in, t * blocks + b, out);
    }
}

}  // namespace pagoda::kernels
