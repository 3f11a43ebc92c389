#include <immintrin.h>

#include "kernels/matmul/kernels.h"
#include "kernels/matmul/layout.h"

// pack_r8 of layout.cc for the types that models are made of, eight rows at a time: sixteen bytes of each row are
// turned so that a vector holds one dword of every row, and what a format does to its fields is done to all rows at
// once. Groups of fewer rows, rows that end inside a tile and the other types go to pack_r8: the same bytes either way.
namespace pagoda::kernels {
namespace {

struct Source {
  const uint8_t* row0;
  int64_t stride;
};

[[gnu::always_inline]] inline __m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
[[gnu::always_inline]] inline __m128i load_half(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
[[gnu::always_inline]] inline void store(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }

/// Sixteen bytes of each row at `at` -> dword i of the eight rows in d[i].
struct Dwords {
  __m256i d[4];
};
[[gnu::always_inline]] inline Dwords turn(const Source& src, int64_t at) {
  const auto two = [&](int r) {  // rows r and r + 4
    const uint8_t* p = src.row0 + r * src.stride + at;
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load_half(p)), load_half(p + 4 * src.stride), 1);
  };
  const __m256i a = two(0), b = two(1), c = two(2), d = two(3);
  const __m256i ab_low = _mm256_unpacklo_epi32(a, b), ab_high = _mm256_unpackhi_epi32(a, b);
  const __m256i cd_low = _mm256_unpacklo_epi32(c, d), cd_high = _mm256_unpackhi_epi32(c, d);
  return {{_mm256_unpacklo_epi64(ab_low, cd_low), _mm256_unpackhi_epi64(ab_low, cd_low),
           _mm256_unpacklo_epi64(ab_high, cd_high), _mm256_unpackhi_epi64(ab_high, cd_high)}};
}

/// The low words of eight rows' dwords, then the high words.
[[gnu::always_inline]] inline __m256i words_apart(__m256i dwords) {
  const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15,  //
                                         0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(dwords, order), 0xd8);
}

/// A dword of two pairs of nibbles of two 32-blocks from four values of each, as TileQ4K::Pair::q wants them.
[[gnu::always_inline]] inline __m256i nibble_pairs(__m256i first, __m256i second) {
  const __m256i a = _mm256_or_si256(first, _mm256_srli_epi32(first, 12));
  const __m256i b = _mm256_or_si256(second, _mm256_srli_epi32(second, 12));
  return _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa);
}

struct PackQ4K {
  static constexpr int64_t kTileBytes = sizeof(TileQ4K);
  static constexpr int32_t kFileBytes = 144;

  static void pack(const Source& src, std::byte* dst) {
    auto& tile = *reinterpret_cast<TileQ4K*>(dst);
    const __m256i nibble = _mm256_set1_epi8(0x0f), six = _mm256_set1_epi8(0x3f), two = _mm256_set1_epi8(0x30);
    const Dwords head = turn(src, 0);
    store(tile.d, words_apart(head.d[0]));
    const __m256i a = head.d[1], b = head.d[2], c = head.d[3];
    const __m256i scale[2] = {
        _mm256_and_si256(a, six),
        _mm256_or_si256(_mm256_and_si256(c, nibble), _mm256_and_si256(_mm256_srli_epi32(a, 2), two))};
    const __m256i min[2] = {_mm256_and_si256(b, six), _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(c, 4), nibble),
                                                                      _mm256_and_si256(_mm256_srli_epi32(b, 2), two))};
    for (int half = 0; half < 2; ++half) {  // pairs 2 half, 2 half + 1
      const __m256i s = words_apart(scale[half]), m = words_apart(min[half]);
      TileQ4K::Pair* pair = tile.pair + 2 * half;
      store(pair[0].scale, _mm256_permute2x128_si256(s, m, 0x20));  // scales and minima lie together
      store(pair[1].scale, _mm256_permute2x128_si256(s, m, 0x31));
    }
    for (int p = 0; p < 4; ++p)
      for (int h = 0; h < 2; ++h) {
        const Dwords q = turn(src, 16 + 32 * p + 16 * h);
        for (int j = 0; j < 4; ++j)
          store(tile.pair[p].q[4 * h + j],
                nibble_pairs(_mm256_and_si256(q.d[j], nibble), _mm256_and_si256(_mm256_srli_epi32(q.d[j], 4), nibble)));
      }
  }
};

struct PackQ6K {
  static constexpr int64_t kTileBytes = sizeof(TileQ6K);
  static constexpr int32_t kFileBytes = 210;

