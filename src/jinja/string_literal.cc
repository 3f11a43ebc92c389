#include "jinja/string_literal.h"

#include <charconv>

#include "jinja/utf8.h"

namespace pagoda::jinja {
namespace {

Error bad_escape(std::string message) { return Error{Code::kInvalidRequest, std::move(message)}; }

char simple_escape(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return c;
    default:
      return 0;
  }
}

// \xHH, \uHHHH, \UHHHHHHHH; pos is at the letter and moves to the last digit.
Status hex_escape(std::string_view text, size_t& pos, std::string& out) {
  const char letter = text[pos];
  const size_t count = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
  uint32_t code = 0;
  const std::string_view digits = text.substr(pos + 1, count);
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (digits.size() < count || result.ptr != digits.data() + count)
    return bad_escape(std::string("truncated \\") + letter + " escape");
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return bad_escape("illegal Unicode character");
  utf8::append(out, code);
  pos += count;
  return ok_status();
}

}  // namespace

Result<std::string> unescape_literal(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size(); ++pos) {
    if (text[pos] != '\\' || pos + 1 == text.size()) {
      out.push_back(text[pos]);
      continue;
    }
    const char c = text[++pos];
    if (const char simple = simple_escape(c)) {
      out.push_back(simple);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      PAGODA_TRY_STATUS(hex_escape(text, pos, out));
    } else if (c >= '0' && c <= '7') {
      char32_t code = 0;
      size_t end = pos;
      for (; end < text.size() && end < pos + 3 && text[end] >= '0' && text[end] <= '7'; ++end)
        code = code * 8 + static_cast<char32_t>(text[end] - '0');
      utf8::append(out, code);
      pos = end - 1;
    } else if (c == 'N') {
      return bad_escape("character names in \\N{...} are not known here");
    } else if (c != '\n') {
      out.push_back('\\');
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace pagoda::jinja
