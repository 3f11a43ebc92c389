#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "jinja/runtime.h"
#include "jinja/utf8.h"

namespace pagoda::jinja {

/// Origin-keeping text operations with Python's semantics, shared by str's methods and the filters.
enum class Side : uint8_t { kBoth, kLeft, kRight };

/// strip(): white space, or the characters of `chars`.
Str strip(const Str& str, Side side, std::optional<std::string_view> chars);
/// split(): at white space if `separator` is empty optional; at most `limit` cuts (-1: all), from the right if
/// `from_right`.
Result<std::vector<Str>> split(Runtime& rt, const Str& str, std::optional<std::string_view> separator, int64_t limit,
                               bool from_right);
Result<std::vector<Str>> split_lines(Runtime& rt, const Str& str, bool keep_ends);
/// replace(): at most `limit` times (-1: all).
Result<Str> replace(Runtime& rt, const Str& str, std::string_view old, const Str& with, int64_t limit);
Str upper(Runtime& rt, const Str& str);
Str lower(Runtime& rt, const Str& str);
/// First character in title case, the rest lower.
Str capitalize(Runtime& rt, const Str& str);
/// Pads with `fill` to `width` characters; `left` of the padding goes to the left, in the proportion Python's center()
/// uses.
Result<Str> pad(Runtime& rt, const Str& str, int64_t width, const Str& fill, char align);

/// Calls fn(std::string& out, char32_t c, size_t pos) for each character; what it appends takes the character's origin.
template <class Fn>
Str map_chars(Runtime& rt, const Str& str, Fn fn) {
  Builder out(rt);
  std::string piece;
  const std::string_view text = str.view();
  for (size_t pos = 0; pos < text.size(); pos += utf8::char_bytes(text, pos)) {
    piece.clear();
    fn(piece, utf8::decode(text, pos), pos);
    out.add(piece, str.from_input(pos));
  }
  return out.take();
}

}  // namespace pagoda::jinja