  /// Two bits of four elements of both blocks -> their dwords 2j (bits 0, 1) and 2j + 1 (bits 2, 3).
  [[gnu::always_inline]] static inline __m256i upper_bits(__m256i bits) {
    const __m256i mask = _mm256_set1_epi8(3);
    const __m256i a = _mm256_and_si256(bits, mask), b = _mm256_and_si256(_mm256_srli_epi32(bits, 2), mask);
    const __m256i even = _mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa);
    const __m256i odd = _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xaa);
    return _mm256_or_si256(even, _mm256_slli_epi32(odd, 2));
  }

  static void pack_scales(const Source& src, TileQ6K& tile) {
    const __m256i order = _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15,  //
                                           0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    const Dwords scales = turn(src, 192);
    for (int p = 0; p < 4; ++p)
      store(tile.pair[p].scale, _mm256_permute4x64_epi64(_mm256_shuffle_epi8(scales.d[p], order), 0xd8));
    for (int r = 0; r < kGroupRows; ++r) {
      __builtin_memcpy(&tile.d[r], src.row0 + r * src.stride + 208, 2);
      tile.unused[r] = 0;
    }
  }

  static void pack(const Source& src, std::byte* dst) {
    auto& tile = *reinterpret_cast<TileQ6K*>(dst);
    const __m256i nibble = _mm256_set1_epi8(0x0f);
    pack_scales(src, tile);
    for (int n = 0; n < 2; ++n)  // 128 elements: pairs 2n (low nibbles, low halves of qh) and 2n + 1
      for (int h = 0; h < 2; ++h) {
        const Dwords first = turn(src, 64 * n + 16 * h), second = turn(src, 64 * n + 32 + 16 * h);
        const Dwords upper = turn(src, 128 + 32 * n + 16 * h);
        TileQ6K::Half &even = tile.pair[2 * n].half[h], &odd = tile.pair[2 * n + 1].half[h];
        __m256i even_bits[4], odd_bits[4];
        for (int j = 0; j < 4; ++j) {
          const __m256i a = first.d[j], b = second.d[j], u = upper.d[j];
          store(even.low[j], nibble_pairs(_mm256_and_si256(a, nibble), _mm256_and_si256(b, nibble)));
          store(odd.low[j], nibble_pairs(_mm256_and_si256(_mm256_srli_epi32(a, 4), nibble),
                                         _mm256_and_si256(_mm256_srli_epi32(b, 4), nibble)));
          even_bits[j] = upper_bits(u);
          odd_bits[j] = upper_bits(_mm256_srli_epi32(u, 4));
        }
        for (int i = 0; i < 2; ++i) {
          store(even.high[i], _mm256_or_si256(even_bits[2 * i], _mm256_slli_epi32(even_bits[2 * i + 1], 4)));
          store(odd.high[i], _mm256_or_si256(odd_bits[2 * i], _mm256_slli_epi32(odd_bits[2 * i + 1], 4)));
        }
      }
  }
};

// The 32-block formats: two blocks of the file a tile.

/// One f16 a block, where no sixteen bytes begin.
[[gnu::always_inline]] inline void pack_d(const Source& src, int64_t at, uint16_t (&d)[8]) {
  for (int r = 0; r < kGroupRows; ++r) __builtin_memcpy(&d[r], src.row0 + r * src.stride + at, 2);
}

[[gnu::always_inline]] inline void pack_dwords(const Source& src, int64_t at, uint8_t (&q)[4][8][4]) {
  const Dwords turned = turn(src, at);
  for (int j = 0; j < 4; ++j) store(q[j], turned.d[j]);
}

/// d and m of both blocks and what lies between, of rows of dwords.
template <class Tile>
[[gnu::always_inline]] inline void pack_d_m(__m256i first, __m256i second, Tile& tile) {
  const __m256i a = words_apart(first), b = words_apart(second);
  store(tile.d, _mm256_permute2x128_si256(a, b, 0x20));
  store(tile.m, _mm256_permute2x128_si256(a, b, 0x31));
}

/// Bit 4g + c of each dword -> bit g of byte c.
[[gnu::always_inline]] inline __m256i fifth_bits(__m256i v) {
  const auto gather = [&](int c) {
    __m256i x = _mm256_and_si256(_mm256_srli_epi32(v, c), _mm256_set1_epi32(0x11111111));
    x = _mm256_and_si256(_mm256_or_si256(x, _mm256_srli_epi32(x, 3)), _mm256_set1_epi32(0x03030303));
    x = _mm256_and_si256(_mm256_or_si256(x, _mm256_srli_epi32(x, 6)), _mm256_set1_epi32(0x000f000f));
    return _mm256_and_si256(_mm256_or_si256(x, _mm256_srli_epi32(x, 12)), _mm256_set1_epi32(0xff));
  };
  const __m256i low = _mm256_or_si256(gather(0), _mm256_slli_epi32(gather(1), 8));
  const __m256i high = _mm256_or_si256(gather(2), _mm256_slli_epi32(gather(3), 8));
  return _mm256_or_si256(low, _mm256_slli_epi32(high, 16));
}

