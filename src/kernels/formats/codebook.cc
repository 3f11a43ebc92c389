#include "kernels/formats/codebook.h"

#include <cstring>

#include "core/check.h"
#include "core/half.h"

namespace pagoda::kernels {
namespace {

#include "kernels/formats/codebooks.inc"

uint32_t load_u16(const uint8_t* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

uint32_t load_u32(const uint8_t* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

float load_f16(const uint8_t* p) { return f16_to_f32(static_cast<uint16_t>(load_u16(p))); }
int8_t odd(uint32_t scale) { return static_cast<int8_t>(2 * scale + 1); }

/// Seven sign bits stand for eight: an even number of values is negative.
uint32_t eight_signs(uint32_t seven) { return seven | static_cast<uint32_t>(__builtin_parity(seven)) << 7; }

int8_t signed_value(int value, uint32_t signs, int i) { return static_cast<int8_t>(signs >> i & 1 ? -value : value); }

void iq2_values(uint32_t entry, uint32_t signs, int8_t* value) {
  for (int i = 0; i < 8; ++i)
    value[i] = signed_value(kCodebookValues[static_cast<int>(Codebook::kIq2)][entry >> (2 * i) & 3], signs, i);
}

/// Two entries of four.
void iq3_values(Codebook book, uint32_t first, uint32_t second, uint32_t signs, int8_t* value) {
  const uint32_t places = first | second << 12;
  for (int i = 0; i < 8; ++i)
    value[i] = signed_value(kCodebookValues[static_cast<int>(book)][places >> (3 * i) & 7], signs, i);
}

void iq1_values(uint32_t entry, bool shift_down, int8_t* value) {
  for (int i = 0; i < 8; ++i)
    value[i] = static_cast<int8_t>(8 * (static_cast<int>(entry >> (2 * i) & 3) - 1) + (shift_down ? -1 : 1));
}

// d u16, then for each 32: four grid bytes, and 4 x 7 sign bits with the scale above them.
void iq2_xxs(const uint8_t* b, CodebookBlock& out) {
  out.d = load_f16(b) * 0.125f;
  for (int g = 0; g < 8; ++g) {
    const uint8_t* grid = b + 2 + 8 * g;
    const uint32_t word = load_u32(grid + 4);
    out.scale[2 * g] = out.scale[2 * g + 1] = odd(word >> 28);
    for (int i = 0; i < 4; ++i)
      iq2_values(kGridIq2Xxs[grid[i]], eight_signs(word >> (7 * i) & 127), out.value + 32 * g + 8 * i);
  }
}

// d u16, 32 x u16 (nine bits of grid, seven of signs), eight bytes of scales per 16.
void iq2_xs(const uint8_t* b, CodebookBlock& out) {
  out.d = load_f16(b) * 0.125f;
  for (int i = 0; i < 16; ++i) out.scale[i] = odd(b[66 + i / 2] >> (4 * (i % 2)) & 15u);
  for (int i = 0; i < 32; ++i) {
    const uint32_t word = load_u16(b + 2 + 2 * i);
    iq2_values(kGridIq2Xs[word & 511], eight_signs(word >> 9), out.value + 8 * i);
  }
}

// d u16, 32 grid bytes, 32 sign bytes, eight bytes with two more grid bits each, eight of scales.
void iq2_s(const uint8_t* b, CodebookBlock& out) {
  out.d = load_f16(b) * 0.125f;
  for (int i = 0; i < 16; ++i) out.scale[i] = odd(b[74 + i / 2] >> (4 * (i % 2)) & 15u);
  for (int i = 0; i < 32; ++i) {
    const uint32_t high = b[66 + i / 4] >> (2 * (i % 4)) & 3u;
    iq2_values(kGridIq2S[b[2 + i] | high << 8], b[34 + i], out.value + 8 * i);
  }
}

// d u16, 64 grid bytes, for each 32 a word of 4 x 7 sign bits with the scale above them.
void iq3_xxs(const uint8_t* b, CodebookBlock& out) {
  out.d = load_f16(b) * 0.25f;
  for (int g = 0; g < 8; ++g) {
    const uint32_t word = load_u32(b + 66 + 4 * g);
    out.scale[2 * g] = out.scale[2 * g + 1] = odd(word >> 28);
    for (int i = 0; i < 4; ++i) {
      const uint8_t* grid = b + 2 + 8 * g + 2 * i;
      iq3_values(Codebook::kIq3Xxs, kGridIq3Xxs[grid[0]], kGridIq3Xxs[grid[1]], eight_signs(word >> (7 * i) & 127),
                 out.value + 32 * g + 8 * i);
    }
  }
}

// d u16, 64 grid bytes, eight bytes with their ninth bits, 32 sign bytes, four bytes of scales per 32.
void iq3_s(const uint8_t* b, CodebookBlock& out) {
  out.d = load_f16(b);
  for (int i = 0; i < 16; ++i) out.scale[i] = odd(b[106 + i / 4] >> (4 * (i / 2 % 2)) & 15u);
  for (int i = 0; i < 32; ++i) {
    const uint32_t ninth = b[66 + i / 4] >> (2 * (i % 4));
    iq3_values(Codebook::kIq3S, kGridIq3S[b[2 + 2 * i] | (ninth & 1) << 8],
               kGridIq3S[b[3 + 2 * i] | (ninth >> 1 & 1) << 8], b[74 + i], out.value + 8 * i);
  }
}

// d u16, 32 grid bytes, for each 32 a u16: 4 x 3 more grid bits, the scale, and where the values are shifted to.
void iq1_s(const uint8_t* b, CodebookBlock& out) {
  out.d = load_f16(b) * 0.125f;
  for (int g = 0; g < 8; ++g) {
    const uint32_t word = load_u16(b + 34 + 2 * g);
    out.scale[2 * g] = out.scale[2 * g + 1] = odd(word >> 12 & 7);
    for (int i = 0; i < 4; ++i)
      iq1_values(kGridIq1[b[2 + 4 * g + i] | (word >> (3 * i) & 7) << 8], word >> 15 != 0, out.value + 32 * g + 8 * i);
  }
}

// 32 grid bytes, 16 bytes of nibbles (three more grid bits and the shift of eight values), four u16 of 4 x 3 bits of
// scales per 16, whose upper nibbles together are d.
void iq1_m(const uint8_t* b, CodebookBlock& out) {
  uint32_t d = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t word = load_u16(b + 48 + 2 * i);
    d |= word >> 12 << (4 * i);
    for (int j = 0; j < 4; ++j) out.scale[4 * i + j] = odd(word >> (3 * j) & 7);
  }
  out.d = f16_to_f32(static_cast<uint16_t>(d)) * 0.125f;
  for (int i = 0; i < 32; ++i) {
    const uint32_t nibble = b[32 + i / 2] >> (4 * (i % 2)) & 15u;
    iq1_values(kGridIq1[b[i] | (nibble & 7) << 8], nibble >> 3 != 0, out.value + 8 * i);
  }
}

/// Digit `place` (0 = the most significant) of the five base-3 digits that `byte` holds as a fraction of 256.
int8_t ternary_digit(uint8_t byte, int place) {
  constexpr uint8_t kPowers[5] = {1, 3, 9, 27, 81};
  const auto shifted = static_cast<uint8_t>(byte * kPowers[place]);
  return static_cast<int8_t>((shifted * 3 >> 8) - 1);
}

// 48 bytes of five digits: of the first 32, digit n of byte l is element 32 n + l; of the next 16, 160 + 16 n + l. Then
// four bytes of four digits, 240 + 4 n + l, and d u16.
void tq1_0(const uint8_t* b, CodebookBlock& out) {
  out.d = load_f16(b + 52);
  std::memset(out.scale, 1, sizeof out.scale);
  for (int n = 0; n < 5; ++n) {
    for (int l = 0; l < 32; ++l) out.value[32 * n + l] = ternary_digit(b[l], n);
    for (int l = 0; l < 16; ++l) out.value[160 + 16 * n + l] = ternary_digit(b[32 + l], n);
  }
  for (int n = 0; n < 4; ++n)
    for (int l = 0; l < 4; ++l) out.value[240 + 4 * n + l] = ternary_digit(b[48 + l], n);
}

// Two bits of element 128 h + 32 n + l are bits 2n, 2n+1 of byte 32 h + l; d u16.
void tq2_0(const uint8_t* b, CodebookBlock& out) {
  out.d = load_f16(b + 64);
  std::memset(out.scale, 1, sizeof out.scale);
  for (int i = 0; i < 256; ++i)
    out.value[i] = static_cast<int8_t>((b[32 * (i / 128) + i % 32] >> (2 * (i / 32 % 4)) & 3) - 1);
}

}  // namespace

Codebook codebook_of(TensorType type) {
  switch (type) {
    case TensorType::kIQ2_XXS:
    case TensorType::kIQ2_XS:
    case TensorType::kIQ2_S:
      return Codebook::kIq2;
    case TensorType::kIQ3_XXS:
      return Codebook::kIq3Xxs;
    case TensorType::kIQ3_S:
      return Codebook::kIq3S;
    case TensorType::kIQ1_S:
    case TensorType::kIQ1_M:
      return Codebook::kIq1;
    case TensorType::kTQ1_0:
    case TensorType::kTQ2_0:
      return Codebook::kTernary;
    default:
      return Codebook::kNone;
  }
}

void decode_codebook(TensorType type, const uint8_t* block, CodebookBlock& out) {
  switch (type) {
    case TensorType::kIQ2_XXS:
      return iq2_xxs(block, out);
    case TensorType::kIQ2_XS:
      return iq2_xs(block, out);
    case TensorType::kIQ2_S:
      return iq2_s(block, out);
    case TensorType::kIQ3_XXS:
      return iq3_xxs(block, out);
    case TensorType::kIQ3_S:
      return iq3_s(block, out);
    case TensorType::kIQ1_S:
      return iq1_s(block, out);
    case TensorType::kIQ1_M:
      return iq1_m(block, out);
    case TensorType::kTQ1_0:
      return tq1_0(block, out);
    case TensorType::kTQ2_0:
      return tq2_0(block, out);
    default:
      PAGODA_CHECK(false);
  }
}

}  // namespace pagoda::kernels
