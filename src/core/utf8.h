#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pagoda {

/// One step through UTF-8 bytes: a character, or a maximal ill-formed part (Unicode 15, table 3-7 and "U+FFFD
/// substitution of maximal subparts", which Python and browsers follow).
struct Utf8Step {
  uint32_t code_point;  // 0xFFFD if !valid
  int32_t bytes;        // 1..4 consumed
  bool valid;
};

/// Reads at `pos` < text.size(). Surrogates and over-long forms are ill-formed.
Utf8Step utf8_step(std::string_view text, size_t pos);

/// Index of the first byte that is not part of a valid character; std::string_view::npos if all is valid.
size_t find_invalid_utf8(std::string_view text);

/// `text` with each ill-formed part replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

/// Characters (code points) of `text`; an ill-formed part counts as one.
int64_t count_code_points(std::string_view text);

}  // namespace pagoda