struct PackQ4_0 {  // IQ4_NL too
  static constexpr int64_t kTileBytes = sizeof(TileQ4_0);
  static constexpr int32_t kFileBytes = 2 * 18;

  static void pack(const Source& src, std::byte* dst) {
    auto& tile = *reinterpret_cast<TileQ4_0*>(dst);
    for (int block = 0; block < 2; ++block) {
      pack_d(src, 18 * block, tile.d[block]);
      pack_dwords(src, 18 * block + 2, tile.q[block]);
    }
  }
};

struct PackQ4_1 {
  static constexpr int64_t kTileBytes = sizeof(TileQ4_1);
  static constexpr int32_t kFileBytes = 2 * 20;

  static void pack(const Source& src, std::byte* dst) {  // dwords 0 to 9: d m, q, q, q, q; d m, q, q, q, q
    auto& tile = *reinterpret_cast<TileQ4_1*>(dst);
    const Dwords from0 = turn(src, 0), from4 = turn(src, 16);
    pack_d_m(from0.d[0], from4.d[1], tile);
    for (int j = 0; j < 3; ++j) store(tile.q[0][j], from0.d[j + 1]);
    store(tile.q[0][3], from4.d[0]);
    pack_dwords(src, 24, tile.q[1]);
  }
};

struct PackQ5_0 {
  static constexpr int64_t kTileBytes = sizeof(TileQ5_0);
  static constexpr int32_t kFileBytes = 2 * 22;

  static void pack(const Source& src, std::byte* dst) {
    auto& tile = *reinterpret_cast<TileQ5_0*>(dst);
    for (int block = 0; block < 2; ++block) {
      pack_d(src, 22 * block, tile.d[block]);
      store(tile.block[block].high, fifth_bits(turn(src, 22 * block + 2).d[0]));
      pack_dwords(src, 22 * block + 6, tile.block[block].low);
    }
  }
};

struct PackQ5_1 {
  static constexpr int64_t kTileBytes = sizeof(TileQ5_1);
  static constexpr int32_t kFileBytes = 2 * 24;

  static void pack(const Source& src, std::byte* dst) {
    auto& tile = *reinterpret_cast<TileQ5_1*>(dst);
    const Dwords first = turn(src, 0), second = turn(src, 24);
    pack_d_m(first.d[0], second.d[0], tile);
    for (int block = 0; block < 2; ++block) {
      store(tile.block[block].high, fifth_bits(block == 0 ? first.d[1] : second.d[1]));
      pack_dwords(src, 24 * block + 8, tile.block[block].low);
    }
  }
};

struct PackMXFP4 {
  static constexpr int64_t kTileBytes = sizeof(TileMXFP4);
  static constexpr int32_t kFileBytes = 2 * 17;

  static void pack(const Source& src, std::byte* dst) {
    auto& tile = *reinterpret_cast<TileMXFP4*>(dst);
    for (int block = 0; block < 2; ++block) {
      for (int r = 0; r < kGroupRows; ++r) tile.e[block][r] = src.row0[r * src.stride + 17 * block];
      pack_dwords(src, 17 * block + 1, tile.q[block]);
    }
  }
};

