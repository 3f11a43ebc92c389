#pragma once
#include "kernels/formats/codebook.h"
#include "kernels/matmul/layout_block256.h"

// The codebook formats: file's block -> row r of a tile of codes; for layout.cc alone.
namespace pagoda::kernels {
namespace {

/// The code of every number of a codebook, by number + 128.
struct CodeOf {
  uint8_t code[256];

  explicit constexpr CodeOf(Codebook book) : code{} {
    for (uint8_t c = 16; c-- > 0;)
      code[kCodebookValues[static_cast<int>(book)][c] + 128] = c;  // the first of equal ones
  }
};

template <TensorType type, class Bits>
struct PackCodes {
  using Tile = TileCodes<Bits>;
  static constexpr int32_t blocks = 1;

  static void pack(const uint8_t* src, int32_t r, int32_t, Tile& tile) {
    static const CodeOf kCodes(codebook_of(type));
    CodebookBlock block;
    decode_codebook(type, src, block);
    tile.d[r] = block.d;
    for (int p = 0; p < 4; ++p) {
      for (int i = 0; i < 4; ++i) tile.pair[p].scale[i % 2][r][i / 2] = block.scale[4 * p + i];
      uint8_t values[64];
      for (int i = 0; i < 64; ++i) values[i] = kCodes.code[block.value[64 * p + i] + 128];
      put_pair(values, r, tile.pair[p].half);
    }
  }

  static void unpack_values(const Tile& tile, int32_t r, float* dst) {
    const int8_t* numbers = kCodebookValues[static_cast<int>(codebook_of(type))];
    for (int p = 0; p < 4; ++p) {
      uint8_t values[64];
      get_pair(tile.pair[p].half, r, values);
      for (int i = 0; i < 64; ++i) {
        const int scale = tile.pair[p].scale[i % 32 / 16][r][i / 32];
        dst[64 * p + i] = tile.d[r] * static_cast<float>(scale * numbers[values[i]]);
      }
    }
  }
};

}  // namespace
}  // namespace pagoda::kernels
