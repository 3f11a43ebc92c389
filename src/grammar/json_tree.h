#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace pagoda::grammar {

/// JSON as it was written: numbers keep their text, so no digit is lost.
struct JsonValue {
  enum class Type : uint8_t { kNull, kBoolean, kNumber, kString, kArray, kObject };
  Type type = Type::kNull;
  bool boolean = false;
  std::string text{};                                        // a string's value, a number's text
  std::vector<JsonValue> items{};                            // arrays
  std::vector<std::pair<std::string, JsonValue>> members{};  // objects; of equal names the last, as readers do

  bool is(Type t) const { return type == t; }
  /// The member of that name, or nullptr (also where this is no object).
  const JsonValue* find(std::string_view name) const;
};

inline constexpr int32_t kJsonDepthMax = 256;

/// Errors: kInvalidRequest with the offset, kTooLarge beyond kJsonDepthMax arrays and objects inside one another.
Result<JsonValue> parse_json_tree(std::string_view text);

/// Equal as JSON Schema means it: numbers by value, objects without order.
bool same_json(const JsonValue& a, const JsonValue& b);

/// One part of a JSON pointer: ~ and / written as ~0 and ~1.
std::string pointer_token(std::string_view name);

}  // namespace pagoda::grammar
