#pragma once
#include "core/result.h"
#include "jinja/runtime.h"
#include "jinja/value.h"

namespace pagoda::jinja {

/// Python's `format % args`. Errors: argument count and types, an unknown conversion, the budget.
Result<Value> percent_format(Runtime& rt, const Value& format, const Value& args);

/// Python's str.format(); fields reach attributes and items through the sandbox. Errors as percent_format.
Result<Value> brace_format(Runtime& rt, const Value& format, const Args& args);

}  // namespace pagoda::jinja
