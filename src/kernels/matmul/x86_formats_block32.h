#pragma once
#include "kernels/matmul/x86_formats_block256.h"

// How the 32-block formats lie in their tiles (layout.h), for registers of any width; for the x86_*.cc files alone.
//
// A format F gives, with `v` a register width (Ymm, Zmm):
//   Tile, kMin                               whether it adds m f32(sum)
//   dwords(tile, block, j, v, first, second) dwords j and j+4 of a block
//   scale(tile, block, v), min(tile, block, v)
namespace pagoda::kernels {
namespace {

template <class V>
[[gnu::always_inline]] inline void nibbles_of(const uint8_t (*q)[8][4], int j, V v, typename V::Int* first,
                                              typename V::Int* second) {
  const auto u = v.load(q[j]);
  *first = u & v.bytes(15);
  *second = v.right(u, 4) & v.bytes(15);
}

struct FormatQ4_0 {
  using Tile = TileQ4_0;
  static constexpr bool kMin = false;
  template <class V>
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, V v, typename V::Int (&first)[1],
                                            typename V::Int (&second)[1]) {
    nibbles_of(tile.q[block], j, v, first, second);
  }
  template <class V>
  [[gnu::always_inline]] static auto scale(const Tile& tile, int block, V v) {
    return v.load_f16(tile.d[block]);
  }
};

struct FormatQ4_1 {
  using Tile = TileQ4_1;
  static constexpr bool kMin = true;
  template <class V>
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, V v, typename V::Int (&first)[1],
                                            typename V::Int (&second)[1]) {
    nibbles_of(tile.q[block], j, v, first, second);
  }
  template <class V>
  [[gnu::always_inline]] static auto scale(const Tile& tile, int block, V v) {
    return v.load_f16(tile.d[block]);
  }
  template <class V>
  [[gnu::always_inline]] static auto min(const Tile& tile, int block, V v) {
    return v.load_f16(tile.m[block]);
  }
};

template <class V>
[[gnu::always_inline]] inline void five_bits(const Fives& five, int j, V v, typename V::Int* first,
                                             typename V::Int* second) {
  nibbles_of(five.low, j, v, first, second);
  const auto high = v.load(five.high), fifth = v.bytes(16);
  *first = *first | (v.left(high, 4 - j) & fifth);
  *second = *second | (v.right(high, j) & fifth);
}

struct FormatQ5_0 {
  using Tile = TileQ5_0;
  static constexpr bool kMin = false;
  template <class V>
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, V v, typename V::Int (&first)[1],
                                            typename V::Int (&second)[1]) {
    five_bits(tile.block[block], j, v, first, second);
  }
  template <class V>
  [[gnu::always_inline]] static auto scale(const Tile& tile, int block, V v) {
    return v.load_f16(tile.d[block]);
  }
};

struct FormatQ5_1 {
  using Tile = TileQ5_1;
  static constexpr bool kMin = true;
  template <class V>
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, V v, typename V::Int (&first)[1],
                                            typename V::Int (&second)[1]) {
    five_bits(tile.block[block], j, v, first, second);
  }
  template <class V>
  [[gnu::always_inline]] static auto scale(const Tile& tile, int block, V v) {
    return v.load_f16(tile.d[block]);
  }
  template <class V>
  [[gnu::always_inline]] static auto min(const Tile& tile, int block, V v) {
    return v.load_f16(tile.m[block]);
  }
};

// Places in kMxfp4Values; stored plus 12 while multiplied: 0..24.
constexpr uint8_t kMxfp4Plus12[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
constexpr bool is_table_plus_12() {
  for (int i = 0; i < 16; ++i)
    if (kMxfp4Plus12[i] != kMxfp4Values[i] + 12) return false;
  return true;
}
static_assert(is_table_plus_12());

struct FormatMXFP4 {
  using Tile = TileMXFP4;
  static constexpr bool kMin = false;
  template <class V>
  [[gnu::always_inline]] static void dwords(const Tile& tile, int block, int j, V v, typename V::Int (&first)[1],
                                            typename V::Int (&second)[1]) {
    typename V::Int a, b;
    nibbles_of(tile.q[block], j, v, &a, &b);
    first[0] = v.look_up(kMxfp4Plus12, a), second[0] = v.look_up(kMxfp4Plus12, b);
  }
  // mxfp4_scale(e): (e - 1) << 23, or 2^21 << e for e < 2.
  template <class V>
  [[gnu::always_inline]] static auto scale(const Tile& tile, int block, V v) {
    return v.mxfp4_scales(tile.e[block]);
  }
};

}  // namespace
}  // namespace pagoda::kernels
