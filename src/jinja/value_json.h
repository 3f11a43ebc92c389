#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "core/result.h"
#include "jinja/runtime.h"
#include "jinja/value.h"

namespace pagoda::jinja {

constexpr int32_t kJsonNestingMax = 128;  // arrays and objects inside each other

/// JSON as template values. Every string, keys included, is marked as coming from the input unless `trusted`.
/// Errors: kInvalidRequest for text that is no JSON, nests deeper than kJsonNestingMax, or holds an integer beyond 64
/// bits.
Result<Value> from_json(std::string_view text, bool trusted = false);
/// Refuses text whose brackets nest deeper than kJsonNestingMax, before a parser builds values as deep.
Status check_json_depth(std::string_view text);
Result<Value> to_value(const nlohmann::ordered_json& json, bool trusted = false);

/// A copy of the dict `context` with `key` set; for what the caller vouches for, such as the BOS token's text.
Value with_entry(const Value& context, std::string_view key, Value value);

struct JsonStyle {
  bool ascii = false;  // escape what is not ASCII
  bool html = false;   // escape < > & ' as jinja2's htmlsafe_json_dumps does
  bool sort_keys = false;
  std::string_view item_separator = ", ";
  std::string_view key_separator = ": ";
  const Str* indent = nullptr;  // a level's indentation; null for one line
};

/// Appends json.dumps(value). Errors: what is not JSON serializable, the budget.
Status append_json(Runtime& rt, const Value& value, const JsonStyle& style, int32_t level, Builder& out);

}  // namespace pagoda::jinja
