// Filters on HTML, URLs and JSON.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/filters.h"
#include "jinja/repr.h"
#include "jinja/text_ops.h"
#include "jinja/value_json.h"

namespace pagoda::jinja {
namespace {

Result<Value> escape_filter(Runtime& rt, Call& call) { return escape(rt, call.self); }

Result<Value> force_escape(Runtime& rt, Call& call) {
  PAGODA_TRY(Str text, to_str(rt, call.self));
  return escape(rt, rt.str(std::move(text)));
}

Result<Value> safe(Runtime& rt, Call& call) {
  PAGODA_TRY(Str text, to_str(rt, call.self));
  return rt.str(std::move(text), true);
}

struct Entity {
  std::string_view name;
  char32_t code_point;
};

constexpr Entity kEntities[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}, {"nbsp", 0xA0}};

// The character that "&name;" or "&#number;" stands for; 0 if it is none we know.
char32_t entity(std::string_view name) {
  for (const Entity& known : kEntities)
    if (known.name == name) return known.code_point;
  if (name.size() < 2 || name.size() > 8 || name[0] != '#') return 0;
  const bool hex = name[1] == 'x' || name[1] == 'X';
  char32_t number = 0;
  for (const char c : name.substr(hex ? 2 : 1)) {
    const int digit = c >= '0' && c <= '9'                        ? c - '0'
                      : hex && (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                                  : 99;
    if (digit > 15) return 0;
    number = number * (hex ? 16 : 10) + static_cast<char32_t>(digit);
  }
  return number < 0x110000 && (number < 0xD800 || number > 0xDFFF) ? number : 0;
}

Str unescape(Runtime& rt, const Str& text) {
  const std::string_view bytes = text.view();
  Builder out(rt);
  size_t clean = 0;
  for (size_t pos = bytes.find('&'); pos != std::string_view::npos; pos = bytes.find('&', pos + 1)) {
    const size_t end = bytes.substr(pos, 12).find(';');
    if (end == std::string_view::npos) continue;
    const char32_t c = entity(bytes.substr(pos + 1, end - 1));
    if (c == 0) continue;
    std::string piece;
    utf8::append(piece, c);
    out.add(text, clean, pos - clean);
    out.add(piece, text.from_input(pos));
    clean = pos + end + 1;
  }
  out.add(text, clean, bytes.size() - clean);
  return out.take();
}

// markupsafe's striptags(): comments and tags out, white space collapsed, entities resolved.
Result<Value> striptags(Runtime& rt, Call& call) {
  PAGODA_TRY(Str text, to_str(rt, call.self));
  for (const auto& [open, close] : {std::pair<std::string_view, std::string_view>{"<!--", "-->"}, {"<", ">"}}) {
    Str kept;
    size_t pos = 0;
    for (;;) {
      const size_t begin = text.view().find(open, pos);
      const size_t end = begin == std::string_view::npos ? begin : text.view().find(close, begin);
      if (end == std::string_view::npos) break;
      kept.append(text, pos, begin - pos);
      pos = end + close.size();
    }
    kept.append(text, pos, text.size() - pos);
    text = std::move(kept);
  }
  PAGODA_TRY(const std::vector<Str> words, split(rt, text, std::nullopt, -1, false));
  Str joined;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) joined.append(" ", false);
    joined.append(words[i]);
  }
  return rt.str(unescape(rt, joined));
}

Result<Value> xmlattr(Runtime& rt, Call& call) {
  if (!call.self.is_dict()) return failed(in_quotes(type_name(call.self)) + " object has no attribute 'items'");
  Builder out(rt);
  const bool autospace = !call.has(0) || call.flag(0);
  bool first = true;
  for (const auto& [key, value] : call.self.dict().entries) {
    if (value.is_none() || value.is_undefined()) continue;
    if (!key.is_string()) return failed("expected string or bytes-like object, got " + in_quotes(type_name(key)));
    if (key.view().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos)
      return failed("Invalid character in attribute name: " + short_repr(rt, key));
    if (!std::exchange(first, false) || autospace) out.add(" ");
    PAGODA_TRY(const Value name, escape(rt, key));
    PAGODA_TRY(const Value text, escape(rt, value));
    out.add(name.as_str());
    out.add("=\"");
    out.add(text.as_str());
    out.add("\"");
  }
  return rt.str(out.take(), rt.autoescape);
}

