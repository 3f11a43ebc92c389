#pragma once
#include <cstddef>
#include <cstdint>

namespace pagoda::kernels {

/// How a tensor's numbers are stored; the values are GGUF's type ids.
enum class TensorType : uint32_t {
  kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ4_1 = 3, kQ5_0 = 6, kQ5_1 = 7, kQ8_0 = 8, kQ8_1 = 9,
  kQ2_K = 10, kQ3_K = 11, kQ4_K = 12, kQ5_K = 13, kQ6_K = 14, kQ8_K = 15,
  kIQ4_NL = 20, kI8 = 24, kI16 = 25, kI32 = 26, kIQ4_XS = 23, kI64 = 27, kF64 = 28, kBF16 = 30, kMXFP4 = 39,
  kIQ2_XXS = 16, kIQ2_XS = 17, kIQ3_XXS = 18, kIQ1_S = 19, kIQ3_S = 21, kIQ2_S = 22, kIQ1_M = 29, kTQ1_0 = 34,
  kTQ2_0 = 35,
  kNVFP4 = 40,  // known by size only, so that files holding it can be inspected
};

/// Name, block length and block size of a type.
struct TypeTraits {
  const char* name;        // as people write it: "Q4_K"
  int32_t block_elements;  // elements along k that share a block
  int32_t block_bytes;
  bool dequantizable;      // dequantize_row can read it
};

/// Null for a type this build does not know.
const TypeTraits* type_traits(TensorType type);

/// Bytes of one row of `cols` elements; cols must be a multiple of the type's block_elements.
int64_t row_bytes(TensorType type, int64_t cols);

}  // namespace pagoda::kernels
