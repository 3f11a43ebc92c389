#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/ids.h"

namespace pagoda::model {

/// Some consecutive rows of one sequence: they share a block table and are attended together.
struct RowTile {
  int32_t row;            // of the step
  int32_t rows;           // 1 .. kTileRows
  int32_t position;       // absolute, of the first
  const BlockId* blocks;  // the sequence's block table
};

inline constexpr int32_t kTileRows = 16;

/// The rows of one step as layers see them: tokens with a position and a place in the cache. Whose they are does not
/// matter.
struct StepRows {
  std::vector<TokenId> tokens;     // [T]
  std::vector<int32_t> positions;  // [T]
  std::vector<BlockId> blocks;     // [T] where the row's K and V go ...
  std::vector<int32_t> slots;      // [T] ... and the place in that block, [0, 16)
  std::vector<RowTile> tiles;      // all rows, those with the longest context first

  int32_t rows() const { return static_cast<int32_t>(tokens.size()); }
};

/// Hands out attention work within a step: one counter a layer, so that none has to be reset between barriers.
class WorkCounters {
 public:
  explicit WorkCounters(int32_t layers)
      : next_(new std::atomic<int32_t>[static_cast<size_t>(layers)]), layers_(layers) {}
  void reset() {
    for (int32_t l = 0; l < layers_; ++l) next_[static_cast<size_t>(l)].store(0, std::memory_order_relaxed);
  }
  int32_t take(int32_t layer) { return next_[static_cast<size_t>(layer)].fetch_add(1, std::memory_order_relaxed); }

 private:
  std::unique_ptr<std::atomic<int32_t>[]> next_;
  int32_t layers_;
};

}  // namespace pagoda::model
