#pragma once
#include <string_view>

#include "core/result.h"
#include "grammar/pattern.h"

namespace pagoda::grammar {

/// The code points of a Unicode general category by short or long name ("L", "Lu", "Letter", "Uppercase_Letter", also
/// after "gc=" or "General_Category="), of "ASCII" and of "Any". Error kUnsupported names what is not known (scripts).
Result<CodeSet> general_category(std::string_view name);

}  // namespace pagoda::grammar
