#pragma once
#include "kernels/matmul/layout_bytes.h"

// The 32-block formats: file's block <-> row r of a tile; for layout.cc alone.
namespace pagoda::kernels {
namespace {

struct PackQ4_0 {  // IQ4_NL too: the same fields
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

// Q5_0 and Q5_1: four bytes of fifth bits, sixteen of nibbles.
// Bits 0, 4, ... 28 into one byte.
inline uint8_t gather_nibble_bits(uint32_t x) {
  x &= 0x11111111u;
  x = (x | x >> 3) & 0x03030303u;
  x = (x | x >> 6) & 0x000f000fu;
  return static_cast<uint8_t>(x | x >> 12);
}

inline void put_fives(const uint8_t* src, int32_t r, Fives& fives) {
  const uint32_t high = load_u32(src);
  for (int c = 0; c < 4; ++c) fives.high[r][c] = gather_nibble_bits(high >> c);
  for (int j = 0; j < 4; ++j) std::memcpy(fives.low[j][r], src + 4 + 4 * j, 4);
}

inline void get_fives(const Fives& fives, int32_t r, uint8_t* dst) {
  uint32_t high = 0;
  for (int e = 0; e < 32; ++e) high |= (uint32_t{fives.high[r][e % 4]} >> (e / 4) & 1u) << e;
  store_u32(dst, high);
  for (int j = 0; j < 4; ++j) std::memcpy(dst + 4 + 4 * j, fives.low[j][r], 4);
}

struct PackQ5_0 {
  using Tile = TileQ5_0;
  static constexpr int32_t blocks = 2;
  static void pack(const uint8_t* src, int32_t r, int32_t block, Tile& tile) {
    tile.d[block][r] = load_u16(src);
    put_fives(src + 2, r, tile.block[block]);
  }
  static void unpack(const Tile& tile, int32_t r, int32_t block, uint8_t* dst) {
    store_u16(dst, tile.d[block][r]);
    get_fives(tile.block[block], r, dst + 2);
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

struct PackQ5_1 {
  using Tile = TileQ5_1;
  static constexpr int32_t blocks = 2;
  static void pack(const uint8_t* src, int32_t r, int32_t block, Tile& tile) {
    tile.d[block][r] = load_u16(src);
    tile.m[block][r] = load_u16(src + 2);
    put_fives(src + 4, r, tile.block[block]);
  }
  static void unpack(const Tile& tile, int32_t r, int32_t block, uint8_t* dst) {
    store_u16(dst, tile.d[block][r]);
    store_u16(dst + 2, tile.m[block][r]);
    get_fives(tile.block[block], r, dst + 4);
  }
};

struct PackMXFP4 {
  using Tile = TileMXFP4;
  static constexpr int32_t blocks = 2;
  static void pack(const uint8_t* src, int32_t r, int32_t block, Tile& tile) {
    tile.e[block][r] = src[0];
    for (int j = 0; j < 4; ++j) std::memcpy(tile.q[block][j][r], src + 1 + 4 * j, 4);
  }
  static void unpack(const Tile& tile, int32_t r, int32_t block, uint8_t* dst) {
    dst[0] = tile.e[block][r];
    for (int j = 0; j < 4; ++j) std::memcpy(dst + 1 + 4 * j, tile.q[block][j][r], 4);
  }
};

}  // namespace
}  // namespace pagoda::kernels
