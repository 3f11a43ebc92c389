#include "kernels/matmul/layout.h"

#include <cstring>

#include "core/check.h"
#include "core/ids.h"
#include "kernels/formats/dequantize.h"

namespace pagoda::kernels {
namespace {

uint32_t load_u32(const uint8_t* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

uint16_t load_u16(const uint8_t* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

void store_u32(uint8_t* p, uint32_t v) { std::memcpy(p, &v, sizeof v); }
void store_u16(uint8_t* p, uint16_t v) { std::memcpy(p, &v, sizeof v); }

constexpr uint32_t kLowNibbles = 0x0f0f0f0fu;

// Every format is one struct: the file's block (KERNELS 1.1) <-> row r of a tile, bijective, so that a packed row gives
// back the file's bytes. `blocks` is how many blocks of the file a tile holds along k, `block` which of them.

struct PackQ4K {
  using Tile = TileQ4K;
  static constexpr int32_t blocks = 1;

  static void pack(const uint8_t* src, int32_t r, int32_t, Tile& tile) {
    const uint8_t* s = src + 4;
    tile.d[r] = load_u16(src);
    tile.dmin[r] = load_u16(src + 2);
    for (int j = 0; j < 4; ++j) {
      put_scale(tile, r, j, s[j] & 63, s[j + 4] & 63);
      put_scale(tile, r, j + 4, (s[j + 8] & 15) | (s[j] >> 6) << 4, (s[j + 8] >> 4) | (s[j + 4] >> 6) << 4);
    }
    for (int p = 0; p < 4; ++p)
      for (int j = 0; j < 8; ++j) {  // dwords 2j and 2j+1 come from bytes 4j..4j+3: low nibbles are the first 32-block
        const uint32_t bytes = load_u32(src + 16 + 32 * p + 4 * j);
        const uint32_t first = bytes & kLowNibbles, second = (bytes >> 4) & kLowNibbles;
        store_u32(tile.pair[p].q[j][r], ((first | first >> 12) & 0xffffu) | (second | second >> 12) << 16);
      }
  }

  static void unpack(const Tile& tile, int32_t r, int32_t, uint8_t* dst) {
    store_u16(dst, tile.d[r]);
    store_u16(dst + 2, tile.dmin[r]);
    uint8_t* s = dst + 4;
    for (int j = 0; j < 4; ++j) {
      const uint8_t sc = tile.pair[j / 2].scale[r][j % 2], mn = tile.pair[j / 2].min[r][j % 2];
      const uint8_t sc4 = tile.pair[2 + j / 2].scale[r][j % 2], mn4 = tile.pair[2 + j / 2].min[r][j % 2];
      s[j] = static_cast<uint8_t>(sc | (sc4 >> 4) << 6);
      s[j + 4] = static_cast<uint8_t>(mn | (mn4 >> 4) << 6);
      s[j + 8] = static_cast<uint8_t>((sc4 & 15) | (mn4 & 15) << 4);
    }
    for (int p = 0; p < 4; ++p)
      for (int j = 0; j < 8; ++j) {
        const uint32_t q = load_u32(tile.pair[p].q[j][r]), even = q & kLowNibbles, odd = (q >> 4) & kLowNibbles;
        const uint32_t first = (even & 0xffffu) | odd << 16, second = even >> 16 | (odd & 0xffff0000u);
        store_u32(dst + 16 + 32 * p + 4 * j, first | second << 4);
      }
  }

 private:
  static void put_scale(Tile& tile, int32_t r, int block, int scale, int min) {
    tile.pair[block / 2].scale[r][block % 2] = static_cast<uint8_t>(scale);
    tile.pair[block / 2].min[r][block % 2] = static_cast<uint8_t>(min);
  }
};

struct PackQ6K {
  using Tile = TileQ6K;
  static constexpr int32_t blocks = 1;

  // The file keeps four runs of 32 per 128 elements: ql[l] has run 0 low and run 2 high, ql[32+l] runs 1 and 3, qh[l]
  // two bits of each. Runs 0, 1 are pair 2*half, runs 2, 3 pair 2*half+1.
  static void pack(const uint8_t* src, int32_t r, int32_t, Tile& tile) {
    const uint8_t *ql = src, *qh = src + 128, *scales = src + 192;
    tile.d[r] = load_u16(src + 208);
    tile.unused[r] = 0;
    for (int p = 0; p < 4; ++p) {
      TileQ6K::Pair& pair = tile.pair[p];
      for (int h = 0; h < 2; ++h)
        for (int s = 0; s < 2; ++s) pair.scale[h][r][s] = static_cast<int8_t>(scales[4 * p + 2 * s + h]);
      const uint8_t *l = ql + 64 * (p / 2), *u = qh + 32 * (p / 2);
      const int low_shift = 4 * (p % 2), high_shift = 4 * (p % 2);
      for (int h = 0; h < 2; ++h) {
        uint32_t upper[2] = {0, 0};
        for (int j = 0; j < 4; ++j) {  // dwords 2j, 2j+1 of the half: elements 16h+4j..+3 of both blocks
          const int at = 16 * h + 4 * j;
          const uint32_t first = (load_u32(l + at) >> low_shift) & kLowNibbles;
          const uint32_t second = (load_u32(l + 32 + at) >> low_shift) & kLowNibbles;
          store_u32(pair.half[h].low[j][r], ((first | first >> 12) & 0xffffu) | (second | second >> 12) << 16);
          const uint32_t bits = load_u32(u + at) >> high_shift;
          const uint32_t a = bits & 0x03030303u, b = (bits >> 2) & 0x03030303u;
          const uint32_t even = (a & 0xffffu) | b << 16, odd = a >> 16 | (b & 0xffff0000u);
          upper[j / 2] |= (even | odd << 2) << (4 * (j % 2));
        }
        store_u32(pair.half[h].high[0][r], upper[0]);
        store_u32(pair.half[h].high[1][r], upper[1]);
      }
    }
  }

  static void unpack(const Tile& tile, int32_t r, int32_t, uint8_t* dst) {
    std::memset(dst, 0, 210);
    store_u16(dst + 208, tile.d[r]);
    for (int p = 0; p < 4; ++p)
      for (int i = 0; i < 64; ++i) {  // element i of the pair
        const int block = i / 32, e = i % 32, h = e / 16, dword = e % 16 / 2, byte = 2 * block + e % 2;
        const TileQ6K::Half& half = tile.pair[p].half[h];
        const int low = half.low[dword / 2][r][byte] >> (4 * (dword % 2)) & 15;
        const int high = half.high[dword / 4][r][byte] >> (2 * (dword % 4)) & 3;
        dst[64 * (p / 2) + 32 * block + e] |= static_cast<uint8_t>(low << (4 * (p % 2)));
        dst[128 + 32 * (p / 2) + e] |= static_cast<uint8_t>(high << (4 * (p % 2) + 2 * block));
        dst[192 + 4 * p + 2 * block + h] = static_cast<uint8_t>(tile.pair[p].scale[h][r][block]);
      }
  }
};

struct PackQ4_0 {
  using Tile = TileQ4_0;
  static constexpr int32_t blocks = 2;
  static void pack(const uint8_t* src, int32_t r, int32_t block, Tile& tile) {
    tile.d[block][r] = load_u16(src);
    for (int j = 0; j < 4; ++j) std::memcpy(tile.q[block][j][r], src + 2 + 4 * j, 4);
  }
  static void unpack(const Tile& tile, int32_t r, int32_t block, uint8_t* dst) {
    store_u16(dst, tile.d[block][r]);
    for (int j = 0; j < 4; ++j) std::memcpy(dst + 2 + 4 * j, tile.q[block][j][r], 4);
  }
};

struct PackQ4_1 {
  using Tile = TileQ4_1;
  static constexpr int32_t blocks = 2;
  static void pack(const uint8_t* src, int32_t r, int32_t block, Tile& tile) {
    tile.d[block][r] = load_u16(src);
    tile.m[block][r] = load_u16(src + 2);
    for (int j = 0; j < 4; ++j) std::memcpy(tile.q[block][j][r], src + 4 + 4 * j, 4);
  }
  static void unpack(const Tile& tile, int32_t r, int32_t block, uint8_t* dst) {
    store_u16(dst, tile.d[block][r]);
    store_u16(dst + 2, tile.m[block][r]);
    for (int j = 0; j < 4; ++j) std::memcpy(dst + 4 + 4 * j, tile.q[block][j][r], 4);
  }
};

struct PackQ5_0 {
  using Tile = TileQ5_0;
  static constexpr int32_t blocks = 2;
  static void pack(const uint8_t* src, int32_t r, int32_t block, Tile& tile) {
    tile.d[block][r] = load_u16(src);
    const uint32_t high = load_u32(src + 2);
    for (int c = 0; c < 4; ++c) tile.block[block].high[r][c] = gather_nibble_bits(high >> c);
    for (int j = 0; j < 4; ++j) std::memcpy(tile.block[block].low[j][r], src + 6 + 4 * j, 4);
  }
  static void unpack(const Tile& tile, int32_t r, int32_t block, uint8_t* dst) {
    store_u16(dst, tile.d[block][r]);
    uint32_t high = 0;
    for (int e = 0; e < 32; ++e) high |= (uint32_t{tile.block[block].high[r][e % 4]} >> (e / 4) & 1u) << e;
    store_u32(dst + 2, high);
    for (int j = 0; j < 4; ++j) std::memcpy(dst + 6 + 4 * j, tile.block[block].low[j][r], 4);
  }

 private:
  // Bits 0, 4, ... 28 into one byte.
  static uint8_t gather_nibble_bits(uint32_t x) {
    x &= 0x11111111u;
    x = (x | x >> 3) & 0x03030303u;
    x = (x | x >> 6) & 0x000f000fu;
    return static_cast<uint8_t>(x | x >> 12);
  }
};

struct PackQ8_0 {
  using Tile = TileQ8_0;
  static constexpr int32_t blocks = 2;
  static void pack(const uint8_t* src, int32_t r, int32_t block, Tile& tile) {
    tile.d[block][r] = load_u16(src);
    for (int i = 0; i < 16; ++i) std::memcpy(tile.q[block][i][r], src + 2 + 2 * i, 2);
  }
  static void unpack(const Tile& tile, int32_t r, int32_t block, uint8_t* dst) {
    store_u16(dst, tile.d[block][r]);
    for (int i = 0; i < 16; ++i) std::memcpy(dst + 2 + 2 * i, tile.q[block][i][r], 2);
  }
};

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
  uint8_t block[256];
  for (int32_t b = 0; b < cols / traits.block_elements; ++b) {
    Format::unpack(tile[b / Format::blocks], r, b % Format::blocks, block);
    dequantize_row(type, reinterpret_cast<const std::byte*>(block), traits.block_elements,
                   dst + b * traits.block_elements);
  }
}

// F32 and F16: element (k, r) of a group.
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

}  // namespace

bool has_tiles(TensorType type) {
  switch (type) {
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kQ4_0:
    case TensorType::kQ4_1:
    case TensorType::kQ5_0:
    case TensorType::kQ8_0:
    case TensorType::kQ4_K:
    case TensorType::kQ6_K:
      return true;
    default:
      return false;
  }
}

int64_t group_bytes(TensorType type, int32_t cols) {
  const TypeTraits& traits = traits_of(type);
  PAGODA_CHECK(cols >= 0 && cols % traits.block_elements == 0);
  const int32_t blocks = cols / traits.block_elements;
  switch (type) {
    case TensorType::kQ4_K:
      return tiled_group_bytes<PackQ4K>(blocks);
    case TensorType::kQ6_K:
      return tiled_group_bytes<PackQ6K>(blocks);
    case TensorType::kQ4_0:
      return tiled_group_bytes<PackQ4_0>(blocks);
    case TensorType::kQ4_1:
      return tiled_group_bytes<PackQ4_1>(blocks);
    case TensorType::kQ5_0:
      return tiled_group_bytes<PackQ5_0>(blocks);
    case TensorType::kQ8_0:
      return tiled_group_bytes<PackQ8_0>(blocks);
    default:
      return int64_t{cols} * traits.block_bytes * kGroupRows;  // F32, F16
  }
}

int64_t packed_bytes_r8(TensorType type, int32_t rows, int32_t cols) {
  if (!has_tiles(type)) return rows * row_bytes(type, cols);
  return div_ceil(rows, kGroupRows) * group_bytes(type, cols);
}

void pack_r8(TensorType type, const std::byte* src, int32_t rows, int32_t cols, Range range, std::byte* dst) {
  if (range.empty()) return;
  PAGODA_CHECK(range.begin >= 0 && range.end <= rows);
  const int64_t stride = row_bytes(type, cols);
  if (!has_tiles(type)) {
    std::memcpy(dst + range.begin * stride, src + range.begin * stride, static_cast<size_t>(range.size() * stride));
    return;
  }
  PAGODA_CHECK(range.begin % kGroupRows == 0 && (range.end % kGroupRows == 0 || range.end == rows));
  const TypeTraits& traits = traits_of(type);
  const int32_t blocks = cols / traits.block_elements;
  for (int32_t row = range.begin; row < range.end; row += kGroupRows) {
    const auto* in = reinterpret_cast<const uint8_t*>(src) + row * stride;
    const int32_t valid = range.end - row < kGroupRows ? range.end - row : kGroupRows;
    std::byte* out = dst + row / kGroupRows * group_bytes(type, cols);
    switch (type) {
      case TensorType::kQ4_K:
        pack_group<PackQ4K>(in, stride, valid, blocks, traits.block_bytes, out);
        break;
      case TensorType::kQ6_K:
        pack_group<PackQ6K>(in, stride, valid, blocks, traits.block_bytes, out);
        break;
      case TensorType::kQ4_0:
        pack_group<PackQ4_0>(in, stride, valid, blocks, traits.block_bytes, out);
        break;
      case TensorType::kQ4_1:
        pack_group<PackQ4_1>(in, stride, valid, blocks, traits.block_bytes, out);
        break;
      case TensorType::kQ5_0:
        pack_group<PackQ5_0>(in, stride, valid, blocks, traits.block_bytes, out);
        break;
      case TensorType::kQ8_0:
        pack_group<PackQ8_0>(in, stride, valid, blocks, traits.block_bytes, out);
        break;
      case TensorType::kF16:
        pack_group_floats<uint16_t>(in, stride, valid, cols, out);
        break;
      default:
        pack_group_floats<uint32_t>(in, stride, valid, cols, out);
        break;
    }
  }
}

void unpack_row_r8(const PackedMatrix& w, int32_t row, float* dst) {
  PAGODA_CHECK(0 <= row && row < w.rows);
  if (!has_tiles(w.type)) return dequantize_row(w.type, w.data + row * row_bytes(w.type, w.cols), w.cols, dst);
  const TypeTraits& traits = traits_of(w.type);
  const std::byte* group = w.data + row / kGroupRows * group_bytes(w.type, w.cols);
  const int32_t r = row % kGroupRows;
  switch (w.type) {
    case TensorType::kQ4_K:
      return unpack_group_row<PackQ4K>(w.type, group, r, traits, w.cols, dst);
    case TensorType::kQ6_K:
      return unpack_group_row<PackQ6K>(w.type, group, r, traits, w.cols, dst);
    case TensorType::kQ4_0:
      return unpack_group_row<PackQ4_0>(w.type, group, r, traits, w.cols, dst);
    case TensorType::kQ4_1:
      return unpack_group_row<PackQ4_1>(w.type, group, r, traits, w.cols, dst);
    case TensorType::kQ5_0:
      return unpack_group_row<PackQ5_0>(w.type, group, r, traits, w.cols, dst);
    case TensorType::kQ8_0:
      return unpack_group_row<PackQ8_0>(w.type, group, r, traits, w.cols, dst);
    case TensorType::kF16:
      return unpack_group_row_floats<uint16_t>(w.type, group, r, w.cols, dst);
    default:
      return unpack_group_row_floats<uint32_t>(w.type, group, r, w.cols, dst);
  }
}

void dequantize_group(const PackedMatrix& w, int32_t group, int32_t k_begin, int32_t k_end, float* dst) {
  const int64_t stride = row_bytes(w.type, w.cols);
  const int32_t count = k_end - k_begin;
  PAGODA_CHECK(count <= 256);
  float row[256];
  for (int32_t r = 0; r < kGroupRows; ++r) {
    const int32_t n = group * kGroupRows + r;
    if (n < w.rows) {
      dequantize_row(w.type, w.data + n * stride + row_bytes(w.type, k_begin), count, row);
    } else {
      std::memset(row, 0, sizeof row);
    }
    for (int32_t k = 0; k < count; ++k) dst[k * kGroupRows + r] = row[k];
  }
}

}  // namespace pagoda::kernels
