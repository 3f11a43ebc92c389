#include "jinja/value_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "jinja/repr.h"
#include "jinja/utf8.h"

namespace pagoda::jinja {
namespace {

using Json = nlohmann::ordered_json;

Result<Value> convert(const Json& json, bool trusted, int32_t level);

Result<Value> convert_array(const Json& json, bool trusted, int32_t level) {
  std::vector<Value> items;
  items.reserve(json.size());
  int32_t nesting = 0;
  for (const Json& item : json) {
    PAGODA_TRY(Value value, convert(item, trusted, level + 1));
    nesting = std::max(nesting, value.nesting() + 1);
    items.push_back(std::move(value));
  }
  auto list = std::make_shared<ListObject>(ListKind::kList, std::move(items));
  list->nesting = nesting;
  return Value::of(Kind::kList, std::move(list));
}

Result<Value> convert_object(const Json& json, bool trusted, int32_t level) {
  auto dict = std::make_shared<DictObject>();
  for (const auto& [key, item] : json.items()) {
    PAGODA_TRY(Value value, convert(item, trusted, level + 1));
    dict->set(Value::string(key, !trusted), std::move(value));
  }
  return Value::of(Kind::kDict, std::move(dict));
}

Result<Value> convert(const Json& json, bool trusted, int32_t level) {
  if (level > kJsonNestingMax) return failed(fmt::format("JSON nests deeper than {} levels", kJsonNestingMax));
  switch (json.type()) {
    case Json::value_t::null:
      return Value::none();
    case Json::value_t::boolean:
      return Value::boolean(*json.get_ptr<const Json::boolean_t*>());
    case Json::value_t::number_integer:
      return Value::integer(*json.get_ptr<const Json::number_integer_t*>());
    case Json::value_t::number_unsigned: {
      const uint64_t number = *json.get_ptr<const Json::number_unsigned_t*>();
      if (number > static_cast<uint64_t>(INT64_MAX))
        return failed(fmt::format("the integer {} needs more than 64 bits", number));
      return Value::integer(static_cast<int64_t>(number));
    }
    case Json::value_t::number_float:
      return Value::real(*json.get_ptr<const Json::number_float_t*>());
    case Json::value_t::string:
      return Value::string(*json.get_ptr<const Json::string_t*>(), !trusted);
    case Json::value_t::array:
      return convert_array(json, trusted, level);
    case Json::value_t::object:
      return convert_object(json, trusted, level);
    default:
      return failed("not a JSON value");
  }
}

void append_json_char(const Str& str, size_t pos, size_t bytes, const JsonStyle& style, Builder& out) {
  const uint32_t c = utf8::decode(str.view(), pos);
  const bool from_input = str.from_input(pos);
  const bool html = style.html && (c == '<' || c == '>' || c == '&' || c == '\'');
  if (c == '"' || c == '\\') {
    out.add("\\", from_input);
    out.add(str, pos, bytes);
  } else if (c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f') {
    out.add(c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : c == '\b' ? "\\b" : "\\f", from_input);
  } else if (c < 0x20 || html || (style.ascii && c >= 0x7F && c < 0x10000)) {
    if (c == 0x7F && !html) return out.add(str, pos, bytes);
    out.add(fmt::format("\\u{:04x}", c), from_input);
  } else if (style.ascii && c >= 0x10000) {
    const uint32_t rest = c - 0x10000;
    out.add(fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF)), from_input);
  } else {
    out.add(str, pos, bytes);
  }
}

void append_json_string(const Str& str, const JsonStyle& style, Builder& out) {
  out.add("\"");
  for (size_t pos = 0; pos < str.size();) {
    const size_t bytes = utf8::char_bytes(str.view(), pos);
    append_json_char(str, pos, bytes, style, out);
    pos += bytes;
  }
  out.add("\"");
}

void append_break(const JsonStyle& style, int32_t level, Builder& out) {
  if (style.indent == nullptr) return;
  out.add("\n");
  for (int32_t i = 0; i < level; ++i) out.add(*style.indent);
}

