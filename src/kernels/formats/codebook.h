#pragma once
#include <cstdint>

#include "kernels/formats/tensor_type.h"

namespace pagoda::kernels {

/// A block of a codebook format (IQ1, IQ2, IQ3) or a ternary one (TQ) in integers: element l is
/// d * (scale[l / 16] * value[l]). Nothing is rounded: d has at most 11 significant bits, the integers at most 5 and 6.
struct CodebookBlock {
  float d;
  int8_t scale[16];   // 1, 3 .. 31
  int8_t value[256];  // numbers of the type's codebook_values()
};

/// The types whose blocks decode_codebook() reads, by the numbers their values are taken from.
///
///   kIq2     IQ2_XXS IQ2_XS IQ2_S   +-8 +-25 +-43
///   kIq3Xxs  IQ3_XXS                +-4 +-12 .. +-52 +-62
///   kIq3S    IQ3_S                  +-1 +-3 .. +-15
///   kIq1     IQ1_S IQ1_M            -9 -7 -1 1 7 9: eight times -1, 0, 1 and the block's shift of an eighth
///   kTernary TQ1_0 TQ2_0            -1 0 1, and 2 where a TQ2_0 file holds a 3
enum class Codebook : uint8_t { kNone, kIq2, kIq3Xxs, kIq3S, kIq1, kTernary };

Codebook codebook_of(TensorType type);

/// The numbers of a codebook in the order of their codes; unused codes are 0. The numbers of kIq2, kIq1 and kTernary
/// come first, in 8, 8 and 4 codes.
constexpr int8_t kCodebookValues[6][16] = {
    {},
    {8, 25, 43, -8, -25, -43},
    {4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62},
    {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15},
    {-9, -7, -1, 1, 7, 9},
    {-1, 0, 1, 2},
};

/// Any bytes are a block. codebook_of(type) != kNone is the caller's promise.
///
/// Source: KERNELS 1.1's sizes and PyPI `gguf`, the reference of these formats (dequantize_test.cc compares bits).
void decode_codebook(TensorType type, const uint8_t* block, CodebookBlock& out);

}  // namespace pagoda::kernels
