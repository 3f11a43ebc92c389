// Methods of strings.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/format.h"
#include "jinja/methods.h"
#include "jinja/repr.h"
#include "jinja/text_ops.h"

namespace pagoda::jinja {
namespace {

const Str& self(const Call& call) { return call.self.as_str(); }
Value made(Runtime& rt, const Call& call, Str str) { return rt.str(std::move(str), call.self.is_markup()); }

Result<int64_t> int_arg(const Call& call, size_t i, int64_t absent) {
  if (!call.has(i)) return absent;
  if (!call.args[i].is_integral())
    return failed(in_quotes(type_name(call.args[i])) + " object cannot be interpreted as an integer");
  return call.args[i].as_int();
}

Result<const Str*> str_arg(const Call& call, size_t i, const char* method) {
  const Value& arg = call.args[i];
  if (arg.is_undefined()) return undefined_error(arg);
  if (!arg.is_string()) return failed(fmt::format("{}: a str is needed, not '{}'", method, type_name(arg)));
  return &arg.as_str();
}

// The part of the text that optional start and end arguments select, as byte offsets.
Result<std::pair<size_t, size_t>> window(const Call& call, size_t start_arg) {
  const std::string_view text = call.self.view();
  const int64_t length = utf8::length(text);
  const auto absent = [&](size_t i) { return !call.has(i) || call.args[i].is_none(); };
  PAGODA_TRY(int64_t start, absent(start_arg) ? Result<int64_t>(0) : int_arg(call, start_arg, 0));
  PAGODA_TRY(int64_t stop, absent(start_arg + 1) ? Result<int64_t>(length) : int_arg(call, start_arg + 1, length));
  if (start < 0) start = std::max<int64_t>(start + length, 0);
  if (stop < 0) stop = std::max<int64_t>(stop + length, 0);
  stop = std::min(stop, length);
  if (start > stop) return std::pair<size_t, size_t>{SIZE_MAX, 0};  // empty and not even at the end
  return std::pair<size_t, size_t>{utf8::offset(text, start), utf8::offset(text, stop)};
}

Result<Value> upper_method(Runtime& rt, Call& call) { return made(rt, call, upper(rt, self(call))); }
Result<Value> lower_method(Runtime& rt, Call& call) { return made(rt, call, lower(rt, self(call))); }
Result<Value> casefold(Runtime& rt, Call& call) {
  return made(rt, call,
              map_chars(rt, self(call), [](std::string& out, char32_t c, size_t) { utf8::append_folded(out, c); }));
}
Result<Value> capitalize_method(Runtime& rt, Call& call) { return made(rt, call, capitalize(rt, self(call))); }

Result<Value> title_method(Runtime& rt, Call& call) {
  bool inside = false;
  return made(rt, call, map_chars(rt, self(call), [&](std::string& out, char32_t c, size_t) {
                inside ? utf8::append_lower(out, c) : utf8::append_title(out, c);
                inside = utf8::is_cased(c);
              }));
}

Result<Value> swapcase(Runtime& rt, Call& call) {
  return made(rt, call, map_chars(rt, self(call), [](std::string& out, char32_t c, size_t) {
                utf8::is_upper(c) ? utf8::append_lower(out, c) : utf8::append_upper(out, c);
              }));
}

template <Side side>
Result<Value> strip_method(Runtime& rt, Call& call) {
  if (!call.has(0) || call.args[0].is_none()) return made(rt, call, strip(self(call), side, std::nullopt));
  PAGODA_TRY(const Str* chars, str_arg(call, 0, "strip"));
  return made(rt, call, strip(self(call), side, chars->view()));
}

template <bool from_right>
Result<Value> split_method(Runtime& rt, Call& call) {
  PAGODA_TRY(const int64_t limit, int_arg(call, 1, -1));
  std::optional<std::string_view> separator;
  if (call.has(0) && !call.args[0].is_none()) {
    PAGODA_TRY(const Str* text, str_arg(call, 0, "split"));
    separator = text->view();
  }
  PAGODA_TRY(std::vector<Str> parts, split(rt, self(call), separator, limit, from_right));
  std::vector<Value> items;
  for (Str& part : parts) items.push_back(made(rt, call, std::move(part)));
  return rt.list(std::move(items));
}

Result<Value> splitlines(Runtime& rt, Call& call) {
  PAGODA_TRY(std::vector<Str> lines, split_lines(rt, self(call), call.flag(0)));
  std::vector<Value> items;
  for (Str& line : lines) items.push_back(made(rt, call, std::move(line)));
  return rt.list(std::move(items));
}

template <bool at_end>
Result<Value> affix_method(Runtime&, Call& call) {
  PAGODA_TRY(const auto range, window(call, 1));
  if (range.first == SIZE_MAX) return Value::boolean(false);
  const std::string_view text = call.self.view().substr(range.first, range.second - range.first);
  const auto matches = [text](const Str& affix) {
    return at_end ? text.ends_with(affix.view()) : text.starts_with(affix.view());
  };
  const Value& wanted = call.args[0];
  if (wanted.is_list() && wanted.list().kind == ListKind::kTuple) {
    for (const Value& one : wanted.items())
      if (one.is_string() && matches(one.as_str())) return Value::boolean(true);
    return Value::boolean(false);
  }
  if (wanted.is_undefined()) return undefined_error(wanted);
  if (!wanted.is_string())
    return failed(fmt::format("{} first arg must be str or a tuple of str, not {}", at_end ? "endswith" : "startswith",
                              type_name(wanted)));
  return Value::boolean(matches(wanted.as_str()));
}

Result<Value> replace_method(Runtime& rt, Call& call) {
  PAGODA_TRY(const Str* old, str_arg(call, 0, "replace"));
  PAGODA_TRY(const Str* with, str_arg(call, 1, "replace"));
  PAGODA_TRY(const int64_t limit, int_arg(call, 2, -1));
  Value safe = call.args[1];
  if (call.self.is_markup()) {
    PAGODA_TRY(safe, escape(rt, call.args[1]));
    with = &safe.as_str();
  }
  PAGODA_TRY(Str out, replace(rt, self(call), old->view(), *with, limit));
  return made(rt, call, std::move(out));
}

Result<Value> join_method(Runtime& rt, Call& call) {
  PAGODA_TRY(Cursor cursor, Cursor::over(rt, call.args[0]));
  Builder out(rt);
  int64_t index = 0;
  for (Value item;; ++index) {
    PAGODA_TRY(const bool more, cursor.next(item));
    if (!more) break;
    if (!item.is_string())
      return failed(fmt::format("sequence item {}: expected str instance, {} found", index, type_name(item)));
    if (call.self.is_markup()) {
      PAGODA_TRY(item, escape(rt, item));
    }
    if (index > 0) out.add(self(call));
    out.add(item.as_str());
  }
  return made(rt, call, out.take());
}

template <bool from_right>
Result<int64_t> find_index(const Call& call) {
  PAGODA_TRY(const Str* wanted, str_arg(call, 0, "find"));
  PAGODA_TRY(const auto range, window(call, 1));
  if (range.first == SIZE_MAX) return int64_t{-1};
  const std::string_view text = call.self.view().substr(0, range.second);
  size_t at = from_right ? text.rfind(wanted->view()) : text.find(wanted->view(), range.first);
  if (from_right && at != std::string_view::npos && at < range.first) at = std::string_view::npos;
  return at == std::string_view::npos ? int64_t{-1} : utf8::length(text.substr(0, at));
}

template <bool from_right, bool must>
Result<Value> find_method_of_str(Runtime&, Call& call) {
  PAGODA_TRY(const int64_t at, find_index<from_right>(call));
  if (must && at < 0) return failed("substring not found");
  return Value::integer(at);
}

Result<Value> count_method(Runtime& rt, Call& call) {
  PAGODA_TRY(const Str* wanted, str_arg(call, 0, "count"));
  PAGODA_TRY(const auto range, window(call, 1));
  if (range.first == SIZE_MAX) return Value::integer(0);
  const std::string_view text = call.self.view().substr(range.first, range.second - range.first);
  PAGODA_TRY_STATUS(rt.step());
  if (wanted->empty()) return Value::integer(utf8::length(text) + 1);
  int64_t count = 0;
  for (size_t at = text.find(wanted->view()); at != std::string_view::npos;
       at = text.find(wanted->view(), at + wanted->size()))
    ++count;
  return Value::integer(count);
}

// isalpha() and its kin: all characters pass, and there is one.
template <bool (*test)(char32_t)>
Result<Value> all_chars(Runtime&, Call& call) {
  const std::string_view text = call.self.view();
  for (size_t pos = 0; pos < text.size(); pos += utf8::char_bytes(text, pos))
    if (!test(utf8::decode(text, pos))) return Value::boolean(false);
  return Value::boolean(!text.empty());
}

bool is_numeric(char32_t c) { return utf8::is_alnum(c) && !utf8::is_alpha(c); }

// isascii(), isprintable(): as above, but true for an empty string.
template <bool (*test)(char32_t)>
Result<Value> no_char_fails(Runtime& rt, Call& call) {
  return call.self.as_str().empty() ? Result<Value>(Value::boolean(true)) : all_chars<test>(rt, call);
}

bool is_ascii(char32_t c) { return c < 0x80; }

// isupper(), islower(): there is a cased character and none of the other case.
template <bool (*test)(char32_t)>
Result<Value> all_cased(Runtime&, Call& call) {
  const std::string_view text = call.self.view();
  bool any = false;
  for (size_t pos = 0; pos < text.size(); pos += utf8::char_bytes(text, pos)) {
    const char32_t c = utf8::decode(text, pos);
    if (utf8::is_cased(c) && !test(c)) return Value::boolean(false);
    any = any || test(c);
  }
  return Value::boolean(any);
}

Result<Value> istitle(Runtime&, Call& call) {
  const std::string_view text = call.self.view();
  bool any = false;
  bool inside = false;
  for (size_t pos = 0; pos < text.size(); pos += utf8::char_bytes(text, pos)) {
    const char32_t c = utf8::decode(text, pos);
    const bool cased = utf8::is_cased(c);
    if (cased && utf8::is_lower(c) != inside) return Value::boolean(false);
    inside = cased;
    any = any || cased;
  }
  return Value::boolean(any);
}

Result<Value> isidentifier(Runtime&, Call& call) { return Value::boolean(utf8::is_identifier(call.self.view())); }

template <char align>
Result<Value> pad_method(Runtime& rt, Call& call) {
  PAGODA_TRY(const int64_t width, int_arg(call, 0, 0));
  Str fill(" ", false);
  if (call.has(1)) {
    PAGODA_TRY(const Str* wanted, str_arg(call, 1, "padding"));
    fill = *wanted;
  }
  PAGODA_TRY(Str out, pad(rt, self(call), width, fill, align));
  return made(rt, call, std::move(out));
}

Result<Value> zfill(Runtime& rt, Call& call) {
  PAGODA_TRY(const int64_t width, int_arg(call, 0, 0));
  const Str& str = self(call);
  const bool sign = !str.empty() && (str.view()[0] == '+' || str.view()[0] == '-');
  PAGODA_TRY(Str digits, pad(rt, str.substr(sign ? 1 : 0, str.size() - (sign ? 1 : 0)), width - (sign ? 1 : 0),
                             Str("0", false), '>'));
  Str out = str.substr(0, sign ? 1 : 0);
  out.append(digits);
  return made(rt, call, std::move(out));
}

template <bool at_end>
Result<Value> remove_affix(Runtime& rt, Call& call) {
  PAGODA_TRY(const Str* affix, str_arg(call, 0, at_end ? "removesuffix" : "removeprefix"));
  const Str& str = self(call);
  const bool present = at_end ? str.view().ends_with(affix->view()) : str.view().starts_with(affix->view());
  if (!present) return call.self;
  return made(rt, call, str.substr(at_end ? 0 : affix->size(), str.size() - affix->size()));
}

template <bool from_right>
Result<Value> partition(Runtime& rt, Call& call) {
  PAGODA_TRY(const Str* separator, str_arg(call, 0, "partition"));
  if (separator->empty()) return failed("empty separator");
  const Str& str = self(call);
  const size_t at = from_right ? str.view().rfind(separator->view()) : str.view().find(separator->view());
  if (at == std::string_view::npos) {
    const Value nothing = made(rt, call, Str());
    return from_right ? rt.tuple({nothing, nothing, call.self}) : rt.tuple({call.self, nothing, nothing});
  }
  const size_t after = at + separator->size();
  return rt.tuple({made(rt, call, str.substr(0, at)), made(rt, call, str.substr(at, separator->size())),
                   made(rt, call, str.substr(after, str.size() - after))});
}

Result<Value> expandtabs(Runtime& rt, Call& call) {
  PAGODA_TRY(const int64_t tab, int_arg(call, 0, 8));
  PAGODA_TRY_STATUS(rt.reserve(std::clamp<int64_t>(tab, 0, INT32_MAX)));
  int64_t column = 0;
  return made(rt, call, map_chars(rt, self(call), [&](std::string& out, char32_t c, size_t) {
                if (c != '\t') {
                  utf8::append(out, c);
                  column = c == '\n' || c == '\r' ? 0 : column + 1;
                } else if (tab > 0) {
                  const int64_t blanks = tab - column % tab;
                  out.append(static_cast<size_t>(blanks), ' ');
                  column += blanks;
                }
              }));
}

Result<Value> format_method(Runtime& rt, Call& call) { return brace_format(rt, call.self, call.raw); }

Result<Value> format_map(Runtime& rt, Call& call) {
  if (!call.args[0].is_dict()) return failed("format_map() takes a mapping, not " + in_quotes(type_name(call.args[0])));
  Args args;
  for (const auto& [key, value] : call.args[0].dict().entries)
    if (key.is_string()) args.named.emplace_back(key.view(), value);
  return brace_format(rt, call.self, args);
}

constexpr Builtin kMethods[] = {
    {"capitalize", "", 0, capitalize_method},
    {"casefold", "", 0, casefold},
    {"center", "width fillchar", 1, pad_method<'^'>},
    {"count", "sub start end", 1, count_method},
    {"endswith", "suffix start end", 1, affix_method<true>},
    {"expandtabs", "tabsize", 0, expandtabs},
    {"find", "sub start end", 1, find_method_of_str<false, false>},
    {"format", "*", 0, format_method},
    {"format_map", "mapping", 1, format_map},
    {"index", "sub start end", 1, find_method_of_str<false, true>},
    {"isalnum", "", 0, all_chars<utf8::is_alnum>},
    {"isalpha", "", 0, all_chars<utf8::is_alpha>},
    {"isascii", "", 0, no_char_fails<is_ascii>},
    {"isdecimal", "", 0, all_chars<utf8::is_decimal>},
    {"isdigit", "", 0, all_chars<utf8::is_digit>},
    {"isidentifier", "", 0, isidentifier},
    {"islower", "", 0, all_cased<utf8::is_lower>},
    {"isnumeric", "", 0, all_chars<is_numeric>},
    {"isprintable", "", 0, no_char_fails<utf8::is_printable>},
    {"isspace", "", 0, all_chars<utf8::is_space>},
    {"istitle", "", 0, istitle},
    {"isupper", "", 0, all_cased<utf8::is_upper>},
    {"join", "iterable", 1, join_method},
    {"ljust", "width fillchar", 1, pad_method<'<'>},
    {"lower", "", 0, lower_method},
    {"lstrip", "chars", 0, strip_method<Side::kLeft>},
    {"partition", "sep", 1, partition<false>},
    {"removeprefix", "prefix", 1, remove_affix<false>},
    {"removesuffix", "suffix", 1, remove_affix<true>},
    {"replace", "old new count", 2, replace_method},
    {"rfind", "sub start end", 1, find_method_of_str<true, false>},
    {"rindex", "sub start end", 1, find_method_of_str<true, true>},
    {"rjust", "width fillchar", 1, pad_method<'>'>},
    {"rpartition", "sep", 1, partition<true>},
    {"rsplit", "sep maxsplit", 0, split_method<true>},
    {"rstrip", "chars", 0, strip_method<Side::kRight>},
    {"split", "sep maxsplit", 0, split_method<false>},
    {"splitlines", "keepends", 0, splitlines},
    {"startswith", "prefix start end", 1, affix_method<false>},
    {"strip", "chars", 0, strip_method<Side::kBoth>},
    {"swapcase", "", 0, swapcase},
    {"title", "", 0, title_method},
    {"upper", "", 0, upper_method},
    {"zfill", "width", 1, zfill},
};

}  // namespace

std::span<const Builtin> str_methods() { return kMethods; }

}  // namespace pagoda::jinja
