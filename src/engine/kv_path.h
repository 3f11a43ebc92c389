#pragma once
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.h"

namespace pagoda::engine {

/// A SHA-256.
struct Digest {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const Digest&) const = default;
};

/// The first `bytes` of it, lower case.
std::string hex(const Digest& digest, size_t bytes = 32);
Digest sha256(std::span<const std::byte> bytes);

/// What a KV block outside the pool goes by. Its path digest stands for everything that its bytes depend on: the
/// fingerprint of model and numbers, adapter, salt, and all tokens up to its last, block by block: digest i is the
/// SHA-256 of digest i - 1 and the 16 tokens of block i, digest -1 (the space) that of the other three.
struct BlockName {
  Digest space;
  Digest parent;  // path digest of the block before it; the space's for the first
  Digest path;
  int32_t index;  // of the block in its path: it holds tokens [16 index, 16 index + 16)
  std::array<TokenId, kBlockTokens> tokens;

  bool operator==(const BlockName&) const = default;
};

/// Lengths go before texts, so that neither adapter nor salt can pose as the other.
Digest space_digest(const Digest& fingerprint, std::string_view adapter, std::string_view salt);
/// The path digest of the block that holds these 16 tokens after `parent`.
Digest path_digest(const Digest& parent, std::span<const TokenId> tokens);
/// The names of blocks [0, tokens / 16): O(tokens). `known` holds the first of them already and is extended.
void extend_names(const Digest& space, std::span<const TokenId> tokens, std::vector<BlockName>& known);

}  // namespace pagoda::engine
