#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/ids.h"
#include "engine/batch.h"
#include "engine/block_tier.h"
#include "grammar/grammar.h"
#include "kvcache/prefix_cache.h"
#include "sampling/beam_search.h"
#include "scheduler/policy/fair.h"
#include "scheduler/request.h"
#include "scheduler/transcript.h"

namespace pagoda::scheduler {

struct Sequence;

/// A beam search on its way (scheduler/beams.cc).
struct BeamGroup {
  sampling::BeamSearch search;
  std::vector<Sequence*> live{};                     // in step with search.live()
  std::vector<engine::PromptScore> prompt_scores{};  // until the first event takes them
  std::optional<Error> failed{};
};

/// What the choices of one request share. Stays where it is: transcripts and batches point into it.
struct RequestState {
  RequestId id;
  Request request;
  engine::ScoreRequest score{};
  std::unique_ptr<BeamGroup> beams{};  // null: choices are on their own

  /// Several sequences have this prompt.
  bool has_siblings() const { return request.n > 1 || beams != nullptr; }
};

/// Clock values, microseconds; -1 = not yet.
struct Timeline {
  int64_t arrived_us = -1;
  int64_t scheduled_us = -1;  // first row in a batch
  int64_t first_token_us = -1;
  int64_t last_token_us = -1;
};

/// What a waiting sequence would find computed if it entered in this step.
struct Reuse {
  kvcache::PrefixMatch match{};
  int32_t unheld = 0;  // pages among them that nobody holds: holding them leaves fewer available
};

/// How a waiting sequence stands with the tiers beyond the pool. It asks each of them once for what the pool lacks.
struct TierVisit {
  enum class State : uint8_t { kNotAsked, kLoading, kDone };
  State state = State::kNotAsked;
  size_t tier = 0;  // that is asked or was asked last
  std::optional<engine::BlockTier::LoadId> load{};
  int32_t first_block = 0;                 // the pool had those before it
  int32_t next_block = 0;                  // blocks [first_block, next_block) have come
  std::array<int32_t, 2> came{};           // of these, by tier
  int64_t last_news_us = 0;                // when one came, or it began
  std::optional<engine::LoadEnd> end{};    // why no more came from the last tier
  bool late = false;                       // it was not waited for any longer
  std::vector<engine::BlockName> names{};  // of its full blocks, as far as somebody asked
};

/// One choice of one request on its way through the machine. Only the worker thread sees it after admission.
struct Sequence {
  SeqId id{};
  int64_t rank = 0;                // lower runs first, see policy/; ties by id, which is arrival
  std::vector<TokenId> history{};  // prompt, then output
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;      // history[0, cached_tokens) is in the KV cache
  std::vector<BlockId> blocks{};  // block table
  int32_t windowed_begin = 0;     // of blocks from here on it holds the windowed pages as well (BlockShape)
  std::vector<std::vector<BlockId>> tables{};  // with windows: the same by group of layers, in pages
  int32_t node_blocks = 0;    // so many of them, all full ones, are nodes of the prefix cache; -1 = never again
  Reuse reuse{};              // while waiting
  kvcache::SpaceId space{};   // who may share its blocks
  TierVisit visit{};          // likewise
  int32_t cache_exit_at = 0;  // when it first entered
  TierTokens from_tiers{};    // likewise: what it found by then
  CacheExit cache_exit = CacheExit::kNewText;

  int32_t choice = 0;
  std::shared_ptr<RequestState> owner{};
  std::optional<Transcript> transcript{};
  std::optional<grammar::Matcher> matcher{};         // where its output is in its request's grammar
  std::shared_ptr<const grammar::Mask> mask{};       // of the token it chooses in this step
  std::vector<engine::PromptScore> prompt_scores{};  // until the first event takes them
  int32_t prompt_scored = 0;                         // prompt positions whose scores arrived; survives preemption
  int32_t score_blocks = 0;                          // so many full blocks' scores are kept for others (PromptScores)
  int32_t prompt_reached = 0;                        // most prompt tokens ever cached; survives preemption
  int32_t prompt_reused = 0;                         // of these, tokens that it did not compute itself
  Timeline times{};
  Standing standing{};                              // what `rank` is made of
  AccountId account{};                              // under Policy::kFair
  int32_t answer_tokens_max = 0;                    // max_tokens, or what max_model_len leaves for them
  int64_t deadline_us = -1;                         // clock value; -1 = none
  bool parked = false;                              // a beam whose candidates are there: it waits for the others
  std::vector<sampling::TokenLogprob> beam_next{};  // these
  std::optional<Event> held_end{};                  // SchedulingMode::kStatic: it has ended, its batch has not

  bool ended() const { return held_end.has_value(); }
  int32_t total_tokens() const { return static_cast<int32_t>(history.size()); }
  /// Cached when its next row runs.
  int32_t ready_tokens() const { return cached_tokens + reuse.match.tokens(); }
  int32_t uncached_tokens() const { return total_tokens() - ready_tokens(); }
  /// So many of its tokens others may have computed: the newest must be computed for its logits, prompt rows whose
  /// scores somebody reads for theirs.
  int32_t reusable_tokens() const {
    return prompt_scored < prompt_tokens ? std::min(prompt_scored, total_tokens() - 1) : total_tokens() - 1;
  }
  /// Pages of what it found: of blocks that its next token does not see, not the windowed ones.
  int32_t pages_found(const kvcache::BlockShape& shape) const {
    return shape.pages_of(static_cast<int32_t>(reuse.match.blocks.size()), shape.first_seen(reuse.match.tokens()));
  }
  int32_t pages_held(const kvcache::BlockShape& shape) const { return shape.pages_of(blocks_held(), windowed_begin); }
  int32_t blocks_held() const { return static_cast<int32_t>(blocks.size()); }
  /// All but the newest token is cached: a step costs one row and yields a token.
  bool decoding() const { return uncached_tokens() == 1 && cached_tokens > 0; }
};

/// The order in which sequences are served; a victim is always the last in it.
inline bool runs_before(const Sequence* a, const Sequence* b) {
  return a->rank != b->rank ? a->rank < b->rank : a->id < b->id;
}

}  // namespace pagoda::scheduler
