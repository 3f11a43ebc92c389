#pragma once
#include <cstddef>
#include <cstdint>

#include "core/check.h"

namespace pagoda {

/// Borrowed [rows, cols] matrix; cols contiguous, rows `row_stride` elements apart.
template <class T>
struct Mat {
  T* data;
  int32_t rows;
  int32_t cols;
  int64_t row_stride;

  [[gnu::always_inline]] T* row(int32_t r) const {
    PAGODA_DCHECK(0 <= r && r < rows);
    return data + r * row_stride;
  }
};

/// A half-open range of rows, tokens or heads that one thread works on.
struct Range {
  int32_t begin;
  int32_t end;
  [[gnu::always_inline]] int32_t size() const { return end - begin; }
  [[gnu::always_inline]] bool empty() const { return begin >= end; }
};

}  // namespace pagoda
