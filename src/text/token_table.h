#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "text/flat_index.h"
#include "text/vocab.h"

namespace pagoda::text {

/// The bytes of every token of a vocabulary in one arena, and the way back from bytes to id.
///
/// find() sees ordinary tokens only, those that merging a user's characters may yield: never a control token. Ordinary
/// are kNormal and kUnused, in byte-level vocabularies also kByte, in SentencePiece ones also kUserDefined (their kByte
/// tokens are spelled "<0x0A>", which a user may type).
class TokenTable {
 public:
  enum class Spelling { kByteAlphabet, kPlain };

  /// kByteAlphabet: ordinary tokens are stored in GPT-2's printable alphabet and are turned into bytes.
  TokenTable(const VocabSpec& spec, Spelling spelling);

  int32_t size() const { return static_cast<int32_t>(types_.size()); }
  TokenType type(TokenId id) const { return types_[static_cast<size_t>(id)]; }
  bool ordinary(TokenId id) const {
    const TokenType t = type(id);
    return t == TokenType::kNormal || t == TokenType::kUnused ||
           t == (spelling_ == Spelling::kByteAlphabet ? TokenType::kByte : TokenType::kUserDefined);
  }
  std::string_view bytes(TokenId id) const {
    const size_t i = static_cast<size_t>(id);
    return std::string_view(arena_).substr(begin_[i], begin_[i + 1] - begin_[i]);
  }

  /// The ordinary token with these bytes, or kNoToken.
  TokenId find(std::string_view bytes) const {
    if (bytes.size() > bytes_max_) return kNoToken;
    return index_.find(bytes, [this](TokenId id) { return this->bytes(id); });
  }

  size_t token_bytes_max() const { return bytes_max_; }  // longest ordinary token

 private:
  Spelling spelling_;
  std::string arena_;
  std::vector<size_t> begin_;  // [V + 1]
  std::vector<TokenType> types_;
  size_t bytes_max_ = 0;
  StringIndex index_;
};

/// GPT-2's alphabet: each byte has one printable character. Appends the bytes that `printable` spells; false (and
/// nothing appended) when some character is not of the alphabet.
/// Source: Radford et al. 2019; bytes 21-7E, A1-AC, AE-FF are themselves, the others U+0100, U+0101, ... in order.
bool append_alphabet_bytes(std::string_view printable, std::string& out);

}  // namespace pagoda::text
