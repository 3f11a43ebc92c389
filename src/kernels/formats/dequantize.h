#pragma once
#include <bit>
#include <cstddef>

#include "kernels/formats/tensor_type.h"

namespace pagoda::kernels {

/// What a nibble of IQ4_NL and IQ4_XS, and of MXFP4 (doubled: the scale is halved) stands for.
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
/// MXFP4's scale: 2^(e-128), half of the E8M0 number because the table is doubled; e = 0 and 1 are subnormal.
[[gnu::always_inline]] inline float mxfp4_scale(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1u) << 23);
}

/// One stored row -> f32, exactly as the format specifies (f32 arithmetic in the order of the reference: each value is
/// the product, or product and difference, of its decoded factors; no fma).
///
///   src  row_bytes(type, cols) bytes, any alignment
///   dst  [cols] f32
///
/// Source: KERNELS 1.1 (block layouts); oracle: PyPI `gguf`, bit for bit (dequantize_test.cc).
/// Errors: none; type_traits(type)->dequantizable and cols % block_elements == 0 are the caller's promise.
void dequantize_row(TensorType type, const std::byte* src, int64_t cols, float* dst);

}  // namespace pagoda::kernels
