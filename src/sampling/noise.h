#pragma once
#include <array>
#include <cstdint>

#include "core/ids.h"
#include "core/philox.h"

namespace pagoda::sampling {

/// What a Philox counter is spent on; part of the counter, so that streams never meet.
enum class NoisePurpose : uint32_t { kToken = 0, kXtc = 1 };

/// Where a draw happens: together with the token id, all that its noise depends on.
struct NoiseSite {
  uint64_t seed;
  int32_t position;      // tokens before the one being drawn
  int32_t sample_index;  // the choice's number
};

inline constexpr int32_t kTokensPerCounter = 4;  // Philox gives four words a call

/// The four words of tokens 4*group .. 4*group + 3.
inline std::array<uint32_t, 4> noise_words(const NoiseSite& site, int32_t group,
                                           NoisePurpose purpose = NoisePurpose::kToken) {
  return philox4x32({static_cast<uint32_t>(site.position), static_cast<uint32_t>(group),
                     static_cast<uint32_t>(site.sample_index), static_cast<uint32_t>(purpose)},
                    {static_cast<uint32_t>(site.seed), static_cast<uint32_t>(site.seed >> 32)});
}

inline constexpr float kVariateMin = 0x1p-33f;  // smallest value of variate()

/// A word as a number in [2^-33, 1 - 2^-24], finest near 0, where unlikely tokens are decided.
inline float variate(uint32_t word) {
  const float v = (static_cast<float>(word) + 0.5f) * 0x1p-32f;
  return v < 1.f - 0x1p-24f ? v : 1.f - 0x1p-24f;
}

/// -log(1 - v): an exponential variate, at least v.
float exponential(float v);

/// -log(-log(1 - v)): a Gumbel variate. logit/T + gumbel, maximised, draws from softmax(logit/T)
/// (Gumbel 1954; Maddison et al. 2014, arXiv:1411.0030).
float gumbel(float v);

}  // namespace pagoda::sampling
