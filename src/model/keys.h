#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "weights/gguf.h"

namespace pagoda::model {

// Far above any real model; what a file claims beyond them is damage, and sizes computed from them stay in 63 bits.
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxWidth = 1 << 20;
inline constexpr int64_t kMaxContext = 1 << 28;  // tokens

/// The `{arch}.*` keys of one file; names are given without the prefix. Errors: kCorruptFile naming the key, its value
/// and the limit.
class Keys {
 public:
  /// `file` must outlive the keys.
  Keys(const weights::GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  std::string key(const char* name) const { return prefix_ + name; }
  bool has(const char* name) const { return file_.find(key(name)) != nullptr; }

  /// An integer in [low, high].
  Result<int32_t> integer(const char* name, int64_t low, int64_t high) const;
  Result<int32_t> integer_or(const char* name, int64_t fallback, int64_t low, int64_t high) const;
  /// Integers in [1, high]: one value for all layers, or one a layer.
  Result<std::vector<int32_t>> per_layer(const char* name, int32_t layers, int64_t high) const;
  /// A finite number > 0.
  Result<double> positive(const char* name) const;
  Result<double> positive_or(const char* name, double fallback) const;
  /// A finite number.
  Result<double> number_or(const char* name, double fallback) const;
  /// A finite number >= 0.
  Result<double> zero_or_more(const char* name, double fallback) const;
  Result<bool> flag_or(const char* name, bool fallback) const;
  Result<std::string_view> string_or(const char* name, std::string_view fallback) const;

 private:
  Result<int32_t> in_range(const char* name, int64_t value, int64_t low, int64_t high) const;
  Error no_number(const char* name, double value, const char* expected) const;
  const weights::GgufFile& file_;
  std::string prefix_;
};

}  // namespace pagoda::model
