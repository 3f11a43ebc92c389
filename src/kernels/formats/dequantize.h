#pragma once
#include <cstddef>

#include "kernels/formats/tensor_type.h"

namespace pagoda::kernels {

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
