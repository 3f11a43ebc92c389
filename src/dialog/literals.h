#pragma once
#include "dialog/cursor.h"
#include "dialog/tool_set.h"

namespace pagoda::dialog {

// Values of argument lists that are no JSON. White space before the value is skipped; the cursor ends behind it, which
// may be in the middle of a value if the answer is not kYes. Nesting is limited to 32 levels.

/// A Python literal: strings in ' or ", numbers, True, False, None (and JSON's words), lists, tuples, dictionaries.
Match read_python(Cursor& cursor, Json& value);

/// Gemma's notation: strings between <|"|>, numbers, true, false, null, [..], {key:value} with bare or quoted keys.
Match read_gemma(Cursor& cursor, Json& value);

/// A run of characters of a name: letters, digits, "_", "-", "." and "/".
std::string_view read_name(Cursor& cursor);

}  // namespace pagoda::dialog
