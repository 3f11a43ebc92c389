#pragma once
#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace pagoda::model {

/// Some consecutive rows of one sequence: they share a block table and are attended together.
struct RowTile {
  int32_t row;                                           // of the step
  int32_t rows;                                          // 1 .. kTileRows
  int32_t position;                                      // absolute, of the first
  const BlockId* blocks;                                 // the sequence's block table
  const std::vector<BlockId>* further_blocks = nullptr;  // tables 1, 2, ... where layers have several (KvLayer::table)

  const BlockId* table(int32_t index) const {
    return index == 0 ? blocks : further_blocks[static_cast<size_t>(index) - 1].data();
  }
};

inline constexpr int32_t kTileRows = 16;

/// The rows of one step as layers see them: tokens with a position and a place in the cache. Whose they are does not
/// matter.
struct StepRows {
  std::vector<TokenId> tokens;                       // [T]
  std::vector<int32_t> positions;                    // [T]
  std::vector<BlockId> blocks;                       // [T] where the row's K and V go, in layers of table 0 ...
  std::vector<int32_t> slots;                        // [T] ... and the place in that block, [0, 16)
  std::vector<std::vector<BlockId>> further_blocks;  // [tables - 1][T] likewise
  std::vector<RowTile> tiles;                        // all rows, those with the longest context first

  int32_t rows() const { return static_cast<int32_t>(tokens.size()); }
  BlockId block_of(int32_t table, size_t row) const {
    return table == 0 ? blocks[row] : further_blocks[static_cast<size_t>(table) - 1][row];
  }
};

}  // namespace pagoda::model
