#pragma once
#include <string>
#include <string_view>

#include "core/result.h"
#include "jinja/runtime.h"
#include "jinja/value.h"

namespace pagoda::jinja {

/// 'name' in quotes, for messages.
std::string in_quotes(std::string_view name);
/// Python's repr() of a float: the shortest digits that read back as the same number.
std::string float_repr(double d);
/// repr() cut to a message's length.
std::string short_repr(Runtime& rt, const Value& value);

/// Appends Python's repr(value). Error: budget.
Status append_repr(Runtime& rt, const Value& value, Builder& out);
/// Appends Python's str(value); undefined prints as its kind says. Errors: budget, a strict undefined.
Status append_str(Runtime& rt, const Value& value, Builder& out);
/// str(value) as a string Value; a string (marked safe or not) is returned as it is.
Result<Value> soft_str(Runtime& rt, const Value& value);
/// str(value) as bytes with origin.
Result<Str> to_str(Runtime& rt, const Value& value);
/// HTML-escapes & < > ' " of `text`.
void append_escaped(const Str& text, Builder& out);
/// Jinja's escape(): escaped text marked safe; what is marked safe already is returned unchanged.
Result<Value> escape(Runtime& rt, const Value& value);

}  // namespace pagoda::jinja
