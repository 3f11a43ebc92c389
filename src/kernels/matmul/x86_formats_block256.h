#pragma once
#include "kernels/formats/dequantize.h"
#include "kernels/matmul/x86_vector.h"

// How the 256-block formats lie in their tiles (layout.h), for registers of any width; for the x86_*.cc files alone.
//
// A format F gives, with `v` a register width (Ymm, Zmm):
//   Tile
//   kPlanes             byte vectors a dword of weights comes as; plane 0 counts 16 where there are two
//   kFlush              dwords whose products fit an int16 lane: 4 or 8
//   kScales, kMins      per pair 1 or 2 (a half each); kMins 0: the format has none
//   kOffset             taken off the values of plane 0; 0, 4, 8, 16 or 32
//   dword(tile, p, h, n, v, w)              dword n of half h of pair p; all but the tile constants after unrolling
//   scale(tile, p, h, v), min(tile, p, h, v)  int16 pairs: the two 32-blocks of each row
namespace pagoda::kernels {
namespace {

// Dword n of each row, a value a byte; n a constant after unrolling. layout.h says where the bits lie.

template <class V>
[[gnu::always_inline]] inline auto dword_of(const Bits2& bits, int n, V v) {
  return v.right(v.load(bits.v[n / 4]), 2 * (n % 4)) & v.bytes(3);
}

template <class V>
[[gnu::always_inline]] inline auto dword_of(const Bits3& bits, int n, V v) {
  if (n < 6) return v.right(v.load(bits.v[n / 2]), 3 * (n % 2)) & v.bytes(7);
  const auto lower = v.right(v.load(bits.v[2 * n - 12]), 6) & v.bytes(3);
  return lower | (v.right(v.load(bits.v[1]), n - 2) & v.bytes(4));
}

template <class V>
[[gnu::always_inline]] inline auto dword_of(const Bits4& bits, int n, V v) {
  return v.right(v.load(bits.v[n / 2]), 4 * (n % 2)) & v.bytes(15);
}

template <class V>
[[gnu::always_inline]] inline auto dword_of(const Bits5& bits, int n, V v) {
  const auto& u = bits.v;
  if (n < 5) return v.load(u[n]) & v.bytes(0x1f);
  const auto upper = v.right(v.load(u[2 * n - 10]), 3) & v.bytes(0x1c);
  if (n < 7) return upper | (v.right(v.load(u[2 * n - 9]), 6) & v.bytes(3));
  const auto bit0 = v.right(v.load(u[1]), 5) & v.bytes(1), bit1 = v.right(v.load(u[3]), 4) & v.bytes(2);
  return upper | (bit0 | bit1);
}

template <class V>
[[gnu::always_inline]] inline auto load_factor(const uint16_t* d, V v) {
  return v.load_f16(d);
}
template <class V>
[[gnu::always_inline]] inline auto load_factor(const float* d, V v) {
  return v.load_f32(d);
}

struct FormatQ4K {
  using Tile = TileQ4K;
  static constexpr int kPlanes = 1, kFlush = 8, kScales = 1, kMins = 1, kOffset = 0;

  template <class V>
  [[gnu::always_inline]] static auto scale(const Tile& tile, int p, int, V v) {
    return v.widen_u8(tile.pair[p].scale);
  }
  template <class V>
  [[gnu::always_inline]] static auto min(const Tile& tile, int p, int, V v) {
    return v.widen_u8(tile.pair[p].min);
  }
  template <class V>
  [[gnu::always_inline]] static void dword(const Tile& tile, int p, int h, int n, V v, typename V::Int (&w)[1]) {
    w[0] = v.right(v.load(tile.pair[p].q[4 * h + n / 2]), 4 * (n % 2)) & v.bytes(15);
  }
};

/// Five-bit values, of which four byte dot products fit an int16 lane (4 * 2 * 31 * 127).
struct FormatQ5K {
  using Tile = TileQ5K;
  static constexpr int kPlanes = 1, kFlush = 4, kScales = 1, kMins = 1, kOffset = 0;

  template <class V>
  [[gnu::always_inline]] static auto scale(const Tile& tile, int p, int, V v) {
    return v.widen_u8(tile.pair[p].scale);
  }
  template <class V>
  [[gnu::always_inline]] static auto min(const Tile& tile, int p, int, V v) {
    return v.widen_u8(tile.pair[p].min);
  }

