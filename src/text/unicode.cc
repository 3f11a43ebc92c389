#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace pagoda::text {
namespace {

constexpr uint32_t kCodePoints = 0x110000;
constexpr uint32_t kPage = 256;

CharClass class_of_category(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return kUppercase;
    case UTF8PROC_CATEGORY_LL:
      return kLowercase;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kOtherLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return kPunctuation;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return kSymbol;
    default:
      return 0;
  }
}

// White_Space, PropList.txt: 25 code points. Not a category: U+0085 is Cc and U+180E, U+200B are not in it.
constexpr bool is_white_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// Script=Han, Scripts.txt (Unicode 15).
constexpr bool is_han(uint32_t c) {
  constexpr uint32_t kRanges[][2] = {{0x2E80, 0x2E99},   {0x2E9B, 0x2EF3},   {0x2F00, 0x2FD5},   {0x3005, 0x3005},
                                     {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303B},   {0x3400, 0x4DBF},
                                     {0x4E00, 0x9FFF},   {0xF900, 0xFA6D},   {0xFA70, 0xFAD9},   {0x16FE2, 0x16FE3},
                                     {0x16FF0, 0x16FF1}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B739}, {0x2B740, 0x2B81D},
                                     {0x2B820, 0x2CEA1}, {0x2CEB0, 0x2EBE0}, {0x2F800, 0x2FA1D}, {0x30000, 0x3134A},
                                     {0x31350, 0x323AF}};
  for (const auto& range : kRanges)
    if (c >= range[0] && c <= range[1]) return true;
  return false;
}

CharClass compute_class(uint32_t c) {
  CharClass bits = class_of_category(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
  if (is_white_space(c)) bits = static_cast<CharClass>(bits | kWhiteSpace);
  if (c == '\r' || c == '\n') bits = static_cast<CharClass>(bits | kLineBreak);
  if (c >= 0x2E80 && is_han(c)) bits = static_cast<CharClass>(bits | kHan);
  return bits;
}

// Two stages, equal pages shared: about 60 KiB instead of 2 MiB, and two loads instead of utf8proc's call.
class ClassTable {
 public:
  ClassTable() {
    std::array<CharClass, kPage> page;
    for (uint32_t p = 0; p < kCodePoints / kPage; ++p) {
      for (uint32_t i = 0; i < kPage; ++i) page[i] = compute_class(p * kPage + i);
      auto same = std::find(pages_.begin(), pages_.end(), page);
      // Neighbours repeat (CJK, private use), so the search seldom goes far.
      stage_[p] = static_cast<uint16_t>(same - pages_.begin());
      if (same == pages_.end()) pages_.push_back(page);
    }
  }
  CharClass at(uint32_t c) const { return pages_[stage_[c / kPage]][c % kPage]; }

 private:
  std::array<uint16_t, kCodePoints / kPage> stage_{};
  std::vector<std::array<CharClass, kPage>> pages_;
};

const ClassTable& table() {
  static const ClassTable instance;  // constant after construction: no state to share between models
  return instance;
}

std::array<CharClass, 128> ascii_classes() {
  std::array<CharClass, 128> classes{};
  for (uint32_t c = 0; c < 128; ++c) classes[c] = compute_class(c);
  return classes;
}

// Length and allowed second byte by lead byte: Unicode table 3-7.
struct Lead {
  uint32_t length;
  uint8_t second_min, second_max;
};
constexpr Lead lead_of(uint8_t b) {
  if (b < 0x80) return {1, 0, 0};
  if (b >= 0xC2 && b <= 0xDF) return {2, 0x80, 0xBF};
  if (b == 0xE0) return {3, 0xA0, 0xBF};
  if (b == 0xED) return {3, 0x80, 0x9F};
  if (b >= 0xE1 && b <= 0xEF) return {3, 0x80, 0xBF};
  if (b == 0xF0) return {4, 0x90, 0xBF};
  if (b >= 0xF1 && b <= 0xF3) return {4, 0x80, 0xBF};
  if (b == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Well-formed bytes of the character that starts at text[0]: its whole length, or less if it breaks off.
uint32_t well_formed_prefix(std::string_view text, const Lead& lead) {
  uint32_t n = 1;
  while (n < lead.length && n < text.size()) {
    const uint8_t b = static_cast<uint8_t>(text[n]);
    const uint8_t low = n == 1 ? lead.second_min : 0x80, high = n == 1 ? lead.second_max : 0xBF;
    if (b < low || b > high) break;
    ++n;
  }
  return n;
}

}  // namespace

const std::array<CharClass, 128> kAsciiClass = ascii_classes();

Utf8Char decode_utf8(std::string_view text) {
  const uint8_t first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return {first, 1};
  const Lead lead = lead_of(first);
  if (lead.length == 0) return {kInvalid, 1};
  const uint32_t n = well_formed_prefix(text, lead);
  if (n < lead.length) return {kInvalid, n};
  uint32_t code = first & (0xFFu >> (lead.length + 1));
  for (uint32_t i = 1; i < n; ++i) code = code << 6 | (static_cast<uint8_t>(text[i]) & 0x3Fu);
  return {code, n};
}

size_t unfinished_utf8_bytes(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    const uint8_t b = static_cast<uint8_t>(tail[0]);
    if ((b & 0xC0) == 0x80) continue;  // a continuation byte: its lead is further left
    const Lead lead = lead_of(b);
    return lead.length > back && well_formed_prefix(tail, lead) == back ? back : 0;
  }
  return 0;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    out.append(c.code == kInvalid ? kReplacement : text.substr(0, c.bytes));
    text.remove_prefix(c.bytes);
  }
  return out;
}

void append_utf8(uint32_t code, std::string& out) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
}

CharClass char_class(uint32_t code) {
  if (code < 128) return kAsciiClass[code];
  return code < kCodePoints ? table().at(code) : CharClass{0};
}

namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// utf8proc's own reordering is an insertion sort: a megabyte of alternating marks would take hours.
void reorder_marks(std::vector<utf8proc_int32_t>& codes) {
  for (size_t i = 0; i < codes.size();) {
    size_t end = i;
    while (end < codes.size() && combining_class(codes[end]) != 0) ++end;
    if (end - i > 1)
      std::stable_sort(codes.begin() + static_cast<ptrdiff_t>(i), codes.begin() + static_cast<ptrdiff_t>(end),
                       [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    i = end + 1;
  }
}

// `text` is well-formed.
void append_nfc(std::string_view text, std::string& out) {
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size() + 8);
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    utf8proc_int32_t parts[8];
    int boundary = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code), parts, 8,
                                                       static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE), &boundary);
    codes.insert(codes.end(), parts, parts + std::clamp<utf8proc_ssize_t>(n, 0, 8));
    text.remove_prefix(c.bytes);
  }
  reorder_marks(codes);
  const utf8proc_ssize_t n =
      utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  for (utf8proc_ssize_t i = 0; i < n; ++i) append_utf8(static_cast<uint32_t>(codes[static_cast<size_t>(i)]), out);
}

}  // namespace

std::string nfc(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text.substr(i));
    if (c.code == kInvalid) {
      append_nfc(text.substr(begin, i - begin), out);
      out.append(text.substr(i, c.bytes));
      begin = i + c.bytes;
    }
    i += c.bytes;
  }
  append_nfc(text.substr(begin), out);
  return out;
}

}  // namespace pagoda::text
