#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "jinja/callable.h"
#include "jinja/runtime.h"

namespace pagoda::jinja {

/// Dispatch tables by subject, each sorted by name. Source: jinja2.filters.FILTERS.
std::span<const Builtin> text_filters();
std::span<const Builtin> html_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> selecting_filters();

/// Jinja's attribute paths "a.b.0", followed item by item.
class AttributePath {
 public:
  static AttributePath parse(Runtime& rt, const Value& path);  // a string, an integer, or none for the item itself
  /// `absent` replaces an undefined step, if it is not missing.
  Result<Value> get(Runtime& rt, const Value& item, const Value& absent = Value()) const;

 private:
  std::vector<Value> parts_;
};

/// Strings in lower case for comparison, other values as they are.
Value fold_case(Runtime& rt, const Value& value);

}  // namespace pagoda::jinja
