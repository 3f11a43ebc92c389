#include "workload/covering_set.h"

#include <algorithm>
#include <set>

#include "core/check.h"

namespace pagoda::workload {
namespace {

/// Values of up to three factors that met: factors and values, the third -1 in a pair.
using Tuple = std::vector<int32_t>;

std::vector<Tuple> tuples_of(const FactorRow& row, int32_t size) {
  std::vector<Tuple> found;
  const int32_t n = static_cast<int32_t>(row.size());
  const auto value = [&](int32_t f) { return row[static_cast<size_t>(f)]; };
  for (int32_t a = 0; a < n; ++a)
    for (int32_t b = a + 1; b < n; ++b) {
      if (size == 2) found.push_back({a, value(a), b, value(b)});
      for (int32_t c = b + 1; c < n && size == 3; ++c) found.push_back({a, value(a), b, value(b), c, value(c)});
    }
  return found;
}

std::set<Tuple> pairs_of(const FactorRow& row) {
  const std::vector<Tuple> pairs = tuples_of(row, 2);
  return {pairs.begin(), pairs.end()};
}

/// What rows have covered, in pairs and in triples.
class Coverage {
 public:
  void add(const FactorRow& row) {
    for (const int32_t size : {2, 3})
      for (Tuple& tuple : tuples_of(row, size)) met_.insert(std::move(tuple));
  }
  int64_t fresh(const FactorRow& row, int32_t size) const {
    const std::vector<Tuple> tuples = tuples_of(row, size);
    return std::count_if(tuples.begin(), tuples.end(), [&](const Tuple& t) { return !met_.contains(t); });
  }

 private:
  std::set<Tuple> met_;
};

}  // namespace

std::vector<FactorRow> all_rows(const std::vector<int32_t>& levels) {
  std::vector<FactorRow> rows(1);
  for (const int32_t count : levels) {
    PAGODA_CHECK(count >= 1);
    std::vector<FactorRow> longer;
    for (const FactorRow& row : rows)
      for (int32_t value = 0; value < count; ++value) {
        longer.push_back(row);
        longer.back().push_back(value);
      }
    rows = std::move(longer);
  }
  return rows;
}

std::vector<FactorRow> pairwise_rows(const std::vector<int32_t>& levels, int32_t rows_min, const RowTest& may_fill,
                                     const RowTest& possible) {
  std::vector<FactorRow> left = all_rows(levels), chosen;
  PAGODA_CHECK(possible(left.front()));
  std::erase_if(left, [&](const FactorRow& row) { return !possible(row); });
  Coverage met;
  while (!left.empty()) {
    // Most new pairs; of equals, most new triples; of those, the first.
    size_t best = 0;
    std::pair<int64_t, int64_t> most{-1, -1};
    for (size_t i = 0; i < left.size(); ++i) {
      const std::pair score{met.fresh(left[i], 2), met.fresh(left[i], 3)};
      if (score > most) most = score, best = i;
    }
    if (most.first == 0) {
      if (static_cast<int32_t>(chosen.size()) >= rows_min) break;
      if (std::erase_if(left, [&](const FactorRow& row) { return !may_fill(row); }) > 0) continue;
    }
    met.add(left[best]);
    chosen.push_back(left[best]);
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(best));
  }
  return chosen;
}

int32_t pairs_missing(const std::vector<FactorRow>& rows, const std::vector<int32_t>& levels, const RowTest& possible) {
  std::set<Tuple> wanted;
  for (const FactorRow& row : all_rows(levels))
    if (possible(row)) wanted.merge(pairs_of(row));
  for (const FactorRow& row : rows)
    for (const Tuple& pair : pairs_of(row)) wanted.erase(pair);
  return static_cast<int32_t>(wanted.size());
}

}  // namespace pagoda::workload
