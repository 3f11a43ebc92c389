#include "jinja/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "jinja/repr.h"
#include "jinja/text_ops.h"

namespace pagoda::jinja {
namespace {

constexpr int64_t kPrecisionMax = 1000;

// [[fill]align][sign][#][0][width][,][.precision][type], of both formatting languages.
struct Spec {
  Str fill{" ", false};
  char align = 0;  // < > ^ = or 0
  char sign = '-';
  bool alternate = false;
  bool grouped = false;
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

Result<int64_t> read_number(std::string_view text, size_t& pos) {
  int64_t number = 0;
  const auto result = std::from_chars(text.data() + pos, text.data() + text.size(), number);
  if (result.ec == std::errc::result_out_of_range) return failed("Too many decimal digits in format string");
  pos = static_cast<size_t>(result.ptr - text.data());
  return number;
}

bool at_digit(std::string_view text, size_t pos) { return pos < text.size() && text[pos] >= '0' && text[pos] <= '9'; }

void group_thousands(std::string& digits) {
  const size_t end = std::min(digits.find_first_of(".e"), digits.size());
  for (size_t at = end; at > 3; at -= 3) digits.insert(at - 3, ",");
}

Result<std::string> float_digits(double value, const Spec& spec) {
  const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
  if (precision > kPrecisionMax) return failed(fmt::format("precision {} is over {}", precision, kPrecisionMax));
  const auto p = static_cast<int>(precision);
  switch (spec.type) {
    case 'e':
      return fmt::format("{:.{}e}", value, p);
    case 'E':
      return fmt::format("{:.{}E}", value, p);
    case 'g':
    case 'G':
    case 'n':
      return fmt::format("{:.{}g}", value, p);
    case '%':
      return fmt::format("{:.{}f}%", value * 100, p);
    case 0:
      return spec.precision < 0 ? float_repr(value) : fmt::format("{:.{}g}", value, p);
    default:
      return fmt::format("{:.{}f}", value, p);
  }
}

Result<std::string> int_digits(uint64_t value, const Spec& spec) {
  switch (spec.type) {
    case 'x':
      return fmt::format("{}{:x}", spec.alternate ? "0x" : "", value);
    case 'X':
      return fmt::format("{}{:X}", spec.alternate ? "0X" : "", value);
    case 'o':
      return fmt::format("{}{:o}", spec.alternate ? "0o" : "", value);
    case 'b':
      return fmt::format("{}{:b}", spec.alternate ? "0b" : "", value);
    default:
      return fmt::format("{}", value);
  }
}

Result<Str> format_number(Runtime& rt, const Value& value, const Spec& spec) {
  std::string digits;
  bool negative = false;
  const bool as_float =
      !value.is_integral() || (spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos);
  if (as_float) {
    const double number = value.as_float();
    negative = std::signbit(number);
    PAGODA_TRY(digits, float_digits(negative ? -number : number, spec));
  } else {
    const int64_t number = value.as_int();
    negative = number < 0;
    PAGODA_TRY(digits, int_digits(negative ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number), spec));
  }
  if (spec.grouped) group_thousands(digits);
  const std::string sign = negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
  if (spec.align == '=') {
    PAGODA_TRY(const Str padded,
               pad(rt, Str(digits, false), spec.width - static_cast<int64_t>(sign.size()), spec.fill, '>'));
    return Str(sign + std::string(padded.view()), false);
  }
  return pad(rt, Str(sign + digits, false), spec.width, spec.fill, spec.align == 0 ? '>' : spec.align);
}

Result<Str> format_text(Runtime& rt, const Str& text, const Spec& spec) {
  const size_t keep = spec.precision < 0 ? text.size() : utf8::offset(text.view(), spec.precision);
  return pad(rt, text.substr(0, keep), spec.width, spec.fill, spec.align == 0 || spec.align == '=' ? '<' : spec.align);
}

// ---- the % language ----

struct PercentArgs {
  const Value& all;
  std::vector<Value> items;
  size_t next = 0;
};

Result<Value> take(PercentArgs& args) {
  if (args.next >= args.items.size()) return failed("not enough arguments for format string");
  return args.items[args.next++];
}

Result<Value> keyed(Runtime& rt, const PercentArgs& args, std::string_view text, size_t& pos) {
  const size_t close = text.find(')', pos);
  if (close == std::string_view::npos) return failed("incomplete format key");
  if (!args.all.is_dict()) return failed("format requires a mapping");
  const Value* found = args.all.dict().find(text.substr(pos + 1, close - pos - 1));
  if (found == nullptr)
    return failed(short_repr(rt, Value::string(std::string(text.substr(pos + 1, close - pos - 1)))));
  pos = close + 1;
  return *found;
}

Result<Spec> percent_spec(std::string_view text, size_t& pos, PercentArgs& args) {
  Spec spec;
  for (; pos < text.size() && std::string_view("-+ #0").find(text[pos]) != std::string_view::npos; ++pos) {
    if (text[pos] == '-') spec.align = '<';
    if (text[pos] == '+' || (text[pos] == ' ' && spec.sign != '+')) spec.sign = text[pos];
    if (text[pos] == '#') spec.alternate = true;
    if (text[pos] == '0' && spec.align != '<') spec.align = '=', spec.fill = Str("0", false);
  }
  for (int64_t* number : {&spec.width, &spec.precision}) {
    if (number == &spec.precision) {
      if (pos >= text.size() || text[pos] != '.') break;
      ++pos;
      *number = 0;
    }
    if (pos < text.size() && text[pos] == '*') {
      PAGODA_TRY(const Value star, take(args));
      if (!star.is_integral()) return failed("* wants int");
      *number = star.as_int();
      ++pos;
    } else if (at_digit(text, pos)) {
      PAGODA_TRY(*number, read_number(text, pos));
    }
  }
  return spec;
}

Result<Str> percent_value(Runtime& rt, const Value& value, Spec spec, bool markup) {
  if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
    Builder text(rt);
    PAGODA_TRY_STATUS(spec.type == 's' ? append_str(rt, value, text) : append_repr(rt, value, text));
    Str plain = text.take();
    if (markup && !(spec.type == 's' && value.is_markup())) {
      append_escaped(plain, text);
      plain = text.take();
    }
    if (spec.align == '=') spec.align = '>', spec.fill = Str(" ", false);
    if (spec.align == 0) spec.align = '>';
    return format_text(rt, plain, spec);
  }
  if (spec.type == 'c' && value.is_string()) return format_text(rt, value.as_str(), spec);
  if (std::string_view("diuxXoeEfFgG").find(spec.type) == std::string_view::npos)
    return failed(fmt::format("unsupported format character '{}'", spec.type));
  if (value.is_undefined()) return undefined_error(value);
  const bool whole = std::string_view("diuxXo").find(spec.type) != std::string_view::npos;
  if (!value.is_number())
    return failed(whole ? fmt::format("%{} format: a real number is required, not {}", spec.type, type_name(value))
                        : "must be real number, not " + type_name(value));
  if (!whole) return format_number(rt, Value::real(value.as_float()), spec);
  if (value.is(Kind::kFloat) && !(std::abs(value.as_float()) < 9e18))
    return failed("cannot convert float to a 64-bit integer");
  spec.precision = -1;
  return format_number(rt, value.is_integral() ? value : Value::integer(static_cast<int64_t>(value.as_float())), spec);
}

}  // namespace

