#include "kernels/matmul/layout.h"

#include <cstring>

#include "core/check.h"
#include "core/ids.h"
#include "kernels/formats/dequantize.h"
#include "kernels/matmul/layout_block256.h"
#include "kernels/matmul/layout_block32.h"
#include "kernels/matmul/layout_codes.h"

namespace pagoda::kernels {
namespace {

// Every format is one struct: the file's block (KERNELS 1.1) <-> row r of a tile, bijective, so that a packed row gives
// back the file's bytes (the codebook formats give back their values). `blocks` is how many blocks of the file a tile
// holds along k, `block` which of them.

template <class Format>
int64_t tiled_group_bytes(int32_t file_blocks) {
  return div_ceil(int64_t{file_blocks}, int64_t{Format::blocks}) * int64_t{sizeof(typename Format::Tile)};
}

template <class Format>
void pack_group(const uint8_t* src, int64_t src_stride, int32_t valid_rows, int32_t file_blocks, int32_t block_bytes,
                std::byte* dst) {
  auto* tile = reinterpret_cast<typename Format::Tile*>(dst);
  for (int32_t b = 0; b < file_blocks; ++b) {
    const int32_t part = b % Format::blocks;
    if (part == 0 && (valid_rows < kGroupRows || b + Format::blocks > file_blocks))
      std::memset(&tile[b / Format::blocks], 0, sizeof *tile);
    for (int32_t r = 0; r < valid_rows; ++r)
      Format::pack(src + r * src_stride + int64_t{b} * block_bytes, r, part, tile[b / Format::blocks]);
  }
}

template <class Format>
void unpack_group_row(TensorType type, const std::byte* group, int32_t r, const TypeTraits& traits, int32_t cols,
                      float* dst) {
  const auto* tile = reinterpret_cast<const typename Format::Tile*>(group);
  for (int32_t b = 0; b < cols / traits.block_elements; ++b) {
    float* values = dst + b * traits.block_elements;
    if constexpr (requires { Format::unpack_values(*tile, r, values); }) {
      Format::unpack_values(tile[b], r, values);
    } else {
      uint8_t block[256];
      Format::unpack(tile[b / Format::blocks], r, b % Format::blocks, block);
      dequantize_row(type, reinterpret_cast<const std::byte*>(block), traits.block_elements, values);
    }
  }
}

// F32, F16, BF16: element (k, r) of a group.
template <class Element>
void pack_group_floats(const uint8_t* src, int64_t src_stride, int32_t valid_rows, int32_t cols, std::byte* dst) {
  auto* out = reinterpret_cast<Element*>(dst);
  if (valid_rows < kGroupRows) std::memset(dst, 0, sizeof(Element) * static_cast<size_t>(cols) * kGroupRows);
  for (int32_t k = 0; k < cols; ++k)
    for (int32_t r = 0; r < valid_rows; ++r)
      std::memcpy(&out[int64_t{k} * kGroupRows + r], src + r * src_stride + k * int64_t{sizeof(Element)},
                  sizeof(Element));
}

template <class Element>
void unpack_group_row_floats(TensorType type, const std::byte* group, int32_t r, int32_t cols, float* dst) {
  const auto* in = reinterpret_cast<const Element*>(group);
  for (int32_t k = 0; k < cols; ++k)
    dequantize_row(type, reinterpret_cast<const std::byte*>(&in[int64_t{k} * kGroupRows + r]), 1, dst + k);
}

const TypeTraits& traits_of(TensorType type) {
  const TypeTraits* traits = type_traits(type);
  PAGODA_CHECK(traits && traits->dequantizable);
  return *traits;
}

template <class Fn>
bool with_codebook_format(TensorType type, Fn fn) {
  switch (type) {
    case TensorType::kIQ2_XXS:
      return fn(PackCodes<TensorType::kIQ2_XXS, Bits3>{}), true;
    case TensorType::kIQ2_XS:
      return fn(PackCodes<TensorType::kIQ2_XS, Bits3>{}), true;
    case TensorType::kIQ2_S:
      return fn(PackCodes<TensorType::kIQ2_S, Bits3>{}), true;
    case TensorType::kIQ3_XXS:
      return fn(PackCodes<TensorType::kIQ3_XXS, Bits4>{}), true;
    case TensorType::kIQ3_S:
      return fn(PackCodes<TensorType::kIQ3_S, Bits4>{}), true;
    case TensorType::kIQ1_S:
      return fn(PackCodes<TensorType::kIQ1_S, Bits3>{}), true;
    case TensorType::kIQ1_M:
      return fn(PackCodes<TensorType::kIQ1_M, Bits3>{}), true;
    case TensorType::kTQ1_0:
      return fn(PackCodes<TensorType::kTQ1_0, Bits2>{}), true;
    case TensorType::kTQ2_0:
      return fn(PackCodes<TensorType::kTQ2_0, Bits2>{}), true;
    default:
      return false;
  }
}

// `fn` with the Pack struct of a tiled block format; false for the other types.
template <class Fn>
bool with_format(TensorType type, Fn fn) {
  switch (type) {
    case TensorType::kQ4_K:
      return fn(PackQ4K{}), true;
    case TensorType::kQ5_K:
      return fn(PackQ5K{}), true;
    case TensorType::kQ6_K:
      return fn(PackQ6K{}), true;
    case TensorType::kQ3_K:
      return fn(PackQ3K{}), true;
    case TensorType::kQ2_K:
      return fn(PackQ2K{}), true;
    case TensorType::kIQ4_XS:
      return fn(PackIQ4XS{}), true;
    case TensorType::kQ4_0:
    case TensorType::kIQ4_NL:
      return fn(PackQ4_0{}), true;
    case TensorType::kQ4_1:
      return fn(PackQ4_1{}), true;
    case TensorType::kQ5_0:
      return fn(PackQ5_0{}), true;
    case TensorType::kQ5_1:
      return fn(PackQ5_1{}), true;
    case TensorType::kQ8_0:
      return fn(PackQ8_0{}), true;
    case TensorType::kMXFP4:
      return fn(PackMXFP4{}), true;
    default:
      return with_codebook_format(type, fn);
  }
}

}  // namespace

void get_dwords(const Bits2& bits, int32_t r, uint32_t (&dwords)[8]) {
  for (int n = 0; n < 8; ++n) dwords[n] = load_u32(bits.v[n / 4][r]) >> (2 * (n % 4)) & 0x03030303u;
}

void put_dwords(const uint32_t (&dwords)[8], int32_t r, Bits2& bits) {
  uint32_t v[2] = {0, 0};
  for (int n = 0; n < 8; ++n) v[n / 4] |= dwords[n] << (2 * (n % 4));
  for (int i = 0; i < 2; ++i) store_u32(bits.v[i][r], v[i]);
}

void get_dwords(const Bits3& bits, int32_t r, uint32_t (&dwords)[8]) {
  uint32_t v[3];
  for (int i = 0; i < 3; ++i) {
    v[i] = load_u32(bits.v[i][r]);
    dwords[2 * i] = v[i] & 0x07070707u;
    dwords[2 * i + 1] = v[i] >> 3 & 0x07070707u;
  }
  dwords[6] = (v[0] >> 6 & 0x03030303u) | (v[1] >> 4 & 0x04040404u);
  dwords[7] = (v[2] >> 6 & 0x03030303u) | (v[1] >> 5 & 0x04040404u);
}

void put_dwords(const uint32_t (&dwords)[8], int32_t r, Bits3& bits) {
  const uint32_t tops[3] = {(dwords[6] & 0x03030303u) << 6,
                            (dwords[6] & 0x04040404u) << 4 | (dwords[7] & 0x04040404u) << 5,
                            (dwords[7] & 0x03030303u) << 6};
  for (int i = 0; i < 3; ++i) store_u32(bits.v[i][r], dwords[2 * i] | dwords[2 * i + 1] << 3 | tops[i]);
}

void get_dwords(const Bits4& bits, int32_t r, uint32_t (&dwords)[8]) {
  for (int n = 0; n < 8; ++n) dwords[n] = load_u32(bits.v[n / 2][r]) >> (4 * (n % 2)) & kLowNibbles;
}

void put_dwords(const uint32_t (&dwords)[8], int32_t r, Bits4& bits) {
  for (int i = 0; i < 4; ++i) store_u32(bits.v[i][r], dwords[2 * i] | dwords[2 * i + 1] << 4);
}

void get_dwords(const Bits5& bits, int32_t r, uint32_t (&dwords)[8]) {
  uint32_t v[5];
  for (int i = 0; i < 5; ++i) {
    v[i] = load_u32(bits.v[i][r]);
    dwords[i] = v[i] & 0x1f1f1f1fu;
  }
  dwords[5] = (v[0] >> 3 & 0x1c1c1c1cu) | (v[1] >> 6 & 0x03030303u);
  dwords[6] = (v[2] >> 3 & 0x1c1c1c1cu) | (v[3] >> 6 & 0x03030303u);
  dwords[7] = (v[4] >> 3 & 0x1c1c1c1cu) | (v[1] >> 5 & 0x01010101u) | (v[3] >> 4 & 0x02020202u);
}

void put_dwords(const uint32_t (&dwords)[8], int32_t r, Bits5& bits) {
  const uint32_t low5 = (dwords[5] & 0x03030303u) << 6, low6 = (dwords[6] & 0x03030303u) << 6;
  const uint32_t tops[5] = {(dwords[5] & 0x1c1c1c1cu) << 3, low5 | (dwords[7] & 0x01010101u) << 5,
                            (dwords[6] & 0x1c1c1c1cu) << 3, low6 | (dwords[7] & 0x02020202u) << 4,
                            (dwords[7] & 0x1c1c1c1cu) << 3};
  for (int i = 0; i < 5; ++i) store_u32(bits.v[i][r], dwords[i] | tops[i]);
}

int64_t group_bytes(TensorType type, int32_t cols) {
  const TypeTraits& traits = traits_of(type);
  PAGODA_CHECK(cols >= 0 && cols % traits.block_elements == 0);
  int64_t bytes = 0;
  if (!with_format(type,
                   [&](auto format) { bytes = tiled_group_bytes<decltype(format)>(cols / traits.block_elements); })) {
    PAGODA_CHECK(type == TensorType::kF32 || type == TensorType::kF16 || type == TensorType::kBF16);
    bytes = int64_t{cols} * traits.block_bytes * kGroupRows;
  }
  return bytes;
}

int64_t packed_bytes_r8(TensorType type, int32_t rows, int32_t cols) {
  return div_ceil(rows, kGroupRows) * group_bytes(type, cols);
}

void pack_r8(TensorType type, const std::byte* src, int32_t rows, int32_t cols, Range range, std::byte* dst) {
  if (range.empty()) return;
  PAGODA_CHECK(range.begin >= 0 && range.end <= rows);
  const int64_t stride = row_bytes(type, cols);
  PAGODA_CHECK(range.begin % kGroupRows == 0 && (range.end % kGroupRows == 0 || range.end == rows));
  const TypeTraits& traits = traits_of(type);
  for (int32_t row = range.begin; row < range.end; row += kGroupRows) {
    const auto* in = reinterpret_cast<const uint8_t*>(src) + row * stride;
    const int32_t valid = range.end - row < kGroupRows ? range.end - row : kGroupRows;
    std::byte* out = dst + row / kGroupRows * group_bytes(type, cols);
    const bool blocks = with_format(type, [&](auto format) {
      pack_group<decltype(format)>(in, stride, valid, cols / traits.block_elements, traits.block_bytes, out);
    });
    if (blocks) continue;
    if (type == TensorType::kF32) {
      pack_group_floats<uint32_t>(in, stride, valid, cols, out);
    } else {
      pack_group_floats<uint16_t>(in, stride, valid, cols, out);
    }
  }
}

void unpack_row_r8(const PackedMatrix& w, int32_t row, float* dst) {
  PAGODA_CHECK(0 <= row && row < w.rows);
  const TypeTraits& traits = traits_of(w.type);
  const std::byte* group = w.data + row / kGroupRows * group_bytes(w.type, w.cols);
  const int32_t r = row % kGroupRows;
  const bool blocks = with_format(
      w.type, [&](auto format) { unpack_group_row<decltype(format)>(w.type, group, r, traits, w.cols, dst); });
  if (blocks) return;
  if (w.type == TensorType::kF32) {
    unpack_group_row_floats<uint32_t>(w.type, group, r, w.cols, dst);
  } else {
    unpack_group_row_floats<uint16_t>(w.type, group, r, w.cols, dst);
  }
}

}  // namespace pagoda::kernels
