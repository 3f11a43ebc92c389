#include "grammar/json_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "grammar/decimal.h"

namespace pagoda::grammar {
namespace {

// nlohmann's events -> JsonValue. Its parser keeps no call stack of its own, so depth costs only what we allow.
class TreeBuilder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return put({}), true; }
  bool boolean(bool value) {
    JsonValue v;
    v.type = JsonValue::Type::kBoolean;
    v.boolean = value;
    return put(std::move(v)), true;
  }
  bool number_integer(number_integer_t value) { return number(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) { return number(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) { return number(text); }
  bool string(string_t& text) {
    JsonValue v;
    v.type = JsonValue::Type::kString;
    v.text = std::move(text);
    return put(std::move(v)), true;
  }
  bool binary(binary_t&) { return false; }
  bool start_object(size_t) { return open(JsonValue::Type::kObject); }
  bool start_array(size_t) { return open(JsonValue::Type::kArray); }
  bool key(string_t& name) {
    keys_.back() = std::move(name);
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    error = Error{Code::kInvalidRequest, fmt::format("not valid JSON at byte {}", position),
                  fmt::format("byte {}", position)};
    return false;
  }

  JsonValue root;
  Error error{Code::kInvalidRequest, ""};

 private:
  bool number(std::string text) {
    JsonValue v;
    v.type = JsonValue::Type::kNumber;
    v.text = std::move(text);
    return put(std::move(v)), true;
  }
  JsonValue& put(JsonValue value) {
    if (open_.empty()) return root = std::move(value);
    JsonValue& parent = *open_.back();
    if (parent.is(JsonValue::Type::kArray)) return parent.items.emplace_back(std::move(value));
    for (auto& [name, known] : parent.members)
      if (name == keys_.back()) return known = std::move(value);
    return parent.members.emplace_back(keys_.back(), std::move(value)).second;
  }
  bool open(JsonValue::Type type) {
    if (open_.size() >= static_cast<size_t>(kJsonDepthMax)) {
      error = Error{Code::kTooLarge, fmt::format("JSON is nested more than {} deep", kJsonDepthMax), "nesting"};
      return false;
    }
    JsonValue v;
    v.type = type;
    // A parent grows only while it is the innermost one, so the pointers to those around it stay.
    open_.push_back(&put(std::move(v)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  std::vector<JsonValue*> open_;
  std::vector<std::string> keys_;  // [open_]: the member that comes next
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view name) const {
  for (const auto& [known, value] : members)
    if (known == name) return &value;
  return nullptr;
}

Result<JsonValue> parse_json_tree(std::string_view text) {
  TreeBuilder builder;
  if (!nlohmann::json::sax_parse(text, &builder)) return builder.error;
  return std::move(builder.root);
}

bool same_json(const JsonValue& a, const JsonValue& b) {
  if (a.type != b.type) return false;
  switch (a.type) {
    case JsonValue::Type::kNull:
      return true;
    case JsonValue::Type::kBoolean:
      return a.boolean == b.boolean;
    case JsonValue::Type::kNumber:
      return Decimal::parse(a.text) == Decimal::parse(b.text);
    case JsonValue::Type::kString:
      return a.text == b.text;
    case JsonValue::Type::kArray:
      return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), same_json);
    case JsonValue::Type::kObject:
      return a.members.size() == b.members.size() &&
             std::all_of(a.members.begin(), a.members.end(), [&b](const auto& member) {
               const JsonValue* other = b.find(member.first);
               return other != nullptr && same_json(member.second, *other);
             });
  }
  return false;
}

std::string pointer_token(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

}  // namespace pagoda::grammar