Status append_quoted_url(Runtime& rt, const Value& value, bool query, Builder& out) {
  PAGODA_TRY(const Str text, to_str(rt, value));
  for (size_t pos = 0; pos < text.size(); ++pos) {
    const char c = text.view()[pos];
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                       c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain) {
      out.add(text, pos, 1);
    } else if (c == ' ' && query) {
      out.add("+", text.from_input(pos));
    } else {
      out.add(fmt::format("%{:02X}", static_cast<unsigned char>(c)), text.from_input(pos));
    }
  }
  return ok_status();
}

Result<Value> urlencode(Runtime& rt, Call& call) {
  Builder out(rt);
  if (!call.self.is_dict() && !call.self.is_list()) {
    PAGODA_TRY_STATUS(append_quoted_url(rt, call.self, false, out));
    return rt.str(out.take());
  }
  std::vector<std::pair<Value, Value>> pairs;
  if (call.self.is_dict()) {
    pairs = call.self.dict().entries;
  } else {
    PAGODA_TRY(const std::vector<Value> items, rt.to_vector(call.self));
    for (const Value& item : items) {
      PAGODA_TRY(const std::vector<Value> pair, rt.to_vector(item));
      if (pair.size() != 2) return failed("urlencode needs pairs");
      pairs.emplace_back(pair[0], pair[1]);
    }
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (i > 0) out.add("&");
    PAGODA_TRY_STATUS(append_quoted_url(rt, pairs[i].first, true, out));
    out.add("=");
    PAGODA_TRY_STATUS(append_quoted_url(rt, pairs[i].second, true, out));
  }
  return rt.str(out.take());
}

// ---- tojson ----

Result<Str> json_indent(Runtime& rt, const Value& indent) {
  if (indent.is_string()) return indent.as_str();
  if (!indent.is_integral())
    return failed("indent must be an integer or a string, not " + in_quotes(type_name(indent)));
  const int64_t blanks = std::max<int64_t>(indent.as_int(), 0);
  PAGODA_TRY_STATUS(rt.reserve(blanks));
  return Str(std::string(static_cast<size_t>(blanks), ' '), false);
}

// jinja2: tojson(indent). transformers: tojson(ensure_ascii, indent, separators, sort_keys).
Result<Value> tojson(Runtime& rt, Call& call) {
  const bool plain = rt.environment().json_html_escape;
  JsonStyle style{.ascii = plain, .html = plain, .sort_keys = plain};
  Args& args = call.raw;
  const std::vector<std::string_view> names =
      plain ? std::vector<std::string_view>{"indent"}
            : std::vector<std::string_view>{"ensure_ascii", "indent", "separators", "sort_keys"};
  if (args.positional.size() > names.size())
    return failed("tojson() takes at most " + std::to_string(names.size()) + " arguments");
  for (size_t i = 0; i < args.positional.size(); ++i) args.named.emplace_back(names[i], args.positional[i]);
  Str indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool own_separators = false;
  for (const auto& [name, value] : args.named) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      return failed("tojson() got an unexpected keyword argument " + in_quotes(name));
    if (name == "ensure_ascii") style.ascii = truthy(value);
    if (name == "sort_keys") style.sort_keys = truthy(value);
    if (name == "indent" && !value.is_none()) {
      PAGODA_TRY(indent, json_indent(rt, value));
      style.indent = &indent;
    }
    if (name == "separators" && !value.is_none()) {
      PAGODA_TRY(const std::vector<Value> pair, rt.to_vector(value));
      if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
        return failed("separators must be two strings");
      item_separator = pair[0].view();
      key_separator = pair[1].view();
      own_separators = true;
    }
  }
  if (style.indent != nullptr && !own_separators) item_separator = ",";
  style.item_separator = item_separator;
  style.key_separator = key_separator;
  if (call.self.is_undefined()) return failed("Object of type Undefined is not JSON serializable");
  Builder out(rt);
  PAGODA_TRY_STATUS(append_json(rt, call.self, style, 0, out));
  return rt.str(out.take(), plain);
}

constexpr Builtin kHtmlFilters[] = {
    {"e", "", 0, escape_filter},     {"escape", "", 0, escape_filter},     {"forceescape", "", 0, force_escape},
    {"safe", "", 0, safe},           {"striptags", "", 0, striptags},      {"tojson", "*", 0, tojson},
    {"urlencode", "", 0, urlencode}, {"xmlattr", "autospace", 0, xmlattr},
};

}  // namespace

std::span<const Builtin> html_filters() { return kHtmlFilters; }

}  // namespace pagoda::jinja
