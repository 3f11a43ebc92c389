#pragma once
#include <string>
#include <string_view>

#include "core/result.h"

namespace pagoda::jinja {

/// The text between a literal's quotes with Python's escapes resolved; unknown escapes stay as written.
/// Errors: a truncated or out-of-range \x, \u or \U, and \N{...}, which would need the table of character names.
Result<std::string> unescape_literal(std::string_view text);

}  // namespace pagoda::jinja
