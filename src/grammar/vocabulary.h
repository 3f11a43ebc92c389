#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/ids.h"
#include "text/tokenizer.h"

namespace pagoda::grammar {

/// The bytes of a model's tokens as a tree in depth-first order: all tokens that begin alike are walked once. Control
/// tokens are in no text, so they are left out. Immutable; share it.
class Vocabulary {
 public:
  explicit Vocabulary(const text::Tokenizer& tokenizer);
  /// For tests: the tokens' bytes by id; empty ones are left out.
  explicit Vocabulary(const std::vector<std::string>& tokens);

  struct Node {
    int32_t end;          // one past the last node below this one
    int32_t first_token;  // [first_token, first_token + tokens) in tokens()
    uint16_t depth;       // bytes from the root
    uint8_t byte;
    uint8_t tokens;  // of exactly these bytes; more than 255 do not occur in one vocabulary, and then some are left out
  };
  static constexpr int32_t kRoot = 0;
  const std::vector<Node>& nodes() const { return nodes_; }
  std::span<const TokenId> tokens(const Node& node) const {
    return std::span(tokens_).subspan(static_cast<size_t>(node.first_token), node.tokens);
  }
  int32_t size() const { return size_; }  // ids are below it
  /// The bytes of a token; "" for those left out.
  const std::string& bytes(TokenId id) const { return bytes_[static_cast<size_t>(id)]; }
  int32_t longest_token() const { return longest_; }

 private:
  void build();
  std::vector<std::string> bytes_;
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
  int32_t size_ = 0;
  int32_t longest_ = 0;
};

}  // namespace pagoda::grammar
