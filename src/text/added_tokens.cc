#include "text/added_tokens.h"

#include <algorithm>

namespace pagoda::text {
namespace {

std::vector<std::pair<std::string_view, int32_t>> trie_entries(const std::vector<AddedTokens::Entry>& entries) {
  std::vector<std::pair<std::string_view, int32_t>> out;
  for (const AddedTokens::Entry& entry : entries) out.emplace_back(entry.text, static_cast<int32_t>(out.size()));
  return out;
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<Entry>& entries) : trie_(trie_entries(entries)) {
  for (const Entry& entry : entries) {
    leaves_.push_back({entry.id, entry.control, entry.strip_left, entry.strip_right});
    first_bytes_.set(static_cast<uint8_t>(entry.text[0]));
  }
}

AddedTokens::Match AddedTokens::longest_at(std::string_view text, size_t at, size_t control_end) const {
  Match best{{at, at}};
  int32_t node = TokenTrie::kRoot;
  for (size_t i = at; i < text.size(); ++i) {
    node = trie_.child(node, text[i]);
    if (node == TokenTrie::kNone) break;
    const int32_t index = trie_.value(node);
    if (index == TokenTrie::kNone) continue;
    const Leaf& leaf = leaves_[static_cast<size_t>(index)];
    if (leaf.control && i + 1 > control_end) continue;
    best = {{at, i + 1}, leaf.id, leaf.strip_left, leaf.strip_right};
  }
  return best;
}

AddedTokens::Match AddedTokens::next(std::string_view text, size_t from, const std::vector<Span>& control) const {
  if (leaves_.empty()) return {{text.size(), text.size()}};
  auto span = std::partition_point(control.begin(), control.end(), [from](const Span& s) { return s.end <= from; });
  for (size_t at = from; at < text.size(); ++at) {
    if (!first_bytes_[static_cast<uint8_t>(text[at])]) continue;
    while (span != control.end() && span->end <= at) ++span;
    const size_t control_end = span != control.end() && span->begin <= at ? span->end : 0;
    const Match match = longest_at(text, at, control_end);
    if (match.id != kNoToken) return match;
  }
  return {{text.size(), text.size()}};
}

}  // namespace pagoda::text
