#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/ids.h"
#include "core/result.h"
#include "kvcache/block_shape.h"
#include "sampling/params.h"

namespace pagoda::engine {

/// What prompt rows should report: the logprob of the token that follows, of `top` likeliest, and of chosen ids.
struct ScoreRequest {
  int32_t top = 0;
  std::span<const std::vector<TokenId>> ids_at{};  // by prompt position; may be shorter than the prompt
};

/// One sequence's rows of a step. Prefill chunks and decodes are the same thing: `count` tokens from `begin` on.
struct SequenceChunk {
  SeqId id;
  std::span<const TokenId> history;  // every token the sequence has: prompt, then output
  int32_t begin;                     // first row's position; history[0, begin) is in the cache
  int32_t count;                     // rows, >= 1; begin + count <= history.size()
  std::span<const BlockId> blocks;   // block table covering begin + count tokens; with windows, that of the first group
  bool sample;                       // the last row is the last of history: choose the next token
  const sampling::SamplingParams* params;
  int32_t prompt_tokens;
  int32_t sample_index;
  std::span<const uint64_t> allowed{};                     // as SamplingContext::allowed
  const ScoreRequest* score = nullptr;                     // null unless prompt logprobs are wanted
  std::span<const std::vector<BlockId>> further_blocks{};  // tables of BlockShape's other groups, as long as `blocks`
                                                           // or longer; kNoPage where no row sees the block
};

/// K and V of one page, whole: of all layers of a block, or of one group of them.
struct BlockCopy {
  BlockId from;
  BlockId to;
};

/// All rows of one step, over all sequences. One pass over the weights serves them all.
///
/// Several sequences may read one block; a block that a row writes to is in no other chunk's table.
struct Batch {
  std::vector<BlockCopy> copies{};  // done before any row; no `to` occurs twice or as a `from`
  std::vector<SequenceChunk> chunks;
};

/// Logprobs of one prompt row: it predicts the token at `position` + 1.
struct PromptScore {
  int32_t position;
  float next_logprob;  // of history[position + 1]; NaN for the last prompt token
  std::vector<sampling::TokenLogprob> top;
  std::vector<float> ids;  // as ScoreRequest::ids_at[position]
};

struct ChunkOutput {
  std::optional<sampling::SampledToken> token;  // present if `sample` and no error
  std::vector<PromptScore> prompt_scores;       // rows of this chunk below prompt_tokens, ascending
  std::optional<Error> error;                   // this sequence failed (NaN logits); the others did not
};

/// Parallel to Batch::chunks.
struct StepOutput {
  std::vector<ChunkOutput> chunks;
};

/// Runs batches; computes and never decides. One thread calls it.
class Engine {
 public:
  virtual ~Engine() = default;
  /// An Error here is a broken engine (all sequences fail); a sequence's own trouble is in its ChunkOutput.
  virtual Result<StepOutput> run(const Batch& batch) = 0;

  // Blocks leave the pool for another tier, and come back, as bytes: K and V of all layers, as the next step reads
  // them.
  /// 0 = this engine's blocks stay where they are; the other two are not called then.
  virtual int64_t block_bytes() const { return 0; }
  /// Into how many pages a block is cut. The bytes of a saved block do not depend on it.
  virtual kvcache::BlockShape block_shape() const { return {}; }
  /// `pages` are all of the block's, shape().pages().
  virtual void save_block([[maybe_unused]] kvcache::Pages pages, [[maybe_unused]] std::span<std::byte> into) const {}
  /// Bytes that save_block() gave, of an engine with the same KvFingerprint.
  virtual void load_block([[maybe_unused]] kvcache::Pages pages, [[maybe_unused]] std::span<const std::byte> from) {}
};

}  // namespace pagoda::engine
