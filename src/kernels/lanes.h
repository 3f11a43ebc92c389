#pragma once
#include <cstdint>

namespace pagoda::kernels {

/// Reductions over a vector run in 16 virtual lanes (lane = index mod 16) and one fixed tree: AVX2 uses two registers,
/// portable code an array (DESIGN, Numerics).
constexpr int32_t kLanes = 16;

/// 16 -> 8 -> 4 -> 2 -> 1, upper half onto lower. Destroys `lane`.
[[gnu::always_inline]] inline float fold_lanes(float (&lane)[kLanes]) {
  for (int32_t half = kLanes / 2; half >= 1; half /= 2)
    for (int32_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

}  // namespace pagoda::kernels
