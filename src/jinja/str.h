#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagoda::jinja {

/// Bytes that remember where they came from: out of the rendering context (what users wrote) or out of the template.
///
/// The origin is kept as the positions where it flips, so a string of one origin costs nothing extra, and every
/// operation that copies bytes copies their origin with them. Comparison and hashing look at the bytes alone.
class Str {
 public:
  Str() = default;
  Str(std::string bytes, bool from_input) : bytes_(std::move(bytes)) {
    if (from_input && !bytes_.empty()) flips_.push_back(0);
  }

  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  /// Bytes of memory beyond the object itself.
  size_t heap_bytes() const { return bytes_.capacity() + flips_.capacity() * sizeof(size_t); }

  /// Origin of byte `pos`, pos < size().
  bool from_input(size_t pos) const {
    return (std::upper_bound(flips_.begin(), flips_.end(), pos) - flips_.begin()) % 2 == 1;
  }
  /// Origin of the first byte; false for an empty string.
  bool starts_from_input() const { return !flips_.empty() && flips_.front() == 0; }

  void append(std::string_view bytes, bool from_input) {
    if (bytes.empty()) return;
    if ((flips_.size() % 2 == 1) != from_input) flips_.push_back(bytes_.size());
    bytes_.append(bytes);
  }
  void append(const Str& other) { append(other, 0, other.size()); }
  /// Appends other[begin, begin + count), which must lie inside it.
  void append(const Str& other, size_t begin, size_t count) {
    other.each_run(begin, count, [this](std::string_view run, bool from_input) { append(run, from_input); });
  }
  Str substr(size_t begin, size_t count) const {
    Str out;
    out.append(*this, begin, count);
    return out;
  }

  /// fn(std::string_view run, bool from_input) for each maximal run of one origin inside [begin, begin + count), in
  /// order.
  template <class Fn>
  void each_run(size_t begin, size_t count, Fn fn) const {
    const size_t end = begin + count;
    auto next = std::upper_bound(flips_.begin(), flips_.end(), begin);
    bool from_input = (next - flips_.begin()) % 2 == 1;
    while (begin < end) {
      const size_t stop = next == flips_.end() ? end : std::min(end, *next);
      fn(std::string_view(bytes_).substr(begin, stop - begin), from_input);
      begin = stop;
      from_input = !from_input;
      if (next != flips_.end()) ++next;
    }
  }
  template <class Fn>
  void each_run(Fn fn) const {
    each_run(0, size(), fn);
  }

 private:
  std::string bytes_;
  std::vector<size_t> flips_;  // ascending; byte i comes from the input if an odd number of entries is <= i
};

}  // namespace pagoda::jinja
