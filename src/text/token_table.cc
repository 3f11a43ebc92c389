#include "text/token_table.h"

#include <array>

#include "text/unicode.h"

namespace pagoda::text {
namespace {

constexpr uint32_t kAlphabetEnd = 0x144;  // 188 printable bytes as themselves, 68 more from U+0100

constexpr bool printable_byte(uint32_t b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; }

// Code point -> byte, -1 where the alphabet has none.
constexpr std::array<int16_t, kAlphabetEnd> make_alphabet() {
  std::array<int16_t, kAlphabetEnd> byte_of{};
  for (auto& b : byte_of) b = -1;
  uint32_t next = 0x100;
  for (uint32_t b = 0; b < 256; ++b) byte_of[printable_byte(b) ? b : next++] = static_cast<int16_t>(b);
  return byte_of;
}
constexpr std::array<int16_t, kAlphabetEnd> kByteOf = make_alphabet();

}  // namespace

bool append_alphabet_bytes(std::string_view printable, std::string& out) {
  const size_t before = out.size();
  while (!printable.empty()) {
    const Utf8Char c = decode_utf8(printable);
    if (c.code >= kAlphabetEnd || kByteOf[c.code] < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(kByteOf[c.code]));
    printable.remove_prefix(c.bytes);
  }
  return true;
}

TokenTable::TokenTable(const VocabSpec& spec, Spelling spelling)
    : spelling_(spelling), types_(spec.types), index_(spec.tokens.size()) {
  types_.resize(spec.tokens.size(), TokenType::kNormal);
  size_t total = 0;
  for (const std::string& token : spec.tokens) total += token.size();
  arena_.reserve(total);
  begin_.reserve(spec.tokens.size() + 1);
  begin_.push_back(0);
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    // A token that is not spelled in the alphabet (an added one, in files that mark it as normal) stands for itself.
    if (spelling == Spelling::kPlain || !ordinary(static_cast<TokenId>(i)) ||
        !append_alphabet_bytes(spec.tokens[i], arena_))
      arena_.append(spec.tokens[i]);
    begin_.push_back(arena_.size());
  }
  for (TokenId id = 0; id < size(); ++id) {
    if (!ordinary(id) || bytes(id).empty()) continue;
    bytes_max_ = std::max(bytes_max_, bytes(id).size());
    index_.add(bytes(id), id, [this](TokenId other) { return bytes(other); });
  }
}

}  // namespace pagoda::text
