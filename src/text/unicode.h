#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pagoda::text {

/// What the pre-tokenizers ask about a code point: Unicode general categories and White_Space, as bits.
using CharClass = uint16_t;
inline constexpr CharClass kUppercase = 1 << 0;    // Lu, Lt
inline constexpr CharClass kLowercase = 1 << 1;    // Ll
inline constexpr CharClass kOtherLetter = 1 << 2;  // Lm, Lo
inline constexpr CharClass kMark = 1 << 3;         // M
inline constexpr CharClass kNumber = 1 << 4;       // N: Nd, Nl, No
inline constexpr CharClass kPunctuation = 1 << 5;  // P
inline constexpr CharClass kSymbol = 1 << 6;       // S
inline constexpr CharClass kWhiteSpace = 1 << 7;   // property White_Space
inline constexpr CharClass kLineBreak = 1 << 8;    // \r, \n
inline constexpr CharClass kHan = 1 << 9;          // script Han
inline constexpr CharClass kLetter = kUppercase | kLowercase | kOtherLetter;

/// U+FFFD, what a reader sees for bytes that are no UTF-8.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
inline constexpr uint32_t kInvalid = 0xFFFFFFFF;

/// One decoded character; `code` is kInvalid and `bytes` the length of the maximal ill-formed subpart (WHATWG, Unicode
/// 3.9 D93b) where the text is no UTF-8.
struct Utf8Char {
  uint32_t code;
  uint32_t bytes;
};

/// Decodes the character at the start of `text` (not empty).
Utf8Char decode_utf8(std::string_view text);

/// Bytes at the end of `text` that could still become one character (0..3).
size_t unfinished_utf8_bytes(std::string_view text);

/// `text` with each maximal ill-formed subpart replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

void append_utf8(uint32_t code, std::string& out);

/// Class of a code point; 0 for unassigned ones, controls and kInvalid.
CharClass char_class(uint32_t code);

/// Classes of the 128 ASCII characters: the scanners' fast path.
extern const std::array<CharClass, 128> kAsciiClass;

/// Canonical composition (NFC). Ill-formed bytes are kept as they are. O(n log n) even for endless runs of marks.
/// Source: UAX #15; tables by utf8proc.
std::string nfc(std::string_view text);

}  // namespace pagoda::text
