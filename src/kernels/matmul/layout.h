#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/matmul/matmul.h"

namespace pagoda::kernels {

/// The packed layout of the portable and the AVX2 kernels. Eight rows are interleaved: a lane of a 256-bit register is
/// a row. Each tile lies in the order it is read, in multiples of 32 bytes (MXFP4: 16), so a group of rows is one long
/// ascending stream. Rows beyond N and 32-blocks beyond K are zero (zero scales, zero values). Group g of a matrix
/// holds rows [8g, 8g+8) and is group_bytes() long; tiles follow each other along k.
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

/// Eight dwords [n][row] of eight rows, 2 to 5 bits a value, as the 256-block formats below use them for a half of a
/// pair (dword n is element pair 16h+2n of both 32-blocks, see Q6_K). Every byte is full, and most values need one or
/// two operations; v[i] is a vector.
struct Bits2 {  // dword 4i+n: bits 2n, 2n+1 of v[i]
  uint8_t v[2][8][4];
};
struct Bits3 {  // dwords 2i, 2i+1: bits 0-2, 3-5 of v[i]; dword 6: v[0] bits 6, 7, v[1] bit 6; dword 7: v[2] 6, 7, v[1]
                // 7
  uint8_t v[3][8][4];
};
struct Bits4 {  // dwords 2i, 2i+1: low, high nibbles of v[i]
  uint8_t v[4][8][4];
};
struct Bits5 {  // dword i < 5: bits 0-4 of v[i]; the upper three bits of dwords 5, 6, 7: bits 5-7 of v[0], v[2], v[4];
                // the lower two of 5 and 6: bits 6, 7 of v[1], v[3]; those of 7: bit 5 of v[1], v[3]
  uint8_t v[5][8][4];
};

/// The dwords of row r; bytes are values.
void get_dwords(const Bits2& bits, int32_t r, uint32_t (&dwords)[8]);
void get_dwords(const Bits3& bits, int32_t r, uint32_t (&dwords)[8]);
void get_dwords(const Bits4& bits, int32_t r, uint32_t (&dwords)[8]);
void get_dwords(const Bits5& bits, int32_t r, uint32_t (&dwords)[8]);
void put_dwords(const uint32_t (&dwords)[8], int32_t r, Bits2& bits);
void put_dwords(const uint32_t (&dwords)[8], int32_t r, Bits3& bits);
void put_dwords(const uint32_t (&dwords)[8], int32_t r, Bits4& bits);
void put_dwords(const uint32_t (&dwords)[8], int32_t r, Bits5& bits);

/// 8 rows x 256.
struct TileQ5K {
  uint16_t d[8], dmin[8];
  struct Pair {
    uint8_t scale[8][2];  // row, 32-block of the pair
    uint8_t min[8][2];
    Bits5 half[2];
  } pair[4];
};
struct TileQ3K {  // values are stored plus 4
  uint16_t d[8], unused[8];
  struct Pair {
    int8_t scale[2][8][2];  // half, row, 32-block of the pair
    Bits3 half[2];
  } pair[4];
};
struct TileQ2K {
  uint16_t d[8], dmin[8];
  struct Pair {
    uint8_t scale_min[2][8][2];  // half, row, 32-block of the pair: scale in the low nibble, min in the high one
    Bits2 half[2];
  } pair[4];
};
struct TileIQ4XS {  // values are places in kIq4Values
  uint16_t d[8], unused[8];
  int8_t scale[4][8][2];  // pair, row, 32-block of the pair
  Bits4 half[4][2];
};

/// 8 rows x 256 of the codebook formats: values are codes, places in kCodebookValues (kernels/formats/codebook.h), in
/// as many bits as the codebook needs; d is f32 because an eighth of a half may not be one. Larger than the file's
/// blocks (3.6 bits a weight for its 1.6 to 2.6, 4.6 for 3.1 and 3.4): grids of hundreds of entries cannot be looked up
/// in a register.
template <class Bits>
struct TileCodes {
  float d[8];
  struct Pair {
    int8_t scale[2][8][2];  // half, row, 32-block of the pair
    Bits half[2];
  } pair[4];
};
using TileIQ2 = TileCodes<Bits3>;  // and IQ1
using TileIQ3 = TileCodes<Bits4>;
using TileTernary = TileCodes<Bits2>;

/// 8 rows x 64 of the 32-block formats: two blocks, so that the parts stay aligned. Natural order: dword g of a block
/// holds elements 4g..4g+3; q[j] has dword j in the low nibbles and dword j+4 in the high ones, as the file's bytes do.
struct TileQ4_0 {  // values are stored plus 8; IQ4_NL: places in kIq4Values
  uint16_t d[2][8];
  uint8_t q[2][4][8][4];
};
struct TileQ4_1 {
  uint16_t d[2][8], m[2][8];
  uint8_t q[2][4][8][4];
};
struct Fives {
  uint8_t high[8][4];  // [row][c]: bit g is the fifth bit of element 4g+c
  uint8_t low[4][8][4];
};
struct TileQ5_0 {  // values are stored plus 16
  uint16_t d[2][8];
  Fives block[2];
};
struct TileQ5_1 {
  uint16_t d[2][8], m[2][8];
  Fives block[2];
};
struct TileMXFP4 {  // values are places in kMxfp4Values
  uint8_t e[2][8];
  uint8_t q[2][4][8][4];
};
struct TileQ8_0 {
  uint16_t d[2][8];
  int8_t q[2][16][8][2];  // [block][i][row]: elements 2i, 2i+1
};

static_assert(sizeof(TileQ4K) == 1184 && sizeof(TileQ6K) == 1696 && sizeof(TileQ4_0) == 288 &&
              sizeof(TileQ4_1) == 320 && sizeof(TileQ5_0) == 352 && sizeof(TileQ8_0) == 544 &&
              sizeof(TileQ5K) == 1440 && sizeof(TileQ3K) == 928 && sizeof(TileQ2K) == 672 &&
              sizeof(TileIQ4XS) == 1120 && sizeof(TileIQ2) == 928 && sizeof(TileIQ3) == 1184 &&
              sizeof(TileTernary) == 672 && sizeof(TileQ5_1) == 384 && sizeof(TileMXFP4) == 272);

/// Bytes from one group of eight rows to the next. F32, F16 and BF16 tiles are one k of eight rows: [K][8] of the type.
int64_t group_bytes(TensorType type, int32_t cols);

// The functions of MatmulOps that both levels share.
int64_t packed_bytes_r8(TensorType type, int32_t rows, int32_t cols);
void pack_r8(TensorType type, const std::byte* src, int32_t rows, int32_t cols, Range range, std::byte* dst);
void unpack_row_r8(const PackedMatrix& w, int32_t row, float* dst);

}  // namespace pagoda::kernels
