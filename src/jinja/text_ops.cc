#include "jinja/text_ops.h"

#include <algorithm>
#include <limits>

namespace pagoda::jinja {
namespace {

bool has_char(std::string_view set, std::string_view one) {
  for (size_t pos = 0; pos < set.size(); pos += utf8::char_bytes(set, pos))
    if (set.substr(pos, utf8::char_bytes(set, pos)) == one) return true;
  return false;
}

size_t previous_char(std::string_view text, size_t end) {
  size_t pos = end - 1;
  while (pos > 0 && (static_cast<unsigned char>(text[pos]) & 0xC0) == 0x80) --pos;
  return pos;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

constexpr size_t kPartBytes = sizeof(StringObject);

size_t parts_room(Runtime& rt) {
  const Account& account = rt.account();
  return static_cast<size_t>(std::max<int64_t>(account.limit_bytes - account.used_bytes, 0)) / kPartBytes;
}

struct Range {
  size_t begin;
  size_t end;
};

// Words between white space; with a limit, the rest keeps its inner white space.
std::vector<Range> split_at_space(std::string_view text, int64_t limit, size_t most) {
  std::vector<Range> out;
  size_t pos = 0;
  const auto skip = [&](bool space) {
    while (pos < text.size() && utf8::is_space(utf8::decode(text, pos)) == space) pos += utf8::char_bytes(text, pos);
  };
  for (;;) {
    skip(true);
    if (pos >= text.size() || out.size() > most) return out;
    const size_t begin = pos;
    if (limit >= 0 && static_cast<int64_t>(out.size()) == limit) {
      size_t end = text.size();
      while (end > begin && utf8::is_space(utf8::decode(text, previous_char(text, end))))
        end = previous_char(text, end);
      out.push_back({begin, end});
      return out;
    }
    skip(false);
    out.push_back({begin, pos});
  }
}

std::vector<Range> split_at_space_from_right(std::string_view text, int64_t limit, size_t most) {
  std::vector<Range> words = split_at_space(text, -1, most);
  if (limit < 0 || static_cast<int64_t>(words.size()) <= limit) return words;
  const size_t merged = words.size() - static_cast<size_t>(limit);
  const Range head{0, words[merged - 1].end};
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(merged));
  words.insert(words.begin(), head);
  return words;
}

std::vector<Range> split_at(std::string_view text, std::string_view separator, int64_t limit, bool from_right,
                            size_t most) {
  if (limit < 0) limit = static_cast<int64_t>(most);
  std::vector<size_t> cuts;
  if (from_right) {
    size_t end = text.size();
    while (static_cast<int64_t>(cuts.size()) < limit && end >= separator.size()) {
      const size_t at = text.rfind(separator, end - separator.size());
      if (at == std::string_view::npos) break;
      cuts.push_back(at);
      end = at;
    }
    std::reverse(cuts.begin(), cuts.end());
  } else {
    for (size_t at = text.find(separator); at != std::string_view::npos;
         at = text.find(separator, at + separator.size())) {
      if (static_cast<int64_t>(cuts.size()) >= limit) break;
      cuts.push_back(at);
    }
  }
  std::vector<Range> out;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    out.push_back({begin, cut});
    begin = cut + separator.size();
  }
  out.push_back({begin, text.size()});
  return out;
}

}  // namespace

Str strip(const Str& str, Side side, std::optional<std::string_view> chars) {
  const std::string_view text = str.view();
  size_t begin = 0;
  size_t end = text.size();
  const auto drop = [&](size_t pos) {
    if (chars) return has_char(*chars, text.substr(pos, utf8::char_bytes(text, pos)));
    return utf8::is_space(utf8::decode(text, pos));
  };
  if (side != Side::kRight)
    while (begin < end && drop(begin)) begin += utf8::char_bytes(text, begin);
  if (side != Side::kLeft)
    while (end > begin && drop(previous_char(text, end))) end = previous_char(text, end);
  return str.substr(begin, end - begin);
}

Result<std::vector<Str>> split(Runtime& rt, const Str& str, std::optional<std::string_view> separator, int64_t limit,
                               bool from_right) {
  if (separator && separator->empty()) return failed("empty separator");
  const std::string_view text = str.view();
  // One part more than memory has room for ends the search: what follows refuses it.
  const size_t most = parts_room(rt);
  const std::vector<Range> ranges = separator    ? split_at(text, *separator, limit, from_right, most)
                                    : from_right ? split_at_space_from_right(text, limit, most)
                                                 : split_at_space(text, limit, most);
  PAGODA_TRY_STATUS(rt.step(static_cast<int64_t>(ranges.size())));
  PAGODA_TRY_STATUS(rt.reserve(static_cast<int64_t>(ranges.size() * kPartBytes)));
  std::vector<Str> out;
  for (const Range& range : ranges) out.push_back(str.substr(range.begin, range.end - range.begin));
  return out;
}

