#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace pagoda::grammar {

/// Sequences of numbers <-> small ids, in order of first sight.
class Interner {
 public:
  /// The id of `key`; `fresh` tells whether it is new.
  int32_t intern(std::span<const int32_t> key, bool& fresh) {
    uint64_t hash = 0x9E3779B97F4A7C15ull + key.size();
    for (const int32_t value : key) {
      hash ^= static_cast<uint32_t>(value);
      hash *= 0xFF51AFD7ED558CCDull;
      hash ^= hash >> 32;
    }
    auto [begin, end] = index_.equal_range(hash);
    for (; begin != end; ++begin) {
      const auto known = at(begin->second);
      if (std::equal(known.begin(), known.end(), key.begin(), key.end())) {
        fresh = false;
        return begin->second;
      }
    }
    const auto id = static_cast<int32_t>(starts_.size()) - 1;
    values_.insert(values_.end(), key.begin(), key.end());
    starts_.push_back(values_.size());
    index_.emplace(hash, id);
    fresh = true;
    return id;
  }
  std::span<const int32_t> at(int32_t id) const {
    const auto i = static_cast<size_t>(id);
    return std::span(values_).subspan(starts_[i], starts_[i + 1] - starts_[i]);
  }
  int32_t size() const { return static_cast<int32_t>(starts_.size()) - 1; }
  static int64_t bytes_of(size_t length) { return static_cast<int64_t>(length * sizeof(int32_t) + 64); }

 private:
  std::vector<int32_t> values_;
  std::vector<size_t> starts_{0};
  std::unordered_multimap<uint64_t, int32_t> index_;
};

}  // namespace pagoda::grammar
