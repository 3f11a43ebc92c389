#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace pagoda::workload {

/// One choice a factor: row[f] in [0, levels[f]).
using FactorRow = std::vector<int32_t>;

/// Every combination, the last factor changing fastest. levels[f] >= 1.
std::vector<FactorRow> all_rows(const std::vector<int32_t>& levels);

/// Whether a row may be taken.
using RowTest = std::function<bool(const FactorRow&)>;
inline bool any_row(const FactorRow& /*row*/) { return true; }

/// Few rows in which any two values of any two factors meet at least once, if any `possible` row holds both; the first
/// is all zeros, which must be possible. `rows_min` or more: those that pairs do not need are rows that `may_fill`
/// accepts, with most triples that have not met. Deterministic; no row occurs twice, so at most all possible ones.
///
/// Source: greedy choice of the row with most uncovered pairs (Cohen et al. 1997, "The AETG system"), over all rows:
/// O(rows * product of levels), for factors of a few values.
std::vector<FactorRow> pairwise_rows(const std::vector<int32_t>& levels, int32_t rows_min,
                                     const RowTest& may_fill = any_row, const RowTest& possible = any_row);

/// Pairs of values of two factors that some possible row holds and none of `rows`.
int32_t pairs_missing(const std::vector<FactorRow>& rows, const std::vector<int32_t>& levels,
                      const RowTest& possible = any_row);

}  // namespace pagoda::workload