std::string json_float(double d) {
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
  return float_repr(d);
}

// Keys as json.dumps writes them; missing for a type it refuses.
Value key_text(const Value& key) {
  switch (key.kind()) {
    case Kind::kString:
      return key;
    case Kind::kBool:
      return Value::string(key.as_int() != 0 ? "true" : "false");
    case Kind::kInt:
      return Value::string(std::to_string(key.as_int()));
    case Kind::kFloat:
      return Value::string(json_float(key.as_float()));
    case Kind::kNone:
      return Value::string("null");
    default:
      return Value();
  }
}

Status append_object(Runtime& rt, const DictObject& dict, const JsonStyle& style, int32_t level, Builder& out) {
  if (dict.entries.empty()) {
    out.add("{}");
    return ok_status();
  }
  std::vector<std::pair<Value, const Value*>> entries;
  for (const auto& [key, value] : dict.entries) {
    entries.emplace_back(key_text(key), &value);
    if (entries.back().first.is_missing())
      return failed("keys must be str, int, float, bool or None, not " + type_name(key));
  }
  if (style.sort_keys)
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto& a, const auto& b) { return a.first.view() < b.first.view(); });
  out.add("{");
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) out.add(style.item_separator);
    append_break(style, level + 1, out);
    append_json_string(entries[i].first.as_str(), style, out);
    out.add(style.key_separator);
    PAGODA_TRY_STATUS(append_json(rt, *entries[i].second, style, level + 1, out));
  }
  append_break(style, level, out);
  out.add("}");
  return ok_status();
}

Status append_array(Runtime& rt, const std::vector<Value>& items, const JsonStyle& style, int32_t level, Builder& out) {
  if (items.empty()) {
    out.add("[]");
    return ok_status();
  }
  out.add("[");
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.add(style.item_separator);
    append_break(style, level + 1, out);
    PAGODA_TRY_STATUS(append_json(rt, items[i], style, level + 1, out));
  }
  append_break(style, level, out);
  out.add("]");
  return ok_status();
}

bool is_json_array(const Value& value) {
  if (!value.is_list()) return false;
  const ListKind kind = value.list().kind;
  return kind == ListKind::kList || kind == ListKind::kTuple || kind == ListKind::kGroup;
}

}  // namespace

Status check_json_depth(std::string_view text) {
  int32_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kJsonNestingMax) return failed(fmt::format("JSON nests deeper than {} levels", kJsonNestingMax));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return ok_status();
}

Result<Value> from_json(std::string_view text, bool trusted) {
  PAGODA_TRY_STATUS(check_json_depth(text));
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return failed("not valid JSON");
  return to_value(json, trusted);
}

Result<Value> to_value(const nlohmann::ordered_json& json, bool trusted) { return convert(json, trusted, 0); }

Value with_entry(const Value& context, std::string_view key, Value value) {
  auto dict = std::make_shared<DictObject>();
  for (const auto& [name, item] : context.dict().entries) dict->set(name, item);
  dict->set(Value::string(std::string(key)), std::move(value));
  return Value::of(Kind::kDict, std::move(dict));
}

Status append_json(Runtime& rt, const Value& value, const JsonStyle& style, int32_t level, Builder& out) {
  PAGODA_TRY_STATUS(rt.step());
  switch (value.kind()) {
    case Kind::kNone:
      out.add("null");
      return ok_status();
    case Kind::kBool:
      out.add(value.as_int() != 0 ? "true" : "false");
      return ok_status();
    case Kind::kInt:
      out.add(std::to_string(value.as_int()));
      return ok_status();
    case Kind::kFloat:
      out.add(json_float(value.as_float()));
      return ok_status();
    case Kind::kString:
      append_json_string(value.as_str(), style, out);
      return ok_status();
    case Kind::kDict:
      return append_object(rt, value.dict(), style, level, out);
    case Kind::kList:
      if (is_json_array(value)) return append_array(rt, value.items(), style, level, out);
      break;
    default:
      break;
  }
  return failed("Object of type " + type_name(value) + " is not JSON serializable");
}

}  // namespace pagoda::jinja
