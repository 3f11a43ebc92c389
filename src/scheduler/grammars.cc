// A sequence and its request's grammar: what may be chosen, and what the choice does to it.
#include <fmt/format.h>

#include "scheduler/scheduler_state.h"

namespace pagoda::scheduler {

/// What its grammar allows next; nothing once the grammar has outgrown its budget, so that sampling fails.
std::span<const uint64_t> Scheduler::State::allowed_next(Sequence& seq) const {
  static const std::vector<uint64_t> kNothing(1, 0);
  if (!seq.matcher || seq.ended()) return {};
  seq.mask = seq.matcher->mask();
  return seq.mask ? seq.mask->words : kNothing;
}

/// Takes the chosen token. An error where the grammar leaves nothing to choose, which is rare and its author's doing
/// (docs/GRAMMAR.md says where), or cannot hold the state after the token.
std::optional<Error> Scheduler::State::follow_grammar(Sequence& seq, const engine::ChunkOutput& chunk) const {
  if (!seq.matcher) return std::nullopt;
  if (chunk.token && seq.matcher->accept(chunk.token->id)) return std::nullopt;
  const bool dead_end = seq.mask && seq.mask->allowed == 0;
  const bool outgrown = !seq.mask && seq.matcher->grammar().exhausted();
  if (!chunk.token && !(chunk.error && (dead_end || outgrown))) return std::nullopt;  // not its doing
  return Error{
      Code::kTooLarge,
      fmt::format("the answer cannot go on after {} tokens: its grammar {}", seq.transcript->completion_tokens(),
                  dead_end ? "allows no further token" : "needs more states than one may have")};
}

}  // namespace pagoda::scheduler
