#include "text/added_tokens.h"

#include <algorithm>
#include <numeric>

namespace pagoda::text {
namespace {

size_t total_bytes(const std::vector<AddedTokens::Entry>& entries) {
  return std::accumulate(entries.begin(), entries.end(), size_t{0},
                         [](size_t sum, const AddedTokens::Entry& entry) { return sum + entry.text.size(); });
}

uint64_t edge_key(uint32_t node, char byte) { return uint64_t{node} << 8 | static_cast<uint8_t>(byte); }

}  // namespace

AddedTokens::AddedTokens(const std::vector<Entry>& entries) : edges_(total_bytes(entries)), leaf_of_{-1} {
  for (const Entry& entry : entries) {
    uint32_t node = 0;
    for (char byte : entry.text) {
      const uint64_t key = edge_key(node, byte);
      if (const uint32_t* next = edges_.find(key)) {
        node = *next;
        continue;
      }
      const uint32_t created = static_cast<uint32_t>(leaf_of_.size());
      edges_.add(key, created);
      leaf_of_.push_back(-1);
      node = created;
    }
    if (leaf_of_[node] >= 0) continue;  // the same spelling twice: the first id stays
    leaf_of_[node] = static_cast<int32_t>(leaves_.size());
    leaves_.push_back({entry.id, entry.control, entry.strip_left, entry.strip_right});
    first_bytes_.set(static_cast<uint8_t>(entry.text[0]));
  }
}

AddedTokens::Match AddedTokens::longest_at(std::string_view text, size_t at, size_t control_end) const {
  Match best{{at, at}};
  uint32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const uint32_t* next = edges_.find(edge_key(node, text[i]));
    if (next == nullptr) break;
    node = *next;
    if (leaf_of_[node] < 0) continue;
    const Leaf& leaf = leaves_[static_cast<size_t>(leaf_of_[node])];
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
