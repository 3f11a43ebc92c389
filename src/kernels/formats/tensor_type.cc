#include "kernels/formats/tensor_type.h"

#include "core/check.h"

namespace pagoda::kernels {
namespace {

struct Entry {
  TensorType type;
  TypeTraits traits;
};

// Sizes from KERNELS 1.1. Q8_1 and Q8_K are formats of activations; integers, F64 and NVFP4, whose second scale is a
// tensor of its own, hold no weights we run: they are known, so that a file with one can be listed and its bounds
// checked.
constexpr Entry kTypes[] = {
    {TensorType::kF32, {"F32", 1, 4, true}},
    {TensorType::kF16, {"F16", 1, 2, true}},
    {TensorType::kBF16, {"BF16", 1, 2, true}},
    {TensorType::kQ4_0, {"Q4_0", 32, 18, true}},
    {TensorType::kQ4_1, {"Q4_1", 32, 20, true}},
    {TensorType::kQ5_0, {"Q5_0", 32, 22, true}},
    {TensorType::kQ5_1, {"Q5_1", 32, 24, true}},
    {TensorType::kQ8_0, {"Q8_0", 32, 34, true}},
    {TensorType::kQ8_1, {"Q8_1", 32, 36, false}},
    {TensorType::kQ2_K, {"Q2_K", 256, 84, true}},
    {TensorType::kQ3_K, {"Q3_K", 256, 110, true}},
    {TensorType::kQ4_K, {"Q4_K", 256, 144, true}},
    {TensorType::kQ5_K, {"Q5_K", 256, 176, true}},
    {TensorType::kQ6_K, {"Q6_K", 256, 210, true}},
    {TensorType::kQ8_K, {"Q8_K", 256, 292, false}},
    {TensorType::kIQ4_NL, {"IQ4_NL", 32, 18, true}},
    {TensorType::kIQ4_XS, {"IQ4_XS", 256, 136, true}},
    {TensorType::kMXFP4, {"MXFP4", 32, 17, true}},
    {TensorType::kI8, {"I8", 1, 1, false}},
    {TensorType::kI16, {"I16", 1, 2, false}},
    {TensorType::kI32, {"I32", 1, 4, false}},
    {TensorType::kI64, {"I64", 1, 8, false}},
    {TensorType::kF64, {"F64", 1, 8, false}},
    {TensorType::kIQ2_XXS, {"IQ2_XXS", 256, 66, true}},
    {TensorType::kIQ2_XS, {"IQ2_XS", 256, 74, true}},
    {TensorType::kIQ3_XXS, {"IQ3_XXS", 256, 98, true}},
    {TensorType::kIQ1_S, {"IQ1_S", 256, 50, true}},
    {TensorType::kIQ3_S, {"IQ3_S", 256, 110, true}},
    {TensorType::kIQ2_S, {"IQ2_S", 256, 82, true}},
    {TensorType::kIQ1_M, {"IQ1_M", 256, 56, true}},
    {TensorType::kTQ1_0, {"TQ1_0", 256, 54, true}},
    {TensorType::kTQ2_0, {"TQ2_0", 256, 66, true}},
    {TensorType::kNVFP4, {"NVFP4", 64, 36, false}},
};

}  // namespace

const TypeTraits* type_traits(TensorType type) {
  for (const Entry& entry : kTypes)
    if (entry.type == type) return &entry.traits;
  return nullptr;
}

int64_t row_bytes(TensorType type, int64_t cols) {
  const TypeTraits* traits = type_traits(type);
  PAGODA_CHECK(traits && cols >= 0 && cols % traits->block_elements == 0);
  return cols / traits->block_elements * traits->block_bytes;
}

}  // namespace pagoda::kernels
