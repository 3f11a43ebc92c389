#pragma once
#include <string_view>

#include "text/unicode.h"

namespace pagoda::text {

/// The character at a place: `bytes` is 0 at the text's end, `kind` 0 there and for ill-formed bytes.
struct ScannedChar {
  CharClass kind;
  uint32_t bytes;
  uint32_t code;

  bool is(int classes) const { return (kind & classes) != 0; }
  bool exists() const { return bytes > 0; }
  bool exists_outside(int classes) const { return bytes > 0 && (kind & classes) == 0; }
};

inline ScannedChar scan_char(std::string_view text, size_t at) {
  if (at >= text.size()) return {0, 0, 0};
  const uint8_t first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) return {kAsciiClass[first], 1, first};
  const Utf8Char c = decode_utf8(text.substr(at));
  return {char_class(c.code), c.bytes, c.code};
}

/// End of the longest run from `at` of characters that `accept` takes.
template <class Accept>
size_t skip_run(std::string_view text, size_t at, Accept accept) {
  for (ScannedChar c = scan_char(text, at); c.exists() && accept(c); c = scan_char(text, at)) at += c.bytes;
  return at;
}

inline size_t skip_class(std::string_view text, size_t at, int classes) {
  return skip_run(text, at, [classes](const ScannedChar& c) { return c.is(classes); });
}

inline size_t skip_outside(std::string_view text, size_t at, int classes) {
  return skip_run(text, at, [classes](const ScannedChar& c) { return !c.is(classes); });
}

/// `\s+(?!\S)|\s+`: a run of white space gives its last character to the word behind it. text[at] is white space.
inline size_t split_white_space(std::string_view text, size_t at) {
  size_t last = at, end = at;
  for (ScannedChar c = scan_char(text, end); c.is(kWhiteSpace); c = scan_char(text, end)) {
    last = end;
    end += c.bytes;
  }
  return end == text.size() || last == at ? end : last;
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`: up to the last line break of the run, if it has one. text[at] is white space.
inline size_t split_lines_and_space(std::string_view text, size_t at) {
  size_t last = at, end = at, after_break = at;
  for (ScannedChar c = scan_char(text, end); c.is(kWhiteSpace); c = scan_char(text, end)) {
    last = end;
    end += c.bytes;
    if (c.is(kLineBreak)) after_break = end;
  }
  if (after_break > at) return after_break;
  return end == text.size() || last == at ? end : last;
}

}  // namespace pagoda::text
