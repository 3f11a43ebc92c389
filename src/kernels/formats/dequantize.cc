#include "kernels/formats/dequantize.h"

#include <cstdint>
#include <cstring>

#include "core/check.h"
#include "core/half.h"
#include "kernels/formats/codebook.h"

namespace pagoda::kernels {
namespace {

// One function a format: a block's bytes `b` -> its values `y`. Byte offsets are those of KERNELS 1.1. Factors are
// multiplied in the order of the reference, because (d*sc)*q and d*(sc*q) differ in the last bit.

inline uint16_t load_u16(const uint8_t* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline uint32_t load_u32(const uint8_t* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline float load_f16(const uint8_t* p) { return f16_to_f32(load_u16(p)); }
inline float low(uint8_t byte) { return static_cast<float>(byte & 15); }
inline float high(uint8_t byte) { return static_cast<float>(byte >> 4); }

void f32(const uint8_t* b, float* y) { std::memcpy(y, b, 4); }
void f16(const uint8_t* b, float* y) { *y = load_f16(b); }
void bf16(const uint8_t* b, float* y) { *y = bf16_to_f32(load_u16(b)); }

void q4_0(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  for (int j = 0; j < 16; ++j) {
    y[j] = d * (low(b[2 + j]) - 8.f);
    y[j + 16] = d * (high(b[2 + j]) - 8.f);
  }
}

void q4_1(const uint8_t* b, float* y) {
  const float d = load_f16(b), m = load_f16(b + 2);
  for (int j = 0; j < 16; ++j) {
    y[j] = d * low(b[4 + j]) + m;
    y[j + 16] = d * high(b[4 + j]) + m;
  }
}

// The five-bit value of element i, whose fifth bit is bit i of qh.
inline float five_bits(uint32_t nibble, uint32_t qh, int i) {
  return static_cast<float>(nibble | (((qh >> i) & 1u) << 4));
}

void q5_0(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  const uint32_t qh = load_u32(b + 2);
  for (int j = 0; j < 16; ++j) {
    y[j] = d * (five_bits(b[6 + j] & 15u, qh, j) - 16.f);
    y[j + 16] = d * (five_bits(b[6 + j] >> 4, qh, j + 16) - 16.f);
  }
}

void q5_1(const uint8_t* b, float* y) {
  const float d = load_f16(b), m = load_f16(b + 2);
  const uint32_t qh = load_u32(b + 4);
  for (int j = 0; j < 16; ++j) {
    y[j] = d * five_bits(b[8 + j] & 15u, qh, j) + m;
    y[j + 16] = d * five_bits(b[8 + j] >> 4, qh, j + 16) + m;
  }
}

void q8_0(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  for (int j = 0; j < 32; ++j) y[j] = d * static_cast<float>(static_cast<int8_t>(b[2 + j]));
}

// 16 groups of 16; group g reads bits 2*(g/2 mod 4) of the 16 bytes at 32*(g/8) + 16*(g mod 2).
void q2_k(const uint8_t* b, float* y) {
  const uint8_t* qs = b + 16;
  const float d = load_f16(b + 80), dmin = load_f16(b + 82);
  for (int g = 0; g < 16; ++g) {
    const float scale = d * low(b[g]), min = dmin * high(b[g]);
    const uint8_t* q = qs + 32 * (g / 8) + 16 * (g % 2);
    const int shift = 2 * (g / 2 % 4);
    for (int l = 0; l < 16; ++l) y[16 * g + l] = scale * static_cast<float>((q[l] >> shift) & 3) - min;
  }
}

// Groups as q2_k; a cleared bit g/2 of hmask takes 4 off.
void q3_k(const uint8_t* b, float* y) {
  const uint8_t *hmask = b, *qs = b + 32, *scales = b + 96;
  const float d = load_f16(b + 108);
  for (int g = 0; g < 16; ++g) {
    const int low4 = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
    const int high2 = (scales[8 + g % 4] >> (2 * (g / 4))) & 3;
    const float scale = d * static_cast<float>((low4 | (high2 << 4)) - 32);
    const uint8_t *q = qs + 32 * (g / 8) + 16 * (g % 2), *h = hmask + 16 * (g % 2);
    const int shift = 2 * (g / 2 % 4), bit = g / 2;
    for (int l = 0; l < 16; ++l) {
      const int value = ((q[l] >> shift) & 3) - ((h[l] >> bit) & 1 ? 0 : 4);
      y[16 * g + l] = scale * static_cast<float>(value);
    }
  }
}

struct ScaleMin {
  float scale, min;
};

// Pair j of the eight 6-bit pairs that Q4_K and Q5_K pack into 12 bytes.
inline ScaleMin scale_min(const uint8_t* s, int j) {
  if (j < 4) return {static_cast<float>(s[j] & 63), static_cast<float>(s[j + 4] & 63)};
  return {static_cast<float>((s[j + 4] & 15) | ((s[j - 4] >> 6) << 4)),
          static_cast<float>((s[j + 4] >> 4) | ((s[j] >> 6) << 4))};
}

void q4_k(const uint8_t* b, float* y) {
  const float d = load_f16(b), dmin = load_f16(b + 2);
  for (int g = 0; g < 8; ++g) {
    const ScaleMin pair = scale_min(b + 4, g);
    const float scale = d * pair.scale, min = dmin * pair.min;
    const uint8_t* q = b + 16 + 32 * (g / 2);
    const int shift = 4 * (g % 2);
    for (int l = 0; l < 32; ++l) y[32 * g + l] = scale * static_cast<float>((q[l] >> shift) & 15) - min;
  }
}

void q5_k(const uint8_t* b, float* y) {
  const float d = load_f16(b), dmin = load_f16(b + 2);
  const uint8_t* qh = b + 16;
  for (int g = 0; g < 8; ++g) {
    const ScaleMin pair = scale_min(b + 4, g);
    const float scale = d * pair.scale, min = dmin * pair.min;
    const uint8_t* q = b + 48 + 32 * (g / 2);
    const int shift = 4 * (g % 2);
    for (int l = 0; l < 32; ++l) {
      const int value = ((q[l] >> shift) & 15) | (((qh[l] >> g) & 1) << 4);
      y[32 * g + l] = scale * static_cast<float>(value) - min;
    }
  }
}

// Runs of 32, four to a half of 128: nibbles from ql[32*(run mod 2)], two high bits from bit 2*run of qh.
void q6_k(const uint8_t* b, float* y) {
  const float d = load_f16(b + 208);
  for (int run = 0; run < 8; ++run) {
    const int half = run / 4, quarter = run % 4;
    const uint8_t *ql = b + 64 * half + 32 * (quarter % 2), *qh = b + 128 + 32 * half;
    const int nibble_shift = 4 * (quarter / 2), high_shift = 2 * quarter;
    for (int l = 0; l < 32; ++l) {
      const float scale = d * static_cast<float>(static_cast<int8_t>(b[192 + 2 * run + l / 16]));
      const int value = ((ql[l] >> nibble_shift) & 15) | (((qh[l] >> high_shift) & 3) << 4);
      y[32 * run + l] = scale * static_cast<float>(value - 32);
    }
  }
}

void iq4_nl(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  for (int j = 0; j < 16; ++j) {
    y[j] = d * static_cast<float>(kIq4Values[b[2 + j] & 15]);
    y[j + 16] = d * static_cast<float>(kIq4Values[b[2 + j] >> 4]);
  }
}

void iq4_xs(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  const uint32_t scales_high = load_u16(b + 2);
  for (int g = 0; g < 8; ++g) {
    const uint32_t low4 = (b[4 + g / 2] >> (4 * (g % 2))) & 15u, high2 = (scales_high >> (2 * g)) & 3u;
    const float scale = d * static_cast<float>(static_cast<int>(low4 | (high2 << 4)) - 32);
    const uint8_t* q = b + 8 + 16 * g;
    for (int j = 0; j < 16; ++j) {
      y[32 * g + j] = scale * static_cast<float>(kIq4Values[q[j] & 15]);
      y[32 * g + j + 16] = scale * static_cast<float>(kIq4Values[q[j] >> 4]);
    }
  }
}

void mxfp4(const uint8_t* b, float* y) {
  const float d = mxfp4_scale(b[0]);
  for (int j = 0; j < 16; ++j) {
    y[j] = d * static_cast<float>(kMxfp4Values[b[1 + j] & 15]);
    y[j + 16] = d * static_cast<float>(kMxfp4Values[b[1 + j] >> 4]);
  }
}

void codebook(TensorType type, const uint8_t* b, float* y) {
  CodebookBlock block;
  decode_codebook(type, b, block);
  for (int l = 0; l < 256; ++l) y[l] = block.d * static_cast<float>(block.scale[l / 16] * block.value[l]);
}

template <void (*kBlock)(const uint8_t*, float*), int kElements, int kBytes>
void blocks(const uint8_t* src, int64_t cols, float* dst) {
  for (int64_t i = 0; i < cols / kElements; ++i) kBlock(src + i * kBytes, dst + i * kElements);
}

}  // namespace

void dequantize_row(TensorType type, const std::byte* src, int64_t cols, float* dst) {
  const auto* b = reinterpret_cast<const uint8_t*>(src);
  switch (type) {
    case TensorType::kF32:
      return blocks<f32, 1, 4>(b, cols, dst);
    case TensorType::kF16:
      return blocks<f16, 1, 2>(b, cols, dst);
    case TensorType::kBF16:
      return blocks<bf16, 1, 2>(b, cols, dst);
    case TensorType::kQ4_0:
      return blocks<q4_0, 32, 18>(b, cols, dst);
    case TensorType::kQ4_1:
      return blocks<q4_1, 32, 20>(b, cols, dst);
    case TensorType::kQ5_0:
      return blocks<q5_0, 32, 22>(b, cols, dst);
    case TensorType::kQ5_1:
      return blocks<q5_1, 32, 24>(b, cols, dst);
    case TensorType::kQ8_0:
      return blocks<q8_0, 32, 34>(b, cols, dst);
    case TensorType::kQ2_K:
      return blocks<q2_k, 256, 84>(b, cols, dst);
    case TensorType::kQ3_K:
      return blocks<q3_k, 256, 110>(b, cols, dst);
    case TensorType::kQ4_K:
      return blocks<q4_k, 256, 144>(b, cols, dst);
    case TensorType::kQ5_K:
      return blocks<q5_k, 256, 176>(b, cols, dst);
    case TensorType::kQ6_K:
      return blocks<q6_k, 256, 210>(b, cols, dst);
    case TensorType::kIQ4_NL:
      return blocks<iq4_nl, 32, 18>(b, cols, dst);
    case TensorType::kIQ4_XS:
      return blocks<iq4_xs, 256, 136>(b, cols, dst);
    case TensorType::kMXFP4:
      return blocks<mxfp4, 32, 17>(b, cols, dst);
    default:
      break;
  }
  PAGODA_CHECK(codebook_of(type) != Codebook::kNone);  // or the caller's promise is broken
  const TypeTraits& traits = *type_traits(type);
  for (int64_t i = 0; i < cols / traits.block_elements; ++i)
    codebook(type, b + i * traits.block_bytes, dst + i * traits.block_elements);
}

}  // namespace pagoda::kernels