Result<Value> percent_format(Runtime& rt, const Value& format, const Value& args_value) {
  const Str& source = format.as_str();
  const std::string_view text = source.view();
  const bool is_tuple = args_value.is_list() && args_value.list().kind == ListKind::kTuple;
  PercentArgs args{args_value, is_tuple ? args_value.items() : std::vector<Value>{args_value}};
  Builder out(rt);
  size_t clean = 0;
  for (size_t pos = text.find('%'); pos != std::string_view::npos; pos = text.find('%', clean)) {
    PAGODA_TRY_STATUS(rt.step());
    out.add(source, clean, pos - clean);
    ++pos;
    Value value;
    if (pos < text.size() && text[pos] == '(') {
      PAGODA_TRY(value, keyed(rt, args, text, pos));
    }
    PAGODA_TRY(Spec spec, percent_spec(text, pos, args));
    while (pos < text.size() && std::string_view("hlL").find(text[pos]) != std::string_view::npos) ++pos;
    if (pos >= text.size()) return failed("incomplete format");
    spec.type = text[pos];
    clean = pos + 1;
    if (spec.type == '%') {
      out.add("%", source.from_input(pos));
      continue;
    }
    if (value.is_missing()) {
      PAGODA_TRY(value, take(args));
    }
    PAGODA_TRY(const Str piece, percent_value(rt, value, spec, format.is_markup()));
    out.add(piece);
  }
  out.add(source, clean, text.size() - clean);
  if (is_tuple && args.next < args.items.size()) return failed("not all arguments converted during string formatting");
  if (!is_tuple && args.next == 0 && !args_value.is_dict() && !args_value.is_list())
    return failed("not all arguments converted during string formatting");
  return rt.str(out.take(), format.is_markup());
}

