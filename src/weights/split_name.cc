#include "weights/split_name.h"

#include <fmt/format.h>

#include <string_view>

namespace pagoda::weights {
namespace {

constexpr size_t kDigits = 5;

std::optional<int64_t> five_digits(std::string_view text) {
  int64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  return number;
}

}  // namespace

std::optional<SplitName> split_name(const std::string& path) {
  constexpr std::string_view kOf = "-of-", kEnd = ".gguf";
  constexpr size_t kTail = 1 + kDigits + kOf.size() + kDigits + kEnd.size();
  if (path.size() < kTail) return std::nullopt;
  const std::string_view tail = std::string_view(path).substr(path.size() - kTail);
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf || !tail.ends_with(kEnd)) return std::nullopt;
  const auto part = five_digits(tail.substr(1, kDigits));
  const auto parts = five_digits(tail.substr(1 + kDigits + kOf.size(), kDigits));
  if (!part || !parts) return std::nullopt;
  return SplitName{path.substr(0, path.size() - kTail), *part, *parts};
}

std::string part_path(const std::string& stem, int64_t part, int64_t parts) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", stem, part, parts);
}

}  // namespace pagoda::weights
