#include "jinja/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

namespace pagoda::jinja::utf8 {
namespace {

struct SpecialCase {
  char32_t code_point;
  const char* upper;
  const char* title;
};

constexpr SpecialCase kSpecialCases[] = {
#include "jinja/special_casing.inc"
};

const SpecialCase* special_case(char32_t c) {
  if (c < 0xDF) return nullptr;
  const auto* found =
      std::lower_bound(std::begin(kSpecialCases), std::end(kSpecialCases), c,
                       [](const SpecialCase& entry, char32_t wanted) { return entry.code_point < wanted; });
  return found != std::end(kSpecialCases) && found->code_point == c ? found : nullptr;
}

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

char32_t simple(utf8proc_int32_t (*map)(utf8proc_int32_t), char32_t c) {
  return static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(c)));
}

}  // namespace

size_t char_bytes(std::string_view text, size_t pos) {
  const auto lead = static_cast<unsigned char>(text[pos]);
  const size_t want = lead < 0x80 ? 1 : lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF8 ? 4 : 1;
  return std::min(want, text.size() - pos);
}

char32_t decode(std::string_view text, size_t pos) {
  utf8proc_int32_t out = 0;
  const auto left = static_cast<utf8proc_ssize_t>(text.size() - pos);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + pos);
  if (utf8proc_iterate(bytes, left, &out) <= 0) return static_cast<unsigned char>(text[pos]);
  return static_cast<char32_t>(out);
}

void append(std::string& out, char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

int64_t length(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

size_t offset(std::string_view text, int64_t index) {
  size_t pos = 0;
  for (; index > 0 && pos < text.size(); --index) pos += char_bytes(text, pos);
  return pos;
}

bool valid(std::string_view text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  utf8proc_int32_t unused = 0;
  for (size_t pos = 0; pos < text.size();) {
    const auto used = utf8proc_iterate(bytes + pos, static_cast<utf8proc_ssize_t>(text.size() - pos), &unused);
    if (used <= 0) return false;
    pos += static_cast<size_t>(used);
  }
  return true;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || category(c) == UTF8PROC_CATEGORY_ZS || c == 0x2028 || c == 0x2029;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_alpha(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C);
}

bool is_alnum(char32_t c) {
  const auto kind = category(c);
  return is_alpha(c) || is_digit(c) || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA; }
bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT; }

bool is_identifier(std::string_view text) {
  for (size_t pos = 0; pos < text.size(); pos += char_bytes(text, pos)) {
    const char32_t c = decode(text, pos);
    const auto kind = category(c);
    const bool start = c == '_' || is_alpha(c) || kind == UTF8PROC_CATEGORY_NL;
    const bool inside = kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_ND ||
                        kind == UTF8PROC_CATEGORY_PC || c == 0xB7;
    if (!start && !(inside && pos > 0)) return false;
  }
  return !text.empty();
}

void append_upper(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c));
  } else if (const SpecialCase* special = special_case(c)) {
    out.append(special->upper);
  } else {
    append(out, simple(utf8proc_toupper, c));
  }
}

void append_lower(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  } else if (c == 0x130) {
    out.append("i\u0307");
  } else {
    append(out, simple(utf8proc_tolower, c));
  }
}

void append_folded(std::string& out, char32_t c) {
  utf8proc_int32_t folded[4];
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded, 4, UTF8PROC_CASEFOLD, nullptr);
  for (utf8proc_ssize_t i = 0; i < count; ++i) append(out, static_cast<char32_t>(folded[i]));
}

void append_title(std::string& out, char32_t c) {
  if (const SpecialCase* special = special_case(c)) {
    out.append(special->title);
  } else {
    append(out, simple(utf8proc_totitle, c));
  }
}

}  // namespace pagoda::jinja::utf8
