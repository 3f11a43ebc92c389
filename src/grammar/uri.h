#pragma once
#include <string>
#include <string_view>

namespace pagoda::grammar {

/// `reference` resolved against `base` (RFC 3986 section 5.2), without its fragment.
std::string resolve_uri(std::string_view base, std::string_view reference);

/// %41 -> A; what is no such sequence stays.
std::string percent_decoded(std::string_view text);

}  // namespace pagoda::grammar