/// Sixteen words of each of eight rows -> [word][row].
[[gnu::always_inline]] inline void turn_words(const Source& src, int64_t at, std::byte* dst) {
  __m256i a[8], b[8];
  for (int r = 0; r < 8; ++r) a[r] = load(src.row0 + r * src.stride + at);
  for (int i = 0; i < 4; ++i) {  // b[i]: words 0-3 and 8-11 of rows 2i, 2i+1; b[4 + i]: 4-7 and 12-15
    b[i] = _mm256_unpacklo_epi16(a[2 * i], a[2 * i + 1]);
    b[4 + i] = _mm256_unpackhi_epi16(a[2 * i], a[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {  // a[2i]: two words of rows 0-3, a[2i + 1]: of rows 4-7
    const __m256i *rows = b + 4 * (i / 2), x = rows[0], y = rows[1], z = rows[2], w = rows[3];
    a[2 * i] = i % 2 == 0 ? _mm256_unpacklo_epi32(x, y) : _mm256_unpackhi_epi32(x, y);
    a[2 * i + 1] = i % 2 == 0 ? _mm256_unpacklo_epi32(z, w) : _mm256_unpackhi_epi32(z, w);
  }
  for (int i = 0; i < 4; ++i) {  // words 2i, 2i + 1 in the low lanes, 8 more in the high ones
    const __m256i even = _mm256_unpacklo_epi64(a[2 * i], a[2 * i + 1]);
    const __m256i odd = _mm256_unpackhi_epi64(a[2 * i], a[2 * i + 1]);
    store(dst + 32 * i, _mm256_permute2x128_si256(even, odd, 0x20));
    store(dst + 128 + 32 * i, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}

struct PackQ8_0 {
  static constexpr int64_t kTileBytes = sizeof(TileQ8_0);
  static constexpr int32_t kFileBytes = 2 * 34;

  static void pack(const Source& src, std::byte* dst) {
    auto& tile = *reinterpret_cast<TileQ8_0*>(dst);
    for (int block = 0; block < 2; ++block) {
      pack_d(src, 34 * block, tile.d[block]);
      turn_words(src, 34 * block + 2, reinterpret_cast<std::byte*>(tile.q[block]));
    }
  }
};

struct PackWords {  // F16, BF16: sixteen k
  static constexpr int64_t kTileBytes = 16 * kGroupRows * 2;
  static constexpr int32_t kFileBytes = 32;

  static void pack(const Source& src, std::byte* dst) { turn_words(src, 0, dst); }
};

struct PackFloats {  // F32: four k
  static constexpr int64_t kTileBytes = 4 * kGroupRows * 4;
  static constexpr int32_t kFileBytes = 16;

  static void pack(const Source& src, std::byte* dst) {
    const Dwords turned = turn(src, 0);
    for (int k = 0; k < 4; ++k) store(dst + 32 * k, turned.d[k]);
  }
};

/// Whole groups of rows [begin, end); false, and nothing done, if a row is no whole number of tiles.
template <class Format>
bool pack_groups(const uint8_t* src, int64_t row_bytes, int32_t begin, int32_t end, std::byte* dst) {
  if (row_bytes % Format::kFileBytes != 0) return false;
  const int64_t tiles = row_bytes / Format::kFileBytes;
  for (int32_t row = begin; row < end; row += kGroupRows) {
    Source from{src + row * row_bytes, row_bytes};
    std::byte* to = dst + row / kGroupRows * tiles * Format::kTileBytes;
    for (int64_t i = 0; i < tiles; ++i, from.row0 += Format::kFileBytes, to += Format::kTileBytes)
      Format::pack(from, to);
  }
  return true;
}

bool pack_groups(TensorType type, const uint8_t* src, int64_t row_bytes, int32_t begin, int32_t end, std::byte* dst) {
  switch (type) {
    case TensorType::kQ4_K:
      return pack_groups<PackQ4K>(src, row_bytes, begin, end, dst);
    case TensorType::kQ6_K:
      return pack_groups<PackQ6K>(src, row_bytes, begin, end, dst);
    case TensorType::kQ4_0:
    case TensorType::kIQ4_NL:
      return pack_groups<PackQ4_0>(src, row_bytes, begin, end, dst);
    case TensorType::kQ4_1:
      return pack_groups<PackQ4_1>(src, row_bytes, begin, end, dst);
    case TensorType::kQ5_0:
      return pack_groups<PackQ5_0>(src, row_bytes, begin, end, dst);
    case TensorType::kQ5_1:
      return pack_groups<PackQ5_1>(src, row_bytes, begin, end, dst);
    case TensorType::kQ8_0:
      return pack_groups<PackQ8_0>(src, row_bytes, begin, end, dst);
    case TensorType::kMXFP4:
      return pack_groups<PackMXFP4>(src, row_bytes, begin, end, dst);
    case TensorType::kF16:
    case TensorType::kBF16:
      return pack_groups<PackWords>(src, row_bytes, begin, end, dst);
    case TensorType::kF32:
      return pack_groups<PackFloats>(src, row_bytes, begin, end, dst);
    default:
      return false;
  }
}

}  // namespace

void pack_avx2(TensorType type, const std::byte* src, int32_t rows, int32_t cols, Range range, std::byte* dst) {
  const int32_t whole_end = range.end / kGroupRows * kGroupRows;
  const bool whole = range.begin < whole_end && range.begin % kGroupRows == 0;
  if (whole &&
      pack_groups(type, reinterpret_cast<const uint8_t*>(src), row_bytes(type, cols), range.begin, whole_end, dst))
    range.begin = whole_end;
  pack_r8(type, src, rows, cols, range, dst);
}

}  // namespace pagoda::kernels
