#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace pagoda::jinja {

/// Python's int(text, base): white space, sign, underscores and the base's prefix allowed. Empty for what it refuses
/// and for more than 64 bits.
std::optional<int64_t> parse_int(std::string_view text, int64_t base);
/// Python's float(text): also "inf", "nan" and underscores. Empty for what it refuses.
std::optional<double> parse_float(std::string_view text);

}  // namespace pagoda::jinja
