#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace pagoda::text {

/// Byte strings -> values, walked a byte at a time. Children of a node lie side by side, sorted by byte.
class TokenTrie {
 public:
  static constexpr int32_t kRoot = 0;
  static constexpr int32_t kNone = -1;

  /// `entries`: (text, value >= 0); empty texts are ignored, of equal texts the first counts. The texts are not kept.
  explicit TokenTrie(std::vector<std::pair<std::string_view, int32_t>> entries);

  /// The node below `node` by `byte`, or kNone.
  int32_t child(int32_t node, char byte) const;

  /// The value of the text that leads to `node`, or kNone.
  int32_t value(int32_t node) const { return nodes_[static_cast<size_t>(node)].value; }

 private:
  struct Node {
    int32_t value = kNone;
    int32_t first_child = 0;
    int32_t children = 0;
  };
  std::vector<Node> nodes_;
  std::vector<uint8_t> labels_;  // [nodes]: the byte that leads to it
};

}  // namespace pagoda::text
