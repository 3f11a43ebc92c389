#include "text/detokenizer.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"

namespace pagoda::text {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special, bool at_start, std::span<const TokenId> shown)
    : tokenizer_(tokenizer),
      skip_special_(skip_special),
      at_start_(at_start && tokenizer.strips_first_blank()),
      shown_(shown) {}

std::string Detokenizer::push(TokenId id) {
  if (!tokenizer_.valid(id)) return {};
  if (skip_special_ && tokenizer_.is_control(id) && !std::binary_search(shown_.begin(), shown_.end(), id)) return {};
  std::string bytes = tokenizer_.token_bytes(id);
  if (bytes.empty()) return {};
  if (std::exchange(at_start_, false) && bytes[0] == ' ' && !tokenizer_.is_control(id)) bytes.erase(0, 1);
  held_ += bytes;
  const size_t unfinished = unfinished_utf8_bytes(held_);
  std::string out = replace_invalid_utf8(std::string_view(held_).substr(0, held_.size() - unfinished));
  held_.erase(0, held_.size() - unfinished);
  return out;
}

std::string Detokenizer::finish() { return replace_invalid_utf8(std::exchange(held_, {})); }

}  // namespace pagoda::text
