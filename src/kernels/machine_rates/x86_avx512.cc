// Built with AVX-512 and VNNI: everything but the exported function stays internal, and no std template comes in.
#include <immintrin.h>

#include "kernels/machine_rates/loops.h"

namespace pagoda::kernels {
namespace {

constexpr int kChains = 12;  // dpbusd and fma: latency 4 or 5, at most two a cycle, and two to spare

__m512i load(const std::byte* at) { return _mm512_loadu_si512(at); }

uint64_t first_word(__m512i v) { return static_cast<uint64_t>(v[0]); }  // GCC 12 warns about its own extract intrinsics

uint64_t read_four(const std::byte* memory, int64_t bytes) {
  const int64_t quarter = bytes / 4;
  const std::byte *a = memory, *b = a + quarter, *c = b + quarter, *d = c + quarter;
  __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t at = 0; at < quarter; at += 64) {
    s0 = _mm512_add_epi64(s0, load(a + at));
    s1 = _mm512_add_epi64(s1, load(b + at));
    s2 = _mm512_add_epi64(s2, load(c + at));
    s3 = _mm512_add_epi64(s3, load(d + at));
  }
  return first_word(_mm512_add_epi64(_mm512_add_epi64(s0, s1), _mm512_add_epi64(s2, s3)));
}

uint64_t read_one(const std::byte* memory, int64_t bytes) {
  __m512i s0 = _mm512_setzero_si512(), s1 = s0;
  for (int64_t at = 0; at < bytes; at += 128) {
    s0 = _mm512_add_epi64(s0, load(memory + at));
    s1 = _mm512_add_epi64(s1, load(memory + at + 64));
  }
  return first_word(_mm512_add_epi64(s0, s1));
}

int32_t int_macs(int64_t rounds) {
  const __m512i weight = _mm512_set1_epi8(3);
  __m512i value = _mm512_set1_epi8(-2), sum[kChains];
  for (__m512i& s : sum) s = _mm512_setzero_si512();
  for (int64_t r = 0; r < rounds; ++r) {
    asm volatile("" : "+v"(value));  // the products of a round are new ones to the compiler
    for (__m512i& s : sum) s = _mm512_dpbusd_epi32(s, weight, value);
  }
  __m512i all = sum[0];
  for (int c = 1; c < kChains; ++c) all = _mm512_add_epi32(all, sum[c]);
  return static_cast<int32_t>(first_word(all));
}

float f32_macs(int64_t rounds) {
  const __m512 weight = _mm512_set1_ps(0.5f);
  __m512 acc[kChains];
  for (__m512& a : acc) a = _mm512_setzero_ps();
  for (int64_t r = 0; r < rounds; ++r)
    for (__m512& a : acc) a = _mm512_fmadd_ps(a, weight, weight);
  __m512 sum = acc[0];
  for (int c = 1; c < kChains; ++c) sum = _mm512_add_ps(sum, acc[c]);
  return sum[0];
}

}  // namespace

RateLoops rate_loops_avx512() {
  return {read_four, read_one, int_macs, f32_macs, int64_t{kChains} * 64, int64_t{kChains} * 16};
}

}  // namespace pagoda::kernels
