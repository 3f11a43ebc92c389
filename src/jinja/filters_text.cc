// Filters on text.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/filters.h"
#include "jinja/format.h"
#include "jinja/methods.h"
#include "jinja/repr.h"
#include "jinja/text_ops.h"

namespace pagoda::jinja {
namespace {

// The filtered value as a string, keeping its safe mark.
struct Subject {
  Value value;
  const Str& str() const { return value.as_str(); }
  Value made(Runtime& rt, Str out) const { return rt.str(std::move(out), value.is_markup()); }
};

Result<Subject> subject(Runtime& rt, const Call& call) {
  PAGODA_TRY(Value text, soft_str(rt, call.self));
  return Subject{std::move(text)};
}

Result<int64_t> integer(const Call& call, size_t i, int64_t absent) {
  if (!call.has(i) || call.args[i].is_none()) return absent;
  if (!call.args[i].is_integral())
    return failed(in_quotes(type_name(call.args[i])) + " object cannot be interpreted as an integer");
  return call.args[i].as_int();
}

Result<Value> upper_filter(Runtime& rt, Call& call) {
  PAGODA_TRY(const Subject text, subject(rt, call));
  return text.made(rt, upper(rt, text.str()));
}

Result<Value> lower_filter(Runtime& rt, Call& call) {
  PAGODA_TRY(const Subject text, subject(rt, call));
  return text.made(rt, lower(rt, text.str()));
}

Result<Value> capitalize_filter(Runtime& rt, Call& call) {
  PAGODA_TRY(const Subject text, subject(rt, call));
  return text.made(rt, capitalize(rt, text.str()));
}

Result<Value> title(Runtime& rt, Call& call) {
  PAGODA_TRY(const Subject text, subject(rt, call));
  bool starts = true;
  Str out = map_chars(rt, text.str(), [&](std::string& piece, char32_t c, size_t) {
    const bool separator = utf8::is_space(c) ||
                           (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
    starts && !separator ? utf8::append_upper(piece, c) : utf8::append_lower(piece, c);
    starts = separator;
  });
  return rt.str(std::move(out));
}

Result<Value> trim(Runtime& rt, Call& call) {
  PAGODA_TRY(const Subject text, subject(rt, call));
  if (!call.has(0) || call.args[0].is_none()) return text.made(rt, strip(text.str(), Side::kBoth, std::nullopt));
  if (!call.args[0].is_string()) return failed("strip arg must be None or str");
  return text.made(rt, strip(text.str(), Side::kBoth, call.args[0].view()));
}

Result<Value> replace_filter(Runtime& rt, Call& call) {
  PAGODA_TRY(const int64_t limit, integer(call, 2, -1));
  Value text = call.self;
  PAGODA_TRY(const Str old, to_str(rt, call.args[0]));
  PAGODA_TRY(Value with, soft_str(rt, call.args[1]));
  bool markup = false;
  if (rt.autoescape) {
    if (call.args[0].is_markup() || (call.args[1].is_markup() && !text.is_markup())) {
      PAGODA_TRY(text, escape(rt, text));
    }
    markup = text.is_markup();
    if (markup) {
      PAGODA_TRY(with, escape(rt, with));
    }
  }
  PAGODA_TRY(const Str subject_text, to_str(rt, text));
  PAGODA_TRY(Str out, replace(rt, subject_text, old.view(), with.as_str(), limit));
  return rt.str(std::move(out), markup);
}

Result<Value> center(Runtime& rt, Call& call) {
  PAGODA_TRY(const Subject text, subject(rt, call));
  PAGODA_TRY(const int64_t width, integer(call, 0, 80));
  PAGODA_TRY(Str out, pad(rt, text.str(), width, Str(" ", false), '^'));
  return text.made(rt, std::move(out));
}

Result<Value> indent(Runtime& rt, Call& call) {
  if (call.self.is_undefined()) return undefined_error(call.self);
  if (!call.self.is_string())
    return failed(fmt::format("unsupported operand type(s) for +=: '{}' and 'str'", type_name(call.self)));
  Str indention;
  if (call.has(0) && call.args[0].is_string()) {
    indention = call.args[0].as_str();
  } else {
    PAGODA_TRY(const int64_t width, integer(call, 0, 4));
    PAGODA_TRY_STATUS(rt.reserve(std::max<int64_t>(width, 0)));
    indention = Str(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '), false);
  }
  Str text = call.self.as_str();
  text.append("\n", false);
  PAGODA_TRY(const std::vector<Str> lines, split_lines(rt, text, false));
  Builder out(rt);
  if (call.flag(1)) out.add(indention);
  for (size_t i = 0; i < lines.size(); ++i) {
    PAGODA_TRY_STATUS(rt.step());
    if (i > 0) out.add("\n");
    if (i > 0 && (call.flag(2) || !lines[i].empty())) out.add(indention);
    out.add(lines[i]);
  }
  return rt.str(out.take(), call.self.is_markup());
}

Result<Value> truncate(Runtime& rt, Call& call) {
  PAGODA_TRY(const int64_t length, integer(call, 0, 255));
  PAGODA_TRY(const int64_t leeway, integer(call, 3, 5));
  Str end("...", false);
  if (call.has(2)) {
    PAGODA_TRY(end, to_str(rt, call.args[2]));
  }
  if (!call.self.is_string()) {
    PAGODA_TRY(const int64_t size, rt.length(call.self));
    if (size <= length + leeway) return call.self;
    return failed(in_quotes(type_name(call.self)) + " cannot be truncated");
  }
  const Str& str = call.self.as_str();
  const int64_t end_length = utf8::length(end.view());
  if (length < end_length) return failed(fmt::format("expected length >= {}, got {}", end_length, length));
  if (leeway < 0) return failed(fmt::format("expected leeway >= 0, got {}", leeway));
  if (utf8::length(str.view()) <= length + leeway) return call.self;
  Str out = str.substr(0, utf8::offset(str.view(), length - end_length));
  if (!call.flag(1)) {
    const size_t blank = out.view().rfind(' ');
    if (blank != std::string_view::npos) out = out.substr(0, blank);
  }
  out.append(end);
  return rt.str(std::move(out), call.self.is_markup());
}

Result<Value> wordcount(Runtime& rt, Call& call) {
  if (call.self.is_undefined() && rt.environment().undefined == Undefined::kStrict) return undefined_error(call.self);
  PAGODA_TRY(const Subject text, subject(rt, call));
  const std::string_view bytes = text.str().view();
  int64_t words = 0;
  bool inside = false;
  for (size_t pos = 0; pos < bytes.size(); pos += utf8::char_bytes(bytes, pos)) {
    const char32_t c = utf8::decode(bytes, pos);
    const bool word = c == '_' || utf8::is_alnum(c);
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::integer(words);
}

// ---- wordwrap: Python's textwrap.wrap of each line ----

// Cuts a line into blanks, words and, if asked, the parts of hyphenated words.
std::vector<Str> chunks(const Str& line, bool at_hyphens) {
  const std::string_view text = line.view();
  const auto space = [&](size_t at) {
    return at < text.size() && std::string_view("\t\n\v\f\r ").find(text[at]) != std::string_view::npos;
  };
  const auto letter = [&](size_t at) { return at < text.size() && utf8::is_alpha(utf8::decode(text, at)); };
  std::vector<Str> out;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size(); ++pos) {
    const bool hyphen =
        at_hyphens && text[pos] == '-' && pos >= begin + 2 && letter(pos - 1) && letter(pos + 1) && !space(pos);
    const size_t next = pos + 1;
    if (next == text.size() || hyphen || space(pos) != space(next)) {
      out.push_back(line.substr(begin, next - begin));
      begin = next;
    }
  }
  return out;
}

bool is_blank(const Str& chunk) { return strip(chunk, Side::kBoth, std::nullopt).empty(); }

std::vector<Str> wrap_line(const Str& line, int64_t width, bool break_long, bool at_hyphens) {
  std::vector<Str> parts = chunks(line, at_hyphens);
  std::reverse(parts.begin(), parts.end());
  std::vector<Str> lines;
  while (!parts.empty()) {
    std::vector<Str> current;
    int64_t length = 0;
    if (!lines.empty() && is_blank(parts.back())) parts.pop_back();
    while (!parts.empty() && length + utf8::length(parts.back().view()) <= width) {
      length += utf8::length(parts.back().view());
      current.push_back(std::move(parts.back()));
      parts.pop_back();
    }
    if (!parts.empty() && utf8::length(parts.back().view()) > width && (break_long || current.empty())) {
      Str whole = std::move(parts.back());
      parts.pop_back();
      const size_t cut = break_long ? utf8::offset(whole.view(), std::max<int64_t>(width - length, 1)) : whole.size();
      current.push_back(whole.substr(0, cut));
      if (cut < whole.size()) parts.push_back(whole.substr(cut, whole.size() - cut));
    }
    if (!current.empty() && is_blank(current.back())) current.pop_back();
    if (current.empty()) continue;
    lines.emplace_back();
    for (const Str& part : current) lines.back().append(part);
  }
  return lines;
}

Result<Value> wordwrap(Runtime& rt, Call& call) {
  if (call.self.is_undefined()) return undefined_error(call.self);
  if (!call.self.is_string()) return failed(in_quotes(type_name(call.self)) + " object has no attribute 'splitlines'");
  PAGODA_TRY(const Subject text, subject(rt, call));
  PAGODA_TRY(const int64_t width, integer(call, 0, 79));
  if (width <= 0) return failed(fmt::format("invalid width {} (must be > 0)", width));
  Str separator(rt.environment().newline_sequence, false);
  if (call.has(2) && !call.args[2].is_none()) {
    PAGODA_TRY(separator, to_str(rt, call.args[2]));
  }
  Builder out(rt);
  bool first = true;
  PAGODA_TRY(const std::vector<Str> lines, split_lines(rt, text.str(), false));
  for (const Str& line : lines) {
    PAGODA_TRY_STATUS(rt.reserve(static_cast<int64_t>(line.size() * sizeof(Str))));  // at worst a chunk a byte
    PAGODA_TRY_STATUS(rt.step(static_cast<int64_t>(line.size() / 8 + 1)));
    if (!std::exchange(first, false)) out.add(separator);
    bool first_part = true;
    for (const Str& part : wrap_line(line, width, !call.has(1) || call.flag(1), !call.has(3) || call.flag(3))) {
      if (!std::exchange(first_part, false)) out.add(separator);
      out.add(part);
    }
  }
  return text.made(rt, out.take());
}

Result<Value> format_filter(Runtime& rt, Call& call) {
  if (!call.raw.positional.empty() && !call.raw.named.empty())
    return failed("can't handle positional and keyword arguments at the same time");
  PAGODA_TRY(const Subject text, subject(rt, call));
  if (call.raw.named.empty()) return percent_format(rt, text.value, rt.tuple(std::move(call.raw.positional)));
  auto dict = std::make_shared<DictObject>();
  for (auto& [name, value] : call.raw.named) dict->set(rt.str(name), std::move(value));
  return percent_format(rt, text.value, rt.dict(std::move(dict)));
}

Result<Value> string(Runtime& rt, Call& call) { return soft_str(rt, call.self); }

Result<Value> pprint(Runtime& rt, Call& call) {
  Builder out(rt);
  PAGODA_TRY_STATUS(append_repr(rt, call.self, out));
  return rt.str(out.take());
}

constexpr Builtin kTextFilters[] = {
    {"capitalize", "", 0, capitalize_filter},
    {"center", "width", 0, center},
    {"format", "*", 0, format_filter},
    {"indent", "width first blank", 0, indent},
    {"lower", "", 0, lower_filter},
    {"pprint", "", 0, pprint},
    {"replace", "old new count", 2, replace_filter},
    {"string", "", 0, string},
    {"title", "", 0, title},
    {"trim", "chars", 0, trim},
    {"truncate", "length killwords end leeway", 0, truncate},
    {"upper", "", 0, upper_filter},
    {"wordcount", "", 0, wordcount},
    {"wordwrap", "width break_long_words wrapstring break_on_hyphens", 0, wordwrap},
};

}  // namespace

std::span<const Builtin> text_filters() { return kTextFilters; }

}  // namespace pagoda::jinja