Result<std::vector<Str>> split_lines(Runtime& rt, const Str& str, bool keep_ends) {
  const size_t most = parts_room(rt);
  const std::string_view text = str.view();
  std::vector<Str> out;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    size_t next = pos + utf8::char_bytes(text, pos);
    if (!is_line_break(utf8::decode(text, pos))) {
      pos = next;
      continue;
    }
    if (text[pos] == '\r' && next < text.size() && text[next] == '\n') ++next;
    if (out.size() > most) break;
    out.push_back(str.substr(begin, (keep_ends ? next : pos) - begin));
    begin = pos = next;
  }
  if (begin < text.size()) out.push_back(str.substr(begin, text.size() - begin));
  PAGODA_TRY_STATUS(rt.step(static_cast<int64_t>(out.size())));
  PAGODA_TRY_STATUS(rt.reserve(static_cast<int64_t>(out.size() * kPartBytes)));
  return out;
}

Result<Str> replace(Runtime& rt, const Str& str, std::string_view old, const Str& with, int64_t limit) {
  const std::string_view text = str.view();
  if (limit < 0) limit = std::numeric_limits<int64_t>::max();
  Builder out(rt);
  size_t pos = 0;
  if (old.empty()) {  // between all characters, and at both ends
    for (; limit > 0 && pos <= text.size(); --limit) {
      out.add(with);
      if (pos == text.size()) break;
      const size_t bytes = utf8::char_bytes(text, pos);
      out.add(str, pos, bytes);
      pos += bytes;
    }
  }
  for (; !old.empty() && limit > 0; --limit) {
    const size_t found = text.find(old, pos);
    if (found == std::string_view::npos) break;
    out.add(str, pos, found - pos);
    out.add(with);
    pos = found + old.size();
  }
  out.add(str, pos, text.size() - pos);
  PAGODA_TRY_STATUS(rt.step());
  return out.take();
}

Str upper(Runtime& rt, const Str& str) {
  return map_chars(rt, str, [](std::string& out, char32_t c, size_t) { utf8::append_upper(out, c); });
}

Str lower(Runtime& rt, const Str& str) {
  const std::string_view text = str.view();
  return map_chars(rt, str, [text](std::string& out, char32_t c, size_t pos) {
    constexpr char32_t kSigma = 0x3A3;
    if (c != kSigma) return utf8::append_lower(out, c);
    // A sigma that ends a word has a form of its own.
    const size_t next = pos + utf8::char_bytes(text, pos);
    const bool after_letter = pos > 0 && utf8::is_cased(utf8::decode(text, previous_char(text, pos)));
    const bool before_letter = next < text.size() && utf8::is_cased(utf8::decode(text, next));
    utf8::append(out, after_letter && !before_letter ? U'\u03C2' : U'\u03C3');
  });
}

Str capitalize(Runtime& rt, const Str& str) {
  if (str.empty()) return str;
  const size_t first = utf8::char_bytes(str.view(), 0);
  Builder out(rt);
  out.add(map_chars(rt, str.substr(0, first),
                    [](std::string& piece, char32_t c, size_t) { utf8::append_title(piece, c); }));
  out.add(lower(rt, str.substr(first, str.size() - first)));
  return out.take();
}

Result<Str> pad(Runtime& rt, const Str& str, int64_t width, const Str& fill, char align) {
  if (utf8::length(fill.view()) != 1) return failed("The fill character must be exactly one character long");
  const int64_t missing = width - utf8::length(str.view());
  if (missing <= 0) return str;
  if (missing > INT32_MAX) PAGODA_TRY_STATUS(rt.reserve(missing));
  PAGODA_TRY_STATUS(rt.reserve(missing * static_cast<int64_t>(fill.size())));
  // Python's center() puts the odd one left only if both the padding and the width are odd.
  const int64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2 + (missing & width & 1);
  Builder out(rt);
  for (int64_t i = 0; i < left; ++i) out.add(fill);
  out.add(str);
  for (int64_t i = left; i < missing; ++i) out.add(fill);
  return out.take();
}

}  // namespace pagoda::jinja
