#pragma once
#include "kernels/matmul/matmul.h"

namespace pagoda::kernels {

// The kernels of kernels.inc; contract in matmul.h.
#define PAGODA_MATMUL_KERNEL(need, name, pack, matmul, quantize)                                             \
  void pack(TensorType type, const std::byte* src, int32_t rows, int32_t cols, Range range, std::byte* dst); \
  void matmul(const PackedMatrix& w, const ActView& x, Range range, Mat<float> y);                           \
  void quantize(Mat<const float> x, Range rows, ActView out);
#include "kernels/matmul/kernels.inc"
#undef PAGODA_MATMUL_KERNEL

}  // namespace pagoda::kernels
