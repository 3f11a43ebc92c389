#pragma once
#include <span>

#include "jinja/callable.h"

namespace pagoda::jinja {

/// Dispatch tables, sorted by name.
std::span<const Builtin> str_methods();
std::span<const Builtin> dict_methods();
std::span<const Builtin> list_methods();

/// The entry called `name`, or null.
const Builtin* find_in(std::span<const Builtin> table, std::string_view name);

}  // namespace pagoda::jinja
