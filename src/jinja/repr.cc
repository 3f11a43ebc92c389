#include "jinja/repr.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "jinja/loop.h"
#include "jinja/utf8.h"

namespace pagoda::jinja {
namespace {

Status append_items(Runtime& rt, const std::vector<Value>& items, Builder& out) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.add(", ");
    PAGODA_TRY_STATUS(append_repr(rt, items[i], out));
  }
  return ok_status();
}

Status append_list(Runtime& rt, const Value& value, Builder& out) {
  const ListObject& list = value.list();
  switch (list.kind) {
    case ListKind::kList:
      out.add("[");
      PAGODA_TRY_STATUS(append_items(rt, list.items, out));
      out.add("]");
      return ok_status();
    case ListKind::kTuple:
    case ListKind::kGroup:
      out.add("(");
      PAGODA_TRY_STATUS(append_items(rt, list.items, out));
      out.add(list.items.size() == 1 ? ",)" : ")");
      return ok_status();
    case ListKind::kRange:
      out.add(fmt::format("range({}, {}", list.range[0], list.range[1]));
      out.add(list.range[2] == 1 ? ")" : fmt::format(", {})", list.range[2]));
      return ok_status();
    case ListKind::kIterator:
      out.add(fmt::format("<{} object>", list.iterator_type));
      return ok_status();
    case ListKind::kKeys:
    case ListKind::kValues:
    case ListKind::kItems:
      out.add(type_name(value));
      out.add("([");
      PAGODA_TRY_STATUS(append_items(rt, list.items, out));
      out.add("])");
      return ok_status();
  }
  return ok_status();
}

Status append_dict(Runtime& rt, const DictObject& dict, Builder& out) {
  out.add("{");
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!std::exchange(first, false)) out.add(", ");
    PAGODA_TRY_STATUS(append_repr(rt, key, out));
    out.add(": ");
    PAGODA_TRY_STATUS(append_repr(rt, value, out));
  }
  out.add("}");
  return ok_status();
}

// Python's choice: single quotes, unless the text has some and no double ones.
void append_string_repr(const Str& str, Builder& out) {
  const std::string_view text = str.view();
  const bool doubled = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  out.add(std::string_view(&quote, 1));
  for (size_t pos = 0; pos < text.size();) {
    const size_t bytes = utf8::char_bytes(text, pos);
    const char32_t c = utf8::decode(text, pos);
    const bool from_input = str.from_input(pos);
    if (c == static_cast<unsigned char>(quote) || c == '\\') {
      out.add("\\", from_input);
      out.add(str, pos, bytes);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out.add(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", from_input);
    } else if (utf8::is_printable(c)) {
      out.add(str, pos, bytes);
    } else {
      const uint32_t code = c;
      out.add(code < 0x100     ? fmt::format("\\x{:02x}", code)
              : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                               : fmt::format("\\U{:08x}", code),
              from_input);
    }
    pos += bytes;
  }
  out.add(std::string_view(&quote, 1));
}

Status append_namespace(Runtime& rt, const Value& value, Builder& out) {
  PAGODA_TRY_STATUS(rt.enter());  // a namespace may hold itself
  out.add("<Namespace ");
  Status status = append_dict(rt, value.dict(), out);
  out.add(">");
  rt.leave();
  return status;
}

Status append_undefined(Runtime& rt, const Value& value, Builder& out) {
  switch (rt.environment().undefined) {
    case Undefined::kStrict:
      return undefined_error(value);
    case Undefined::kDebug:
      out.add("{{ " + value.undefined().debug + " }}");
      return ok_status();
    default:
      return ok_status();
  }
}

}  // namespace

std::string in_quotes(std::string_view name) { return fmt::format("'{}'", name); }

std::string float_repr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  if (d == 0) return std::signbit(d) ? "-0.0" : "0.0";
  char buffer[64];
  const auto scientific = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(scientific.ptr - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  const char* digits = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits, scientific.ptr, exponent);
  if (exponent < -4 || exponent >= 16) {
    return fmt::format("{}e{}{:02d}", text.substr(0, e), exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  char plain[64];
  const auto fixed = std::to_chars(plain, plain + sizeof plain, d, std::chars_format::fixed);
  std::string out(plain, fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string short_repr(Runtime& rt, const Value& value) {
  constexpr size_t kMessageBytes = 200;
  Builder out(rt);
  if (!append_repr(rt, value, out).ok()) return "...";
  std::string text(out.str().view());
  if (text.size() > kMessageBytes) text = text.substr(0, utf8::offset(text, 60)) + "...";
  return text;
}

Status append_repr(Runtime& rt, const Value& value, Builder& out) {
  PAGODA_TRY_STATUS(rt.step());
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kNone:
      out.add("None");
      return ok_status();
    case Kind::kUndefined:
      out.add("Undefined");
      return ok_status();
    case Kind::kBool:
      out.add(value.as_int() != 0 ? "True" : "False");
      return ok_status();
    case Kind::kInt:
      out.add(std::to_string(value.as_int()));
      return ok_status();
    case Kind::kFloat:
      out.add(float_repr(value.as_float()));
      return ok_status();
    case Kind::kString:
      if (value.is_markup()) out.add("Markup(");
      append_string_repr(value.as_str(), out);
      if (value.is_markup()) out.add(")");
      return ok_status();
    case Kind::kList:
      return append_list(rt, value, out);
    case Kind::kDict:
      return append_dict(rt, value.dict(), out);
    case Kind::kNamespace:
      return append_namespace(rt, value, out);
    case Kind::kCallable:
      out.add(value.callable().repr());
      return ok_status();
    case Kind::kLoop: {
      PAGODA_TRY(const std::string text, loop_repr(rt, value));
      out.add(text);
      return ok_status();
    }
    case Kind::kBlocks:
      out.add("<TemplateReference None>");
      return ok_status();
  }
  return ok_status();
}

Status append_str(Runtime& rt, const Value& value, Builder& out) {
  if (value.is_undefined()) return append_undefined(rt, value, out);
  if (!value.is_string()) return append_repr(rt, value, out);
  out.add(value.as_str());
  return rt.step();
}

Result<Str> to_str(Runtime& rt, const Value& value) {
  Builder out(rt);
  PAGODA_TRY_STATUS(append_str(rt, value, out));
  return out.take();
}

Result<Value> soft_str(Runtime& rt, const Value& value) {
  if (value.is_string()) return value;
  PAGODA_TRY(Str text, to_str(rt, value));
  return rt.str(std::move(text));
}

void append_escaped(const Str& text, Builder& out) {
  const std::string_view bytes = text.view();
  size_t clean = 0;
  for (size_t pos = 0; pos < bytes.size(); ++pos) {
    const char c = bytes[pos];
    const std::string_view replacement = c == '&'    ? "&amp;"
                                         : c == '<'  ? "&lt;"
                                         : c == '>'  ? "&gt;"
                                         : c == '\'' ? "&#39;"
                                         : c == '"'  ? "&#34;"
                                                     : "";
    if (replacement.empty()) continue;
    out.add(text, clean, pos - clean);
    out.add(replacement, text.from_input(pos));
    clean = pos + 1;
  }
  out.add(text, clean, bytes.size() - clean);
}

Result<Value> escape(Runtime& rt, const Value& value) {
  if (value.is_markup()) return value;
  PAGODA_TRY(const Str text, to_str(rt, value));
  Builder out(rt);
  append_escaped(text, out);
  return rt.str(out.take(), true);
}

}  // namespace pagoda::jinja
