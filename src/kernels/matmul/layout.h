#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/matmul/matmul.h"

namespace pagoda::kernels {

/// The packed layout of the portable and the AVX2 kernels. Eight rows are interleaved: a lane of a 256-bit register is
/// a row. Each tile lies in the order it is read, in multiples of 32 bytes, so a group of rows is one long ascending
/// stream. Rows beyond N and 32-blocks beyond K are zero (zero scales, zero values). Group g of a matrix holds rows
/// [8g, 8g+8) and is group_bytes() long; tiles follow each other along k.
///
/// Source: KERNELS 1.3 with correction 1. A dword is four k of one row: what one byte dot product sees of it.
inline constexpr int32_t kGroupRows = 8;

/// 8 rows x 256. Pair p covers elements [64p, 64p+64); its dwords interleave two 32-blocks as ActView says.
struct TileQ4K {
  uint16_t d[8], dmin[8];  // f16
  struct Pair {
    uint8_t scale[8][2];  // row, 32-block of the pair
    uint8_t min[8][2];
    uint8_t q[8][8][4];  // [j][row]: low nibbles dword 2j, high nibbles dword 2j+1
  } pair[4];
};

/// 8 rows x 256; values are stored plus 32. Half h of a pair holds dwords 8h..8h+7: elements 16h..16h+15 of both
/// 32-blocks.
struct TileQ6K {
  uint16_t d[8], unused[8];
  struct Half {
    uint8_t high[2][8][4];  // [i][row]: bits 2n, 2n+1 are the upper bits of dword 4i+n
    uint8_t low[4][8][4];   // [j][row]: low nibbles dword 2j, high nibbles dword 2j+1
  };
  struct Pair {
    int8_t scale[2][8][2];  // half, row, 32-block of the pair
    Half half[2];
  } pair[4];
};

/// 8 rows x 64 of the 32-block formats: two blocks, so that the parts stay aligned. Natural order: dword g of a block
/// holds elements 4g..4g+3; q[j] has dword j in the low nibbles and dword j+4 in the high ones, as the file's bytes do.
struct TileQ4_0 {  // values are stored plus 8
  uint16_t d[2][8];
  uint8_t q[2][4][8][4];
};
struct TileQ4_1 {
  uint16_t d[2][8], m[2][8];
  uint8_t q[2][4][8][4];
};
struct TileQ5_0 {  // values are stored plus 16
  uint16_t d[2][8];
  struct Block {
    uint8_t high[8][4];  // [row][c]: bit g is the fifth bit of element 4g+c
    uint8_t low[4][8][4];
  } block[2];
};
struct TileQ8_0 {
  uint16_t d[2][8];
  int8_t q[2][16][8][2];  // [block][i][row]: elements 2i, 2i+1
};

static_assert(sizeof(TileQ4K) == 1184 && sizeof(TileQ6K) == 1696 && sizeof(TileQ4_0) == 288 &&
              sizeof(TileQ4_1) == 320 && sizeof(TileQ5_0) == 352 && sizeof(TileQ8_0) == 544);

/// Whether `type` has a tile of its own; the others keep the file's rows (the generic path). F32 and F16 tiles are one
/// k of eight rows: [K][8] of the type.
bool has_tiles(TensorType type);

/// Bytes from one group of eight rows to the next; type must have tiles.
int64_t group_bytes(TensorType type, int32_t cols);

// The functions of MatmulOps that both levels share.
int64_t packed_bytes_r8(TensorType type, int32_t rows, int32_t cols);
void pack_r8(TensorType type, const std::byte* src, int32_t rows, int32_t cols, Range range, std::byte* dst);
void unpack_row_r8(const PackedMatrix& w, int32_t row, float* dst);

/// The generic path's weights: k in [k_begin, k_end) of group g of a matrix without tiles, as f32 [k_end - k_begin][8];
/// rows beyond N are zero. k_begin is a multiple of 256, k_end - k_begin at most 256.
void dequantize_group(const PackedMatrix& w, int32_t group, int32_t k_begin, int32_t k_end, float* dst);

}  // namespace pagoda::kernels
