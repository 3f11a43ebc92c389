#pragma once
#include "kernels/matmul/layout_bytes.h"

// The 256-block formats: file's block <-> row r of a tile; for layout.cc alone.
namespace pagoda::kernels {
namespace {

// Q4_K and Q5_K: eight pairs of six bits (scale, min) in twelve bytes.
template <class Tile>
void put_scales(const uint8_t* s, int32_t r, Tile& tile) {
  const auto put = [&](int block, int scale, int min) {
    tile.pair[block / 2].scale[r][block % 2] = static_cast<uint8_t>(scale);
    tile.pair[block / 2].min[r][block % 2] = static_cast<uint8_t>(min);
  };
  for (int j = 0; j < 4; ++j) {
    put(j, s[j] & 63, s[j + 4] & 63);
    put(j + 4, (s[j + 8] & 15) | (s[j] >> 6) << 4, (s[j + 8] >> 4) | (s[j + 4] >> 6) << 4);
  }
}

template <class Tile>
void get_scales(const Tile& tile, int32_t r, uint8_t* s) {
  for (int j = 0; j < 4; ++j) {
    const uint8_t sc = tile.pair[j / 2].scale[r][j % 2], mn = tile.pair[j / 2].min[r][j % 2];
    const uint8_t sc4 = tile.pair[2 + j / 2].scale[r][j % 2], mn4 = tile.pair[2 + j / 2].min[r][j % 2];
    s[j] = static_cast<uint8_t>(sc | (sc4 >> 4) << 6);
    s[j + 4] = static_cast<uint8_t>(mn | (mn4 >> 4) << 6);
    s[j + 8] = static_cast<uint8_t>((sc4 & 15) | (mn4 & 15) << 4);
  }
}

struct PackQ4K {
  using Tile = TileQ4K;
  static constexpr int32_t blocks = 1;

