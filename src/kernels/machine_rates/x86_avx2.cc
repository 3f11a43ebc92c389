// Built with -mavx2 -mfma -mf16c: everything but the exported function stays internal, and no std template comes in.
#include <immintrin.h>

#include "kernels/machine_rates/loops.h"

namespace pagoda::kernels {
namespace {

constexpr int kIntChains = 4;
constexpr int kFloatChains = 10;  // fma: latency 4, two a cycle, and two to spare
constexpr int kPairsAScale = 8;   // maddubs results that int16 can hold before they are widened

__m256i load(const std::byte* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }

uint64_t read_four(const std::byte* memory, int64_t bytes) {
  const int64_t quarter = bytes / 4;
  const std::byte *a = memory, *b = a + quarter, *c = b + quarter, *d = c + quarter;
  __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t at = 0; at < quarter; at += 64) {
    s0 = _mm256_add_epi64(s0, _mm256_xor_si256(load(a + at), load(a + at + 32)));
    s1 = _mm256_add_epi64(s1, _mm256_xor_si256(load(b + at), load(b + at + 32)));
    s2 = _mm256_add_epi64(s2, _mm256_xor_si256(load(c + at), load(c + at + 32)));
    s3 = _mm256_add_epi64(s3, _mm256_xor_si256(load(d + at), load(d + at + 32)));
  }
  const __m256i sum = _mm256_add_epi64(_mm256_add_epi64(s0, s1), _mm256_add_epi64(s2, s3));
  return static_cast<uint64_t>(_mm256_extract_epi64(sum, 0)) ^ static_cast<uint64_t>(_mm256_extract_epi64(sum, 3));
}

uint64_t read_one(const std::byte* memory, int64_t bytes) {
  __m256i s0 = _mm256_setzero_si256(), s1 = s0;
  for (int64_t at = 0; at < bytes; at += 128) {
    s0 = _mm256_add_epi64(s0, _mm256_xor_si256(load(memory + at), load(memory + at + 32)));
    s1 = _mm256_add_epi64(s1, _mm256_xor_si256(load(memory + at + 64), load(memory + at + 96)));
  }
  return static_cast<uint64_t>(_mm256_extract_epi64(_mm256_add_epi64(s0, s1), 0));
}

int32_t int_macs(int64_t rounds) {
  const __m256i scale = _mm256_set1_epi16(7);
  __m256i weight = _mm256_set1_epi8(3), value[kIntChains], sum32[kIntChains];
  for (int c = 0; c < kIntChains; ++c) {
    value[c] = _mm256_set1_epi8(static_cast<char>(c - 2));
    sum32[c] = _mm256_setzero_si256();
  }
  for (int64_t r = 0; r < rounds; ++r) {
    for (int c = 0; c < kIntChains; ++c) {
      __m256i sum16 = _mm256_setzero_si256();
      for (int j = 0; j < kPairsAScale; ++j) {
        asm volatile("" : "+x"(value[c]));  // each product is a new one to the compiler
        sum16 = _mm256_add_epi16(sum16, _mm256_maddubs_epi16(weight, value[c]));
      }
      sum32[c] = _mm256_add_epi32(sum32[c], _mm256_madd_epi16(sum16, scale));
    }
  }
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(sum32[0], sum32[1]), _mm256_add_epi32(sum32[2], sum32[3]));
  return _mm256_extract_epi32(sum, 0);
}

float f32_macs(int64_t rounds) {
  __m256 acc[kFloatChains], weight = _mm256_set1_ps(0.5f);
  for (__m256& a : acc) a = _mm256_setzero_ps();
  for (int64_t r = 0; r < rounds; ++r)
    for (__m256& a : acc) a = _mm256_fmadd_ps(a, weight, weight);
  __m256 sum = acc[0];
  for (int c = 1; c < kFloatChains; ++c) sum = _mm256_add_ps(sum, acc[c]);
  return _mm256_cvtss_f32(sum);
}

}  // namespace

RateLoops rate_loops_avx2() {
  return {read_four, read_one, int_macs, f32_macs, int64_t{kIntChains} * kPairsAScale * 32, int64_t{kFloatChains} * 8};
}

}  // namespace pagoda::kernels
