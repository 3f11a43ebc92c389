#pragma once
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "engine/batch.h"
#include "kvcache/prefix_cache.h"
#include "scheduler/sequence.h"

namespace pagoda::scheduler {

/// How the tokens of cached blocks were predicted, kept beside the prefix tree: who wants logprobs of a prompt whose
/// beginning somebody scored before need not compute it again. KV alone does not give logits.
///
/// A token's score depends on its path only, so a block's 16 scores are those that predict its tokens: rows 16 i - 1 to
/// 16 i + 14. A beginning of k blocks therefore gives 16 k - 1 rows; the next one predicts what may differ.
///
/// Memory: at most `bytes_max`; the least recently used blocks' scores go first. Only the worker thread calls it.
class PromptScores {
 public:
  static constexpr int64_t kBytesMax = int64_t{32} << 20;

  explicit PromptScores(const kvcache::PrefixCache& cache, int64_t bytes_max = kBytesMax)
      : cache_(cache), bytes_max_(bytes_max) {}

  /// What is known of the sequence's first prompt rows is delivered: seq.prompt_scores, seq.prompt_scored. O(blocks).
  void deliver(Sequence& seq);
  /// Keeps what has arrived of the scores of its full blocks, which are nodes by now.
  void keep(Sequence& seq);
  int64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    uint64_t birth;  // of the node: another block may lie there later
    int32_t top;     // likeliest tokens that were asked for
    int64_t bytes;
    std::vector<engine::PromptScore> rows;  // ascending positions; the first block has 15
    std::list<BlockId>::iterator used;
  };
  const Entry* find(BlockId block, int32_t top);
  void drop(std::unordered_map<uint32_t, Entry>::iterator entry);

  const kvcache::PrefixCache& cache_;
  const int64_t bytes_max_;
  int64_t bytes_ = 0;
  std::unordered_map<uint32_t, Entry> entries_;  // by block
  std::list<BlockId> by_use_;                    // oldest first
};

}  // namespace pagoda::scheduler
