#include "engine/kv_path.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

#include "core/check.h"

namespace pagoda::engine {
namespace {

void append_number(std::string& to, uint64_t value) {  // little-endian, whatever the machine
  for (int shift = 0; shift < 64; shift += 8) to.push_back(static_cast<char>(value >> shift & 0xFF));
}
void append_text(std::string& to, std::string_view text) {
  append_number(to, text.size());
  to += text;
}
void append_digest(std::string& to, const Digest& digest) {
  to.append(reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size());
}

}  // namespace

std::string hex(const Digest& digest, size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < std::min(bytes, digest.bytes.size()); ++i) {
    text.push_back(kDigits[digest.bytes[i] >> 4]);
    text.push_back(kDigits[digest.bytes[i] & 15]);
  }
  return text;
}

Digest sha256(std::span<const std::byte> bytes) {
  Digest digest;
  unsigned length = 0;
  const int done = EVP_Digest(bytes.data(), bytes.size(), digest.bytes.data(), &length, EVP_sha256(), nullptr);
  PAGODA_CHECK(done == 1 && length == digest.bytes.size());
  return digest;
}

Digest space_digest(const Digest& fingerprint, std::string_view adapter, std::string_view salt) {
  std::string all = "pagoda kv space 1";
  append_digest(all, fingerprint);
  append_text(all, adapter);
  append_text(all, salt);
  return sha256(std::as_bytes(std::span(all)));
}

Digest path_digest(const Digest& parent, std::span<const TokenId> tokens) {
  PAGODA_CHECK(tokens.size() == kBlockTokens);
  std::array<std::byte, 32 + 4 * kBlockTokens> both{};
  std::memcpy(both.data(), parent.bytes.data(), parent.bytes.size());
  for (size_t i = 0; i < tokens.size(); ++i)
    for (size_t byte = 0; byte < 4; ++byte)
      both[32 + 4 * i + byte] = static_cast<std::byte>(static_cast<uint32_t>(tokens[i]) >> (8 * byte) & 0xFF);
  return sha256(both);
}

void extend_names(const Digest& space, std::span<const TokenId> tokens, std::vector<BlockName>& known) {
  const size_t blocks = tokens.size() / kBlockTokens;
  while (known.size() < blocks) {
    BlockName name{.space = space,
                   .parent = known.empty() ? space : known.back().path,
                   .path = {},
                   .index = static_cast<int32_t>(known.size()),
                   .tokens = {}};
    const auto own = tokens.subspan(known.size() * kBlockTokens, kBlockTokens);
    std::copy(own.begin(), own.end(), name.tokens.begin());
    name.path = path_digest(name.parent, own);
    known.push_back(name);
  }
}

}  // namespace pagoda::engine