  static void pack(const uint8_t* src, int32_t r, int32_t, Tile& tile) {
    tile.d[r] = load_u16(src);
    tile.dmin[r] = load_u16(src + 2);
    put_scales(src + 4, r, tile);
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
    get_scales(tile, r, dst + 4);
    for (int p = 0; p < 4; ++p)
      for (int j = 0; j < 8; ++j) {
        const uint32_t q = load_u32(tile.pair[p].q[j][r]), even = q & kLowNibbles, odd = (q >> 4) & kLowNibbles;
        const uint32_t first = (even & 0xffffu) | odd << 16, second = even >> 16 | (odd & 0xffff0000u);
        store_u32(dst + 16 + 32 * p + 4 * j, first | second << 4);
      }
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

// The formats below go through plain values: `values` is one block of 256 in the file's order, a byte each.

template <class Bits>
void put_pair(const uint8_t* values, int32_t r, Bits (&half)[2]) {
  for (int h = 0; h < 2; ++h) {
    uint32_t dwords[8];
    for (int n = 0; n < 8; ++n)
      dwords[n] = load_u16(values + 16 * h + 2 * n) | uint32_t{load_u16(values + 32 + 16 * h + 2 * n)} << 16;
    put_dwords(dwords, r, half[h]);
  }
}

template <class Bits>
void get_pair(const Bits (&half)[2], int32_t r, uint8_t* values) {
  for (int h = 0; h < 2; ++h) {
    uint32_t dwords[8];
    get_dwords(half[h], r, dwords);
    for (int n = 0; n < 8; ++n) {
      store_u16(values + 16 * h + 2 * n, static_cast<uint16_t>(dwords[n]));
      store_u16(values + 32 + 16 * h + 2 * n, static_cast<uint16_t>(dwords[n] >> 16));
    }
  }
}

struct PackQ5K {
  using Tile = TileQ5K;
  static constexpr int32_t blocks = 1;

  static void pack(const uint8_t* src, int32_t r, int32_t, Tile& tile) {
    tile.d[r] = load_u16(src);
    tile.dmin[r] = load_u16(src + 2);
    put_scales(src + 4, r, tile);
    const uint8_t *qh = src + 16, *qs = src + 48;
    for (int p = 0; p < 4; ++p) {
      uint8_t values[64];
      for (int l = 0; l < 32; ++l) {
        values[l] = static_cast<uint8_t>((qs[32 * p + l] & 15) | (qh[l] >> (2 * p) & 1) << 4);
        values[32 + l] = static_cast<uint8_t>(qs[32 * p + l] >> 4 | (qh[l] >> (2 * p + 1) & 1) << 4);
      }
      put_pair(values, r, tile.pair[p].half);
    }
  }

  static void unpack(const Tile& tile, int32_t r, int32_t, uint8_t* dst) {
    store_u16(dst, tile.d[r]);
    store_u16(dst + 2, tile.dmin[r]);
    get_scales(tile, r, dst + 4);
    uint8_t *qh = dst + 16, *qs = dst + 48;
    std::memset(qh, 0, 32);
    for (int p = 0; p < 4; ++p) {
      uint8_t values[64];
      get_pair(tile.pair[p].half, r, values);
      for (int l = 0; l < 32; ++l) {
        qs[32 * p + l] = static_cast<uint8_t>((values[l] & 15) | (values[32 + l] & 15) << 4);
        qh[l] = static_cast<uint8_t>(qh[l] | (values[l] >> 4) << (2 * p) | (values[32 + l] >> 4) << (2 * p + 1));
      }
    }
  }
};

// Q2_K and Q3_K: two bits of element 32 run + l (run 0..7) are bits 2 (run mod 4) of qs[32 (run / 4) + l].
inline int two_bits(const uint8_t* qs, int run, int l) { return qs[32 * (run / 4) + l] >> (2 * (run % 4)) & 3; }

inline void set_two_bits(uint8_t* qs, int run, int l, int value) {
  uint8_t& byte = qs[32 * (run / 4) + l];
  byte = static_cast<uint8_t>(byte | (value & 3) << (2 * (run % 4)));
}

struct PackQ3K {
  using Tile = TileQ3K;
  static constexpr int32_t blocks = 1;

  static void pack(const uint8_t* src, int32_t r, int32_t, Tile& tile) {
    const uint8_t *hmask = src, *qs = src + 32, *scales = src + 96;
    tile.d[r] = load_u16(src + 108);
    tile.unused[r] = 0;
    for (int p = 0; p < 4; ++p) {
      for (int i = 0; i < 4; ++i) {  // group 4p + i of sixteen
        const int g = 4 * p + i, low = g < 8 ? scales[g] & 15 : scales[g - 8] >> 4;
        const int high = scales[8 + g % 4] >> (2 * (g / 4)) & 3;
        tile.pair[p].scale[i % 2][r][i / 2] = static_cast<int8_t>((low | high << 4) - 32);
      }
      uint8_t values[64];
      for (int s = 0; s < 2; ++s)
        for (int l = 0; l < 32; ++l)
          values[32 * s + l] = static_cast<uint8_t>(two_bits(qs, 2 * p + s, l) | (hmask[l] >> (2 * p + s) & 1) << 2);
      put_pair(values, r, tile.pair[p].half);
    }
  }

  static void unpack(const Tile& tile, int32_t r, int32_t, uint8_t* dst) {
    std::memset(dst, 0, 110);
    uint8_t *hmask = dst, *qs = dst + 32, *scales = dst + 96;
    store_u16(dst + 108, tile.d[r]);
    for (int p = 0; p < 4; ++p) {
      for (int i = 0; i < 4; ++i) {
        const int g = 4 * p + i, scale = tile.pair[p].scale[i % 2][r][i / 2] + 32;
        uint8_t &low = scales[g % 8], &high = scales[8 + g % 4];
        low = static_cast<uint8_t>(low | (scale & 15) << (4 * (g / 8)));
        high = static_cast<uint8_t>(high | (scale >> 4) << (2 * (g / 4)));
      }
      uint8_t values[64];
      get_pair(tile.pair[p].half, r, values);
      for (int s = 0; s < 2; ++s)
        for (int l = 0; l < 32; ++l) {
          set_two_bits(qs, 2 * p + s, l, values[32 * s + l]);
          hmask[l] = static_cast<uint8_t>(hmask[l] | (values[32 * s + l] >> 2) << (2 * p + s));
        }
    }
  }
};

struct PackQ2K {
  using Tile = TileQ2K;
  static constexpr int32_t blocks = 1;

  static void pack(const uint8_t* src, int32_t r, int32_t, Tile& tile) {
    const uint8_t* qs = src + 16;
    tile.d[r] = load_u16(src + 80);
    tile.dmin[r] = load_u16(src + 82);
    for (int p = 0; p < 4; ++p) {
      for (int i = 0; i < 4; ++i) tile.pair[p].scale_min[i % 2][r][i / 2] = src[4 * p + i];
      uint8_t values[64];
      for (int s = 0; s < 2; ++s)
        for (int l = 0; l < 32; ++l) values[32 * s + l] = static_cast<uint8_t>(two_bits(qs, 2 * p + s, l));
      put_pair(values, r, tile.pair[p].half);
    }
  }

  static void unpack(const Tile& tile, int32_t r, int32_t, uint8_t* dst) {
    std::memset(dst, 0, 84);
    store_u16(dst + 80, tile.d[r]);
    store_u16(dst + 82, tile.dmin[r]);
    for (int p = 0; p < 4; ++p) {
      for (int i = 0; i < 4; ++i) dst[4 * p + i] = tile.pair[p].scale_min[i % 2][r][i / 2];
      uint8_t values[64];
      get_pair(tile.pair[p].half, r, values);
      for (int s = 0; s < 2; ++s)
        for (int l = 0; l < 32; ++l) set_two_bits(dst + 16, 2 * p + s, l, values[32 * s + l]);
    }
  }
};

struct PackIQ4XS {
  using Tile = TileIQ4XS;
  static constexpr int32_t blocks = 1;

  static void pack(const uint8_t* src, int32_t r, int32_t, Tile& tile) {
    tile.d[r] = load_u16(src);
    tile.unused[r] = 0;
    const int scales_high = load_u16(src + 2);
    for (int g = 0; g < 8; ++g) {
      const int low = src[4 + g / 2] >> (4 * (g % 2)) & 15, high = scales_high >> (2 * g) & 3;
      tile.scale[g / 2][r][g % 2] = static_cast<int8_t>((low | high << 4) - 32);
    }
    for (int p = 0; p < 4; ++p) {
      uint8_t values[64];
      for (int s = 0; s < 2; ++s)
        for (int j = 0; j < 16; ++j) {
          const uint8_t byte = src[8 + 32 * p + 16 * s + j];
          values[32 * s + j] = byte & 15;
          values[32 * s + 16 + j] = byte >> 4;
        }
      put_pair(values, r, tile.half[p]);
    }
  }

  static void unpack(const Tile& tile, int32_t r, int32_t, uint8_t* dst) {
    store_u16(dst, tile.d[r]);
    int scales_high = 0;
    for (int g = 0; g < 8; g += 2) {
      const int first = tile.scale[g / 2][r][0] + 32, second = tile.scale[g / 2][r][1] + 32;
      dst[4 + g / 2] = static_cast<uint8_t>((first & 15) | (second & 15) << 4);
      scales_high |= (first >> 4) << (2 * g) | (second >> 4) << (2 * g + 2);
    }
    store_u16(dst + 2, static_cast<uint16_t>(scales_high));
    for (int p = 0; p < 4; ++p) {
      uint8_t values[64];
      get_pair(tile.half[p], r, values);
      for (int i = 0; i < 32; ++i)  // byte i: elements i and i + 16 of block i / 16
        dst[8 + 32 * p + i] =
            static_cast<uint8_t>(values[32 * (i / 16) + i % 16] | values[32 * (i / 16) + 16 + i % 16] << 4);
    }
  }
};

}  // namespace
}  // namespace pagoda::kernels
