// A beam search behind the scheduler: each live beam is a sequence like any other, that shares, is planned and
// preempted as others are. Once all have candidates the search says who goes on: a parent becomes its best child,
// further children fork from it, as newcomers that find its blocks; the partly filled one is copied. A beam without
// children leaves.
#include <algorithm>
#include <utility>

#include "core/check.h"
#include "scheduler/latency.h"
#include "scheduler/scheduler_state.h"

namespace pagoda::scheduler {

void Scheduler::State::note_beam(Sequence& seq, engine::ChunkOutput& chunk) {
  BeamGroup& group = *seq.owner->beams;
  if (chunk.error) {
    metrics.add_corrupted();
    group.failed = std::move(chunk.error);
    return;
  }
  take_scores(seq, std::move(chunk.prompt_scores));
  scores.keep(seq);
  if (seq.prompt_scored == seq.prompt_tokens && !seq.prompt_scores.empty())
    group.prompt_scores = std::exchange(seq.prompt_scores, {});
  if (seq.uncached_tokens() > 0) return;
  PAGODA_CHECK(chunk.token.has_value());
  order.generated(seq);
  seq.beam_next = std::move(chunk.token->top);
  seq.parked = true;
}

int32_t Scheduler::State::advance_beams(RequestState& owner) {
  BeamGroup& group = *owner.beams;
  if (group.failed) {
    end_beams(group.live.front()->owner, FinishReason::kError, std::move(group.failed));
    return 0;
  }
  if (!std::ranges::all_of(group.live, [](const Sequence* seq) { return seq->parked; })) return 0;
  std::vector<std::vector<sampling::TokenLogprob>> next;
  for (Sequence* seq : group.live) next.push_back(std::exchange(seq->beam_next, {}));
  const std::vector<sampling::BeamSearch::Child> children = group.search.advance(next);
  if (group.search.over()) return tell_beams(owner);

  std::vector<Sequence*> after;
  std::vector<bool> goes_on(group.live.size(), false);
  for (const auto& child : children) {  // forks first have what their parents have
    Sequence* parent = group.live[child.parent];
    after.push_back(goes_on[child.parent] ? &fork_beam(*parent) : parent);
    goes_on[child.parent] = true;
  }
  for (size_t i = 0; i < goes_on.size(); ++i)
    if (!goes_on[i]) take_out(*group.live[i], /*worth_keeping=*/true);
  for (size_t i = 0; i < after.size(); ++i) {
    after[i]->history.push_back(children[i].token);
    after[i]->parked = false;
  }
  group.live = std::move(after);
  return 0;
}

Sequence& Scheduler::State::fork_beam(const Sequence& parent) {
  auto made = std::make_unique<Sequence>();
  Sequence& seq = *made;
  {
    const std::lock_guard lock(mutex);
    seq.id = SeqId{next_sequence++};
  }
  seq.history = parent.history;
  seq.prompt_tokens = parent.prompt_tokens;
  seq.owner = parent.owner;
  seq.prompt_scored = parent.prompt_scored;
  seq.prompt_reached = parent.prompt_reached;
  seq.prompt_reused = parent.prompt_reused;
  seq.cache_exit_at = parent.cache_exit_at;
  seq.cache_exit = parent.cache_exit;
  seq.from_tiers = parent.from_tiers;
  seq.times = parent.times;
  seq.answer_tokens_max = parent.answer_tokens_max;
  seq.deadline_us = parent.deadline_us;
  blocks.open(seq);
  seq.transcript.emplace(tokenizer, seq.owner->request, limits.max_model_len);
  order.arrive(seq);
  seq.standing = parent.standing;
  seq.rank = parent.rank;
  sequences.emplace(static_cast<uint64_t>(seq.id), std::move(made));
  insert_in_order(waiting, &seq);
  return seq;
}

/// The search is over: its answers are the request's choices, best first.
int32_t Scheduler::State::tell_beams(RequestState& owner) {
  BeamGroup& group = *owner.beams;
  const std::shared_ptr<RequestState> alive = group.live.front()->owner;
  Sequence& first = *group.live.front();
  const int64_t now_us = clock.now_us();
  note_token(first.times, now_us, metrics);
  int32_t told = 0;
  std::vector<Event> events;
  for (int32_t choice = 0; choice < owner.request.n; ++choice) {
    const auto place = static_cast<size_t>(choice);
    const sampling::Beam nothing{};
    const sampling::Beam& beam = place < group.search.answers().size() ? group.search.answers()[place] : nothing;
    Transcript transcript(tokenizer, owner.request, limits.max_model_len);
    const auto event_of = [&](Transcript::Step step) {
      Event event = new_event(first);
      event.choice = choice;
      event.completion_tokens = transcript.completion_tokens();
      event.prompt_scores = std::exchange(group.prompt_scores, {});
      event.text = std::move(step.text);
      event.finish = step.finish;
      event.stop_token = step.stop_token;
      return event;
    };
    for (const sampling::SampledToken& token : beam.tokens) {
      events.push_back(event_of(transcript.push(token.id)));
      events.back().token = token;
      ++told;
    }
    if (beam.tokens.empty()) events.push_back(event_of({}));
    if (!events.back().finish) {  // early_stopping ended it
      events.back().text += transcript.flush();
      events.back().finish = FinishReason::kLength;
    }
    note_finish(first, events.back(), now_us, metrics);
  }
  for (Sequence* seq : std::exchange(group.live, {})) take_out(*seq, /*worth_keeping=*/true);
  for (Event& event : events) owner.request.sink->push(std::move(event));
  return told;
}

void Scheduler::State::end_beams(const std::shared_ptr<RequestState>& owner, FinishReason reason,
                                 std::optional<Error> error) {
  const std::shared_ptr<RequestState> alive = owner;  // the caller's may be a sequence's own
  BeamGroup& group = *alive->beams;
  std::vector<Event> events;
  for (int32_t choice = 0; choice < alive->request.n; ++choice) {
    Event event = new_event(*group.live.front());
    event.choice = choice;
    event.finish = reason;
    event.error = error;
    note_finish(*group.live.front(), event, clock.now_us(), metrics);
    events.push_back(std::move(event));
  }
  for (Sequence* seq : std::exchange(group.live, {})) take_out(*seq, reason != FinishReason::kError);
  for (Event& event : events) alive->request.sink->push(std::move(event));
}

bool Scheduler::State::preempt_parked() {
  const auto last = std::find_if(running.rbegin(), running.rend(), [](const Sequence* seq) { return seq->parked; });
  if (last == running.rend()) return false;
  preempt(**last);
  return true;
}

}  // namespace pagoda::scheduler
