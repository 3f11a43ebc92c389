#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

namespace pagoda::text {

inline constexpr uint32_t kNoMerge = 0xFFFFFFFF;

/// Merges neighbouring symbols, the lowest rank first, of equal ranks the leftmost, until no pair has a rank. This is
/// the one loop of byte-level BPE (rank = place in the merge list) and of SentencePiece BPE (rank falls with the
/// score).
///
///   symbols.rank(i, j)   rank of the neighbours i < j, or kNoMerge
///   symbols.merge(i, j)  i takes over j; j is gone
///   next [n]             out: symbol behind i, n at the end; the survivors are 0, next[0], ...
///
/// O(n log n): a heap of (rank, place), whose entries are checked when they come up instead of being removed. Words are
/// short: there a scan is faster than a heap.
template <class Symbols>
void merge_symbols_by_heap(Symbols& symbols, int32_t n, std::vector<int32_t>& next) {
  std::vector<int32_t> prev(static_cast<size_t>(n) + 1);
  std::vector<bool> gone(static_cast<size_t>(n), false);
  std::vector<uint64_t> heap;  // rank << 32 | place
  heap.reserve(static_cast<size_t>(n));
  const auto push = [&](int32_t i) {
    const uint32_t rank = symbols.rank(i, next[static_cast<size_t>(i)]);
    if (rank == kNoMerge) return false;
    heap.push_back(uint64_t{rank} << 32 | static_cast<uint32_t>(i));
    return true;
  };
  const auto push_sorted = [&](int32_t i) {
    if (push(i)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (int32_t i = 0; i < n; ++i) prev[static_cast<size_t>(i) + 1] = i;
  for (int32_t i = 0; i + 1 < n; ++i) push(i);
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const int32_t left = static_cast<int32_t>(top & 0xFFFFFFFF);
    if (gone[static_cast<size_t>(left)]) continue;
    const int32_t right = next[static_cast<size_t>(left)];
    if (right == n || symbols.rank(left, right) != top >> 32) continue;  // one of the two has changed since
    symbols.merge(left, right);
    gone[static_cast<size_t>(right)] = true;
    const int32_t after = next[static_cast<size_t>(right)];
    next[static_cast<size_t>(left)] = after;
    prev[static_cast<size_t>(after)] = left;
    if (after < n) push_sorted(left);
    if (left > 0) push_sorted(prev[static_cast<size_t>(left)]);
  }
}

template <class Symbols>
void merge_symbols_by_scan(Symbols& symbols, int32_t n, std::vector<int32_t>& next, uint32_t* ranks) {
  for (int32_t i = 0; i + 1 < n; ++i) ranks[i] = symbols.rank(i, i + 1);
  ranks[n - 1] = kNoMerge;
  for (;;) {
    int32_t best = 0, before_best = -1;
    for (int32_t i = 0, before = -1; i < n; before = i, i = next[static_cast<size_t>(i)])
      if (ranks[i] < ranks[best]) {
        best = i;
        before_best = before;
      }
    if (ranks[best] == kNoMerge) return;
    const int32_t right = next[static_cast<size_t>(best)];
    symbols.merge(best, right);
    const int32_t after = next[static_cast<size_t>(right)];
    next[static_cast<size_t>(best)] = after;
    ranks[best] = after < n ? symbols.rank(best, after) : kNoMerge;
    if (before_best >= 0) ranks[before_best] = symbols.rank(before_best, best);
  }
}

template <class Symbols>
void merge_symbols(Symbols& symbols, int32_t n, std::vector<int32_t>& next) {
  constexpr int32_t kScanMax = 48;
  next.resize(static_cast<size_t>(n));
  for (int32_t i = 0; i < n; ++i) next[static_cast<size_t>(i)] = i + 1;
  if (n > kScanMax) return merge_symbols_by_heap(symbols, n, next);
  std::array<uint32_t, kScanMax> ranks;
  if (n > 1) merge_symbols_by_scan(symbols, n, next, ranks.data());
}

}  // namespace pagoda::text
