#include "text/charsmap.h"

#include <cstring>

#include "text/unicode.h"

namespace pagoda::text {
namespace {

// A darts-clone unit: offset in bits 10..30 (times 256 if bit 9 is set), bit 8 says that a value hangs below, bits 0..7
// and the leaf bit 31 are the label.
constexpr uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
constexpr uint32_t label_of(uint32_t unit) { return unit & (0x80000000u | 0xFF); }
constexpr bool has_value(uint32_t unit) { return (unit >> 8 & 1) != 0; }
constexpr uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFFu; }

}  // namespace

Result<Charsmap> Charsmap::parse(std::string_view blob) {
  Charsmap map;
  if (blob.empty()) return map;
  const auto corrupt = [](const std::string& why) {
    return Error{Code::kCorruptFile, "precompiled_charsmap " + why, "tokenizer.ggml.precompiled_charsmap"};
  };
  uint32_t trie_bytes = 0;
  if (blob.size() < sizeof trie_bytes)
    return corrupt("has " + std::to_string(blob.size()) + " bytes, at least 4 are needed");
  std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
  blob.remove_prefix(sizeof trie_bytes);
  if (trie_bytes > blob.size() || trie_bytes % 4 != 0 || trie_bytes == 0)
    return corrupt("names a trie of " + std::to_string(trie_bytes) + " bytes, " + std::to_string(blob.size()) +
                   " are left");
  map.units_.resize(trie_bytes / 4);
  std::memcpy(map.units_.data(), blob.data(), trie_bytes);
  map.replacements_ = std::string(blob.substr(trie_bytes));
  return map;
}

std::string_view Charsmap::normalize_prefix(std::string_view text, size_t& consumed) const {
  const Utf8Char first = decode_utf8(text);
  consumed = first.bytes;
  std::string_view found = first.code == kInvalid ? kReplacement : text.substr(0, first.bytes);
  if (units_.empty()) return found;
  uint32_t node = offset_of(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const uint32_t byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_value(unit)) continue;
    if (node >= units_.size()) break;
    const size_t at = value_of(units_[node]);
    const size_t end = at < replacements_.size() ? replacements_.find('\0', at) : std::string::npos;
    if (end == std::string::npos) break;
    found = std::string_view(replacements_).substr(at, end - at);
    consumed = i + 1;
  }
  return found;
}

}  // namespace pagoda::text
