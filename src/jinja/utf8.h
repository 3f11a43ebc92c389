#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace pagoda::jinja::utf8 {

/// Bytes of the character that starts at text[pos]; 1 for a byte that starts none, so that loops always advance.
size_t char_bytes(std::string_view text, size_t pos);
/// The code point that starts at text[pos]; the byte's value if none does.
char32_t decode(std::string_view text, size_t pos);
void append(std::string& out, char32_t code_point);
/// Characters in `text`.
int64_t length(std::string_view text);
/// Byte offset of character `index` in [0, length]; size() when it is past the end.
size_t offset(std::string_view text, int64_t index);
bool valid(std::string_view text);

/// Python's str.isspace() of one character.
bool is_space(char32_t c);
/// Python's str.isprintable() of one character: others are escaped by repr().
bool is_printable(char32_t c);
bool is_alpha(char32_t c);
bool is_digit(char32_t c);  // Nd and the digits that int() refuses but isdigit() takes
bool is_decimal(char32_t c);
bool is_alnum(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_cased(char32_t c);
/// Python's identifier rule (XID_Start or '_', then XID_Continue), by general category.
bool is_identifier(std::string_view text);

/// Full case mappings of one character, appended to `out` (one character can become three: "ß" -> "SS").
void append_upper(std::string& out, char32_t c);
void append_lower(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);
/// Full case folding.
void append_folded(std::string& out, char32_t c);

}  // namespace pagoda::jinja::utf8
