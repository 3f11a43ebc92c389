#include "text/token_trie.h"

#include <algorithm>

namespace pagoda::text {

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, int32_t>> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {
    size_t begin, end;  // the entries below the node
  };
  std::vector<Range> ranges{{0, entries.size()}};
  nodes_.emplace_back();
  labels_.push_back(0);
  // Level by level: `depth` is the length of the texts of nodes [level_begin, level_end).
  for (size_t level_begin = 0, depth = 0; level_begin < nodes_.size(); ++depth) {
    const size_t level_end = nodes_.size();
    for (size_t node = level_begin; node < level_end; ++node) {
      Range range = ranges[node];
      while (range.begin < range.end && entries[range.begin].first.size() == depth)
        ++range.begin;  // its own value, and doubles
      nodes_[node].first_child = static_cast<int32_t>(nodes_.size());
      while (range.begin < range.end) {
        const char byte = entries[range.begin].first[depth];
        size_t end = range.begin + 1;
        while (end < range.end && entries[end].first[depth] == byte) ++end;
        const auto& [text, value] = entries[range.begin];
        nodes_.push_back({text.size() == depth + 1 ? value : kNone, 0, 0});
        labels_.push_back(static_cast<uint8_t>(byte));
        ranges.push_back({range.begin, end});
        range.begin = end;
      }
      nodes_[node].children = static_cast<int32_t>(nodes_.size()) - nodes_[node].first_child;
    }
    level_begin = level_end;
  }
}

int32_t TokenTrie::child(int32_t node, char byte) const {
  const Node& parent = nodes_[static_cast<size_t>(node)];
  const auto begin = labels_.begin() + parent.first_child, end = begin + parent.children;
  const auto found = std::lower_bound(begin, end, static_cast<uint8_t>(byte));
  return found != end && *found == static_cast<uint8_t>(byte) ? static_cast<int32_t>(found - labels_.begin()) : kNone;
}

}  // namespace pagoda::text
