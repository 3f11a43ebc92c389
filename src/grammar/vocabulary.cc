#include "grammar/vocabulary.h"

#include <algorithm>
#include <numeric>

namespace pagoda::grammar {
namespace {

constexpr size_t kTokenBytesMax = 60'000;

}  // namespace

Vocabulary::Vocabulary(const text::Tokenizer& tokenizer) {
  for (TokenId id = 0; id < tokenizer.size(); ++id) {
    const bool in_text = !tokenizer.is_control(id) && !tokenizer.is_end_of_generation(id);
    bytes_.push_back(in_text ? tokenizer.token_bytes(id) : std::string());
  }
  build();
}

Vocabulary::Vocabulary(const std::vector<std::string>& tokens) : bytes_(tokens) { build(); }

void Vocabulary::build() {
  size_ = static_cast<int32_t>(bytes_.size());
  for (const std::string& bytes : bytes_)
    if (bytes.size() > kTokenBytesMax) bytes_[static_cast<size_t>(&bytes - bytes_.data())].clear();
  std::vector<TokenId> order(bytes_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [this](TokenId a, TokenId b) { return bytes(a) < bytes(b); });
  nodes_.push_back({0, 0, 0, 0, 0});
  std::vector<int32_t> path{kRoot};  // nodes of the last token's bytes
  const std::string* last = nullptr;
  for (const TokenId id : order) {
    const std::string& text = bytes(id);
    if (text.empty()) continue;
    size_t shared = 0;
    if (last != nullptr)
      while (shared < text.size() && shared < last->size() && text[shared] == (*last)[shared]) ++shared;
    while (path.size() > shared + 1) {
      nodes_[static_cast<size_t>(path.back())].end = static_cast<int32_t>(nodes_.size());
      path.pop_back();
    }
    for (size_t i = shared; i < text.size(); ++i) {
      path.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back(
          {0, static_cast<int32_t>(tokens_.size()), static_cast<uint16_t>(i + 1), static_cast<uint8_t>(text[i]), 0});
    }
    Node& node = nodes_[static_cast<size_t>(path.back())];
    if (node.tokens < 255) {
      ++node.tokens;
      tokens_.push_back(id);
    }
    longest_ = std::max(longest_, static_cast<int32_t>(text.size()));
    last = &text;
  }
  for (const int32_t node : path) nodes_[static_cast<size_t>(node)].end = static_cast<int32_t>(nodes_.size());
}

}  // namespace pagoda::grammar
