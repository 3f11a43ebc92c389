#include <cmath>
#include <cstring>

#include "kernels/machine_rates/loops.h"

namespace pagoda::kernels {
namespace {

constexpr int kChains = 8;  // more than latency times throughput of a scalar multiplier

uint64_t read_four(const std::byte* memory, int64_t bytes) {
  const int64_t quarter = bytes / 4;
  uint64_t sum[4] = {};
  for (int64_t at = 0; at < quarter; at += 64) {
    for (int stream = 0; stream < 4; ++stream) {
      for (int word = 0; word < 8; ++word) {
        uint64_t value;
        std::memcpy(&value, memory + stream * quarter + at + word * 8, sizeof value);
        sum[stream] += value;
      }
    }
  }
  return sum[0] + sum[1] + sum[2] + sum[3];
}

uint64_t read_one(const std::byte* memory, int64_t bytes) {
  uint64_t sum[8] = {};
  for (int64_t at = 0; at < bytes; at += 64) {
    for (int word = 0; word < 8; ++word) {
      uint64_t value;
      std::memcpy(&value, memory + at + word * 8, sizeof value);
      sum[word] += value;
    }
  }
  uint64_t all = 0;
  for (const uint64_t s : sum) all += s;
  return all;
}

int32_t int_macs(int64_t rounds) {
  uint32_t acc[kChains] = {}, weight = 3, value = 5;
  for (int64_t r = 0; r < rounds; ++r) {
    for (uint32_t& a : acc) {
      asm volatile("" : "+r"(weight));  // the product must not leave the loop
      a += weight * value;
    }
  }
  uint32_t sum = 0;
  for (const uint32_t a : acc) sum += a;
  return static_cast<int32_t>(sum);
}

float f32_macs(int64_t rounds) {
  float acc[kChains] = {}, weight = 0.5f;
  for (int64_t r = 0; r < rounds; ++r) {
    for (float& a : acc) a = std::fma(a, 0.5f, weight);
    asm volatile("" : "+m"(weight));
  }
  float sum = 0;
  for (const float a : acc) sum += a;
  return sum;
}

}  // namespace

RateLoops rate_loops_portable() { return {read_four, read_one, int_macs, f32_macs, kChains, kChains}; }

}  // namespace pagoda::kernels