  template <class V>
  [[gnu::always_inline]] static void dword(const Tile& tile, int p, int h, int n, V v, typename V::Int (&w)[1]) {
    w[0] = dword_of(tile.pair[p].half[h], n, v);
  }
};

/// Six-bit products overflow an int16 lane after two byte dot products, but sums wrap: with 32 times the lane's
/// activation sum taken off, four of them fit again.
struct FormatQ6K {
  using Tile = TileQ6K;
  static constexpr int kPlanes = 1, kFlush = 4, kScales = 2, kMins = 0, kOffset = 32;

  template <class V>
  [[gnu::always_inline]] static auto scale(const Tile& tile, int p, int h, V v) {
    return v.widen_i8(tile.pair[p].scale[h]);
  }
  template <class V>
  [[gnu::always_inline]] static void dword(const Tile& tile, int p, int h, int n, V v, typename V::Int (&w)[1]) {
    const Tile::Half& half = tile.pair[p].half[h];
    const auto high = v.load(half.high[n / 4]);
    const auto upper = n % 4 < 2 ? v.left(high, 4 - 2 * (n % 4)) : v.right(high, 2 * (n % 4) - 4);
    w[0] = (v.right(v.load(half.low[n / 2]), 4 * (n % 2)) & v.bytes(15)) | (upper & v.bytes(0x30));
  }
};

/// As Q6_K, with three-bit values, of which eight byte dot products fit an int16 lane.
struct FormatQ3K {
  using Tile = TileQ3K;
  static constexpr int kPlanes = 1, kFlush = 8, kScales = 2, kMins = 0, kOffset = 4;

  template <class V>
  [[gnu::always_inline]] static auto scale(const Tile& tile, int p, int h, V v) {
    return v.widen_i8(tile.pair[p].scale[h]);
  }

  template <class V>
  [[gnu::always_inline]] static void dword(const Tile& tile, int p, int h, int n, V v, typename V::Int (&w)[1]) {
    w[0] = dword_of(tile.pair[p].half[h], n, v);
  }
};

/// Scale and min per 16; sixteen byte dot products would fit an int16 lane, a scale covers eight.
struct FormatQ2K {
  using Tile = TileQ2K;
  static constexpr int kPlanes = 1, kFlush = 8, kScales = 2, kMins = 2, kOffset = 0;

  template <class V>
  [[gnu::always_inline]] static auto scale(const Tile& tile, int p, int h, V v) {
    return v.widen_u8(tile.pair[p].scale_min[h]) & v.words(15);
  }
  template <class V>
  [[gnu::always_inline]] static auto min(const Tile& tile, int p, int h, V v) {
    return v.right(v.widen_u8(tile.pair[p].scale_min[h]), 4);
  }

  template <class V>
  [[gnu::always_inline]] static void dword(const Tile& tile, int p, int h, int n, V v, typename V::Int (&w)[1]) {
    w[0] = dword_of(tile.pair[p].half[h], n, v);
  }
};

/// The numbers of IQ4_NL, IQ4_XS, IQ3_XXS and IQ2 are eight bits, too many for pmaddubsw. Split as v = 16 (upper - 8) +
/// lower with four unsigned bits each, both parts' products fit an int16 lane eight times: two pmaddubsw and two adds a
/// dword, and no widening before the scale.
struct Planes {
  alignas(16) uint8_t upper[16];
  alignas(16) uint8_t lower[16];
};

constexpr Planes split_values(const int8_t (&values)[16]) {
  Planes planes{};
  for (int i = 0; i < 16; ++i) {
    planes.upper[i] = static_cast<uint8_t>((values[i] + 128) / 16);
    planes.lower[i] = static_cast<uint8_t>((values[i] + 128) % 16);
  }
  return planes;
}

constexpr Planes kIq4Planes = split_values(kIq4Values);

/// Scales of -32..31 per 32: 16 times one times m fits int16.
struct FormatIQ4XS {
  using Tile = TileIQ4XS;
  static constexpr int kPlanes = 2, kFlush = 8, kScales = 1, kMins = 0, kOffset = 8;

  template <class V>
  [[gnu::always_inline]] static auto scale(const Tile& tile, int p, int, V v) {
    return v.widen_i8(tile.scale[p]);
  }
  template <class V>
  [[gnu::always_inline]] static void dword(const Tile& tile, int p, int h, int n, V v, typename V::Int (&w)[2]) {
    const auto codes = dword_of(tile.half[p][h], n, v);
    w[0] = v.look_up(kIq4Planes.upper, codes);
    w[1] = v.look_up(kIq4Planes.lower, codes);
  }
};

}  // namespace
}  // namespace pagoda::kernels