// ---- the {} language ----

namespace {

struct BraceArgs {
  const Args& args;
  int64_t automatic = 0;  // the next unnumbered field; -1 once numbers were used
};

Result<Value> first_field(Runtime& rt, BraceArgs& fields, std::string_view name) {
  const auto& positional = fields.args.positional;
  if (name.empty() || at_digit(name, 0)) {
    int64_t index = 0;
    if (name.empty()) {
      if (fields.automatic < 0)
        return failed("cannot switch from manual field specification to automatic field numbering");
      index = fields.automatic++;
    } else {
      if (fields.automatic > 0)
        return failed("cannot switch from automatic field numbering to manual field specification");
      fields.automatic = -1;
      size_t pos = 0;
      PAGODA_TRY(index, read_number(name, pos));
    }
    if (index >= static_cast<int64_t>(positional.size()))
      return failed(fmt::format("Replacement index {} out of range for positional args tuple", index));
    return positional[static_cast<size_t>(index)];
  }
  for (const auto& [key, value] : fields.args.named)
    if (key == name) return value;
  return failed(short_repr(rt, Value::string(std::string(name))));
}

Result<Value> field_value(Runtime& rt, BraceArgs& fields, std::string_view path) {
  size_t pos = std::min(path.find_first_of(".["), path.size());
  PAGODA_TRY(Value value, first_field(rt, fields, path.substr(0, pos)));
  while (pos < path.size()) {
    PAGODA_TRY_STATUS(rt.step());
    if (path[pos] == '.') {
      const size_t end = std::min(path.find_first_of(".[", pos + 1), path.size());
      PAGODA_TRY(value, rt.get_attribute(value, Value::string(std::string(path.substr(pos + 1, end - pos - 1)))));
      pos = end;
      continue;
    }
    const size_t close = path.find(']', pos);
    if (path[pos] != '[' || close == std::string_view::npos) return failed("expected '}' before end of string");
    const std::string_view key = path.substr(pos + 1, close - pos - 1);
    size_t digits = 0;
    Value index = Value::string(std::string(key));
    if (!key.empty() && std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      PAGODA_TRY(const int64_t number, read_number(key, digits));
      index = Value::integer(number);
    }
    PAGODA_TRY(value, rt.get_item(value, index));
    pos = close + 1;
  }
  return value;
}

Result<Spec> brace_spec(std::string_view text) {
  Spec spec;
  size_t pos = 0;
  const auto is_align = [&](size_t at) {
    return at < text.size() && std::string_view("<>^=").find(text[at]) != std::string_view::npos;
  };
  const size_t fill_bytes = text.empty() ? 0 : utf8::char_bytes(text, 0);
  if (fill_bytes > 0 && is_align(fill_bytes)) {
    spec.fill = Str(std::string(text.substr(0, fill_bytes)), false);
    spec.align = text[fill_bytes];
    pos = fill_bytes + 1;
  } else if (is_align(0)) {
    spec.align = text[pos++];
  }
  if (pos < text.size() && std::string_view("+- ").find(text[pos]) != std::string_view::npos) spec.sign = text[pos++];
  if (pos < text.size() && text[pos] == '#') spec.alternate = true, ++pos;
  if (pos < text.size() && text[pos] == '0') {
    ++pos;
    if (spec.align == 0) spec.align = '=', spec.fill = Str("0", false);
  }
  if (at_digit(text, pos)) {
    PAGODA_TRY(spec.width, read_number(text, pos));
  }
  if (pos < text.size() && text[pos] == ',') spec.grouped = true, ++pos;
  if (pos < text.size() && text[pos] == '.') {
    ++pos;
    if (!at_digit(text, pos)) return failed("Format specifier missing precision");
    PAGODA_TRY(spec.precision, read_number(text, pos));
  }
  if (pos < text.size()) spec.type = text[pos++];
  if (pos < text.size()) return failed("Invalid format specifier");
  return spec;
}

Result<Str> format_field(Runtime& rt, const Value& value, std::string_view spec_text, bool markup) {
  if (value.is_undefined() || (!value.is_number() && !value.is_string()) || spec_text.empty() ||
      value.is(Kind::kBool)) {
    if (!spec_text.empty() && !value.is(Kind::kBool))
      return failed(fmt::format("unsupported format string passed to {}.__format__", type_name(value)));
    if (value.is_undefined()) return to_str(rt, value);
    PAGODA_TRY(Str text, to_str(rt, value));
    if (!markup || value.is_markup()) return text;
    Builder out(rt);
    append_escaped(text, out);
    return out.take();
  }
  PAGODA_TRY(const Spec spec, brace_spec(spec_text));
  if (value.is_string()) {
    if (spec.type != 0 && spec.type != 's')
      return failed(fmt::format("Unknown format code '{}' for object of type 'str'", spec.type));
    return format_text(rt, value.as_str(), spec);
  }
  if (spec.type == 's') return failed(fmt::format("Unknown format code 's' for object of type '{}'", type_name(value)));
  return format_number(rt, value, spec);
}

// text[pos] follows an opening brace; leaves pos behind the closing one.
Result<Str> replacement(Runtime& rt, BraceArgs& fields, std::string_view text, size_t& pos, bool markup) {
  const size_t close = text.find('}', pos);
  if (close == std::string_view::npos) return failed("expected '}' before end of string");
  const std::string_view field = text.substr(pos, close - pos);
  pos = close + 1;
  const size_t name_end = std::min(field.find_first_of("!:"), field.size());
  PAGODA_TRY(Value value, field_value(rt, fields, field.substr(0, name_end)));
  std::string_view rest = field.substr(name_end);
  if (rest.starts_with("!")) {
    if (rest.size() < 2) return failed("end of string while looking for conversion specifier");
    Builder text_out(rt);
    PAGODA_TRY_STATUS(rest[1] == 's' ? append_str(rt, value, text_out) : append_repr(rt, value, text_out));
    value = rt.str(text_out.take());
    rest.remove_prefix(2);
  }
  return format_field(rt, value, rest.starts_with(":") ? rest.substr(1) : rest, markup);
}

}  // namespace

Result<Value> brace_format(Runtime& rt, const Value& format, const Args& args) {
  const Str& source = format.as_str();
  const std::string_view text = source.view();
  BraceArgs fields{args};
  Builder out(rt);
  size_t pos = 0;
  while (pos < text.size()) {
    const size_t brace = std::min(text.find_first_of("{}", pos), text.size());
    out.add(source, pos, brace - pos);
    if (brace == text.size()) break;
    PAGODA_TRY_STATUS(rt.step());
    pos = brace + 1;
    if (pos < text.size() && text[pos] == text[brace]) {
      out.add(source, brace, 1);
      ++pos;
      continue;
    }
    if (text[brace] == '}') return failed("Single '}' encountered in format string");
    PAGODA_TRY(const Str piece, replacement(rt, fields, text, pos, format.is_markup()));
    out.add(piece);
  }
  return rt.str(out.take(), format.is_markup());
}

}  // namespace pagoda::jinja
