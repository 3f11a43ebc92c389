#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace pagoda::weights {

/// The name of one file of a split model: "<stem>-00001-of-00003.gguf".
struct SplitName {
  std::string stem;  // what stands before, folder included
  int64_t part;      // from 1
  int64_t parts;
};

/// Nothing if `path` does not end so.
std::optional<SplitName> split_name(const std::string& path);

/// The path of part `part` (from 1) of `parts`.
std::string part_path(const std::string& stem, int64_t part, int64_t parts);

}  // namespace pagoda::weights
