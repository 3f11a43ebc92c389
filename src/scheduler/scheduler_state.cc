#include "scheduler/scheduler_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "scheduler/admission.h"
#include "scheduler/kv_use.h"
#include "scheduler/latency.h"
#include "scheduler/newcomers.h"
#include "scheduler/prompt_budget.h"

namespace pagoda::scheduler {
namespace {

constexpr int32_t kFollowersSeen = 32;      // waiting sequences looked at beyond the free slots: some defer to others
constexpr double kAnswerForgetting = 0.95;  // of the mean answer's length, a finished one

Error deadline_error(const Sequence& seq) {
  const int64_t allowed_ms = (seq.deadline_us - seq.times.arrived_us) / 1000;
  return Error{Code::kDeadline,
               fmt::format("the deadline of {} ms passed {}: {} of up to {} tokens were generated", allowed_ms,
                           seq.times.scheduled_us < 0 ? "while the request waited" : "while it was computed",
                           seq.transcript->completion_tokens(), seq.answer_tokens_max)};
}

}  // namespace

Scheduler::State::State(engine::Engine& engine_in, const text::Tokenizer* tokenizer_in, Limits limits_in,
                        const Clock& clock_in, metrics::ServingMetrics& metrics_in, Tiers tiers_in)
    : engine(engine_in),
      tokenizer(tokenizer_in),
      limits(limits_in),
      clock(clock_in),
      metrics(metrics_in),
      blocks(limits_in.total_blocks, limits_in.prefix_caching, limits_in.shape, limits_in.max_num_batched_tokens),
      scores(blocks.cache()),
      disk(tiers_in.disk),
      tiers(engine_in, tiers_in, blocks, clock_in),
      order(limits) {
  PAGODA_CHECK(limits.max_num_seqs > 0 && limits.max_num_batched_tokens >= limits.max_num_seqs);
  PAGODA_CHECK(limits.max_model_len > 0 && limits.total_blocks >= limits.shape.pages());
  metrics.set_cache_config(kBlockTokens, limits.total_blocks / limits.shape.pages());
  metrics.set_scheduler_info(name_of(limits.policy), name_of(limits.mode));
  if (disk != nullptr) {
    disk->on_news([this] {
      const std::lock_guard lock(mutex);
      tier_news = true;
      news.notify_one();
    });
  }
  publish_load();
}

Scheduler::State::~State() {
  if (disk != nullptr) disk->on_news(nullptr);
}

void Scheduler::State::admit_arrivals() {
  std::vector<std::unique_ptr<Sequence>> arrived;
  bool reset = false;
  {
    const std::lock_guard lock(mutex);
    arrived.swap(arrivals);
    load.waiting_tokens += std::exchange(arrived_tokens, 0);
    cancels.insert(cancels.end(), cancel_requests.begin(), cancel_requests.end());
    cancel_requests.clear();
    reset = std::exchange(reset_requested, false);
    tier_news = false;
    load.waiting += static_cast<int32_t>(arrived.size());  // they count at every moment
    load.last_step_us = clock.now_us();
  }
  if (reset) {
    blocks.reset(running);
    tiers.reset(waiting);
  }
  for (std::unique_ptr<Sequence>& seq : arrived) {
    Sequence* raw = seq.get();
    blocks.open(*raw);
    raw->transcript.emplace(tokenizer, raw->owner->request, limits.max_model_len);
    if (raw->owner->request.grammar) raw->matcher.emplace(raw->owner->request.grammar);
    sequences.emplace(static_cast<uint64_t>(raw->id), std::move(seq));
    scores.deliver(*raw);
    if (order.wants_reuse()) blocks.find_reuse(*raw, running);
    order.arrive(*raw);
    insert_in_order(waiting, raw);
  }
}

void Scheduler::State::drop_cancelled() {
  std::vector<Sequence*> doomed;
  for (const auto& [id, seq] : sequences)
    if (std::find(cancels.begin(), cancels.end(), seq->owner->id) != cancels.end()) doomed.push_back(seq.get());
  cancels.clear();
  end_from_outside(std::move(doomed), FinishReason::kCancelled, [](const Sequence&) { return std::nullopt; });
}

void Scheduler::State::drop_expired() {
  const int64_t now_us = clock.now_us();
  std::vector<Sequence*> late;
  for (const std::vector<Sequence*>* queue : {&running, &waiting})
    for (Sequence* seq : *queue)
      if (seq->deadline_us >= 0 && seq->deadline_us <= now_us && !seq->ended()) late.push_back(seq);
  end_from_outside(std::move(late), FinishReason::kError, deadline_error);
}

std::span<Sequence* const> Scheduler::State::find_prefixes() {
  for (Sequence* seq : running) {
    if (seq->decoding() || seq->parked) continue;
    blocks.extend(*seq);
    note_reuse(*seq);
  }
  const auto slots = static_cast<size_t>(limits.max_num_seqs) - running.size();
  ask_tiers(slots > 0 ? slots + kFollowersSeen : 0);
  const size_t most = slots > 0 ? std::min(newcomers.size(), slots + kFollowersSeen) : 0;
  int32_t left = blocks.cache().available_pages();
  size_t seen = 0;
  for (Sequence* seq : waiting) seq->reuse = {};
  for (; seen < most && (left >= 0 || seen < kFollowersSeen); ++seen) {  // hardly further than plan_step lets them in
    Sequence* seq = newcomers[seen];
    scores.deliver(*seq);
    blocks.find_reuse(*seq, running);
    order.looked_up(*seq);
    left -= pages_for(seq->total_tokens(), limits) - seq->pages_found(limits.shape);
  }
  return std::span(newcomers).first(seen);
}

/// Before anybody's beginning is looked up: what comes in may take the place of what was found. Those who could not
/// enter yet do not ask yet, or what they get would make room again.
void Scheduler::State::ask_tiers(size_t most) {
  newcomers = waiting;
  std::erase_if(newcomers, [](const Sequence* seq) { return seq->parked; });
  if (!tiers.any()) return;
  tiers.begin_step(/*busy=*/!running.empty());
  int32_t spoken_for = 0;  // pages that those before need as well
  for (const Sequence* seq : running)
    if (!seq->decoding())
      spoken_for += std::max(0, pages_for(seq->total_tokens(), limits) - seq->pages_held(limits.shape));
  std::vector<HeldPath> held;  // what those who enter find is not for those behind them to take
  std::erase_if(newcomers, [&](Sequence* seq) {
    bool waits = false;
    if (most > 0) {
      held.push_back(blocks.hold_there(*seq));
      spoken_for += pages_for(seq->total_tokens(), limits) - held.back().pages(limits.shape);
      if (spoken_for > blocks.cache().available_pages()) most = 0;  // nobody enters past one who does not fit
    }
    if (most > 0 || seq->visit.state == TierVisit::State::kLoading) waits = tiers.visit(*seq);
    if (most > 0 && !waits) {
      const int32_t before = held.back().pages(limits.shape);
      held.push_back(blocks.hold_there(*seq));  // with what came now
      spoken_for -= held.back().pages(limits.shape) - before;
      --most;
    }
    return waits;
  });
  for (auto path = held.rbegin(); path != held.rend(); ++path) blocks.let_go(*path);
}

Plan Scheduler::State::plan() {
  const std::span<Sequence* const> entering = find_prefixes();
  return plan_step(running, entering, blocks.cache(), limits, prompt_rows_within_slo(running, entering, cost, limits));
}

void Scheduler::State::preempt(Sequence& victim) {
  // Its full blocks stay in the prefix cache as long as nobody needs them; what is lost there comes back from the host
  // or is computed again: whichever is cheaper, unless somebody said which.
  const bool swap = limits.preemption == PreemptionMode::kSwap   ? tiers.can_swap(victim)
                    : limits.preemption == PreemptionMode::kAuto ? tiers.cheaper_to_swap(victim, cost)
                                                                 : false;
  if (swap) tiers.swap_out(victim);
  tiers.leave(victim);
  blocks.give_back(victim, /*worth_keeping=*/true);
  std::erase(running, &victim);
  insert_in_order(waiting, &victim);
  metrics.add_preemption();
}

void Scheduler::State::reserve(const std::vector<Row>& rows) {
  // What newcomers found is theirs before anybody takes a block, which may be one of those.
  for (const Row& row : rows) {
    if (!row.newcomer) continue;
    Sequence& seq = *row.seq;
    std::erase(waiting, row.seq);
    insert_in_order(running, row.seq);
    blocks.enter(seq);
    if (seq.times.scheduled_us < 0) {
      seq.times.scheduled_us = clock.now_us();
      order.enter(seq, seq.uncached_tokens());
      if (limits.prefix_caching) metrics.add_prefix_cache_queries(seq.prompt_tokens);
    }
    note_reuse(seq);
  }
  for (const Row& row : rows) blocks.grow(*row.seq, row.new_blocks);
  if (limits.mode == SchedulingMode::kStatic) note_padding(rows);
}

/// A static batch is formed in one step, and pads all prompts to its longest.
void Scheduler::State::note_padding(const std::vector<Row>& rows) {
  int32_t longest = 0;
  for (const Row& row : rows)
    if (row.newcomer) longest = std::max(longest, row.seq->prompt_tokens);
  for (const Row& row : rows)
    if (row.newcomer) padding_rows += longest - row.seq->prompt_tokens;
}

engine::Batch Scheduler::State::batch_of(const std::vector<Row>& rows) const {
  engine::Batch batch;
  batch.copies = blocks.page_copies();
  batch.chunks.reserve(rows.size());
  for (const Row& row : rows) {
    Sequence& seq = *row.seq;
    const Request& request = seq.owner->request;
    const bool wants_scores = wants_prompt_scores(request) && seq.choice == 0 && seq.prompt_scored < seq.prompt_tokens;
    const std::vector<BlockId>& table = seq.tables.empty() ? seq.blocks : seq.tables.front();
    const bool sample = row.tokens == seq.uncached_tokens() && request.max_tokens > 0;
    batch.chunks.push_back({
        .id = seq.id,
        .history = seq.history,
        .begin = seq.cached_tokens,
        .count = row.tokens,
        .blocks = std::span(table).first(static_cast<size_t>(blocks_for(seq.cached_tokens + row.tokens))),
        .sample = sample,
        .params = &request.sampling,
        .prompt_tokens = seq.prompt_tokens,
        .sample_index = seq.choice,
        .allowed = sample ? allowed_next(seq) : std::span<const uint64_t>{},
        .score = wants_scores ? &seq.owner->score : nullptr,
        .further_blocks =
            seq.tables.empty() ? std::span<const std::vector<BlockId>>{} : std::span(seq.tables).subspan(1),
    });
  }
  return batch;
}

/// What a preemption made us compute again is work, but no further prompt.
int32_t Scheduler::State::reach_prompt(Sequence& seq) const {
  const int32_t reached = std::min(seq.cached_tokens, seq.prompt_tokens);
  const int32_t further = std::max(0, reached - seq.prompt_reached);
  seq.prompt_reached += further;
  return further;
}

void Scheduler::State::note_reuse(Sequence& seq) {
  const int32_t further = reach_prompt(seq);
  seq.prompt_reused += further;
  metrics.add_cached_prompt_tokens(further);
}

void Scheduler::State::commit(const std::vector<Row>& rows, const engine::StepOutput& out) {
  PAGODA_CHECK(out.chunks.size() == rows.size());
  int32_t prompt_tokens = 0, row_tokens = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    Sequence& seq = *rows[i].seq;
    row_tokens += rows[i].tokens;
    seq.cached_tokens += rows[i].tokens;
    prompt_tokens += reach_prompt(seq);
    if (!out.chunks[i].error)
      blocks.filled(seq, [this](Sequence& who, int32_t index, BlockId block) { tiers.computed(who, index, block); });
    blocks.pass_window(seq);
  }
  metrics.add_computed_prompt_tokens(prompt_tokens);
  metrics.observe_iteration_tokens(row_tokens);
}

Event Scheduler::State::new_event(Sequence& seq) const {
  Event event;
  event.choice = seq.choice;
  event.prompt_tokens = seq.prompt_tokens;
  event.completion_tokens = seq.transcript->completion_tokens();
  event.cached_tokens = seq.prompt_reused;
  event.from_tiers = seq.from_tiers;
  event.cache_exit_at = seq.cache_exit_at;
  event.cache_exit = seq.cache_exit;
  if (seq.prompt_scored == seq.prompt_tokens) event.prompt_scores = std::exchange(seq.prompt_scores, {});
  return event;
}

/// Chunks deliver scores in pieces, and after a preemption once more.
void Scheduler::State::take_scores(Sequence& seq, std::vector<engine::PromptScore> arrived) {
  for (engine::PromptScore& score : arrived) {
    if (score.position != seq.prompt_scored) continue;
    seq.prompt_scores.push_back(std::move(score));
    ++seq.prompt_scored;
  }
}

void Scheduler::State::emit_token(Sequence& seq, sampling::SampledToken token) {
  const int64_t now_us = clock.now_us();
  note_token(seq.times, now_us, metrics);
  order.generated(seq);
  seq.history.push_back(token.id);
  Transcript::Step step = seq.transcript->push(token.id);
  Event event = new_event(seq);
  event.text = std::move(step.text);
  event.token = std::move(token);
  event.finish = step.finish;
  event.stop_string = std::move(step.stop_string);
  event.stop_token = step.stop_token;
  if (event.finish)
    finish(seq, std::move(event));
  else
    seq.owner->request.sink->push(std::move(event));
}

void Scheduler::State::emit(const std::vector<Row>& rows, engine::StepOutput& out) {
  int32_t sampled = 0;
  std::vector<std::pair<std::shared_ptr<RequestState>, Error>> failed;
  std::vector<std::shared_ptr<RequestState>> searches;
  for (size_t i = 0; i < rows.size(); ++i) {
    Sequence& seq = *rows[i].seq;
    engine::ChunkOutput& chunk = out.chunks[i];
    if (seq.ended()) {  // it computes on for its batch's sake; nobody reads what
      if (chunk.token) seq.history.push_back(chunk.token->id);
      continue;
    }
    if (seq.owner->beams) {
      if (std::ranges::find(searches, seq.owner) == searches.end()) searches.push_back(seq.owner);
      note_beam(seq, chunk);
      continue;
    }
    if (std::optional<Error> stuck = follow_grammar(seq, chunk)) {
      failed.emplace_back(seq.owner, *stuck);
      end_from_outside(seq, FinishReason::kError, std::move(stuck));
      continue;
    }
    if (chunk.error) {
      metrics.add_corrupted();  // NaN logits are what a sequence fails by
      failed.emplace_back(seq.owner, *chunk.error);
      end_from_outside(seq, FinishReason::kError, std::move(chunk.error));
      continue;
    }
    take_scores(seq, std::move(chunk.prompt_scores));
    scores.keep(seq);
    if (seq.uncached_tokens() > 0) continue;  // a prompt's chunk: more to come
    if (seq.owner->request.max_tokens == 0) {
      Event event = new_event(seq);
      event.finish = FinishReason::kLength;
      finish(seq, std::move(event));
      continue;
    }
    PAGODA_CHECK(chunk.token.has_value());
    ++sampled;
    emit_token(seq, std::move(*chunk.token));
  }
  for (const std::shared_ptr<RequestState>& search : searches) sampled += advance_beams(*search);
  metrics.add_generation_tokens(sampled);
  for (const auto& [request, error] : failed) end_siblings(*request, error);  // whose rows were still to come above
  finish_static_batch();
}

/// A request is answered whole or not at all: who reads one error reads no further choice of it.
void Scheduler::State::end_siblings(const RequestState& request, const Error& error) {
  std::vector<Sequence*> siblings;
  for (const auto& [id, seq] : sequences)
    if (seq->owner.get() == &request) siblings.push_back(seq.get());
  std::sort(siblings.begin(), siblings.end(), runs_before);  // events in an order that replays
  for (Sequence* seq : siblings) end_from_outside(*seq, FinishReason::kError, error);
}

void Scheduler::State::finish(Sequence& seq, Event last) {
  const bool told_to = last.finish == FinishReason::kCancelled || last.finish == FinishReason::kError;
  if (limits.mode == SchedulingMode::kStatic && !told_to)
    seq.held_end = std::move(last);
  else
    leave(seq, std::move(last));
}

void Scheduler::State::finish_static_batch() {
  if (limits.mode != SchedulingMode::kStatic) return;
  if (!std::all_of(running.begin(), running.end(), [](const Sequence* seq) { return seq->ended(); })) return;
  const std::vector<Sequence*> batch = running;
  for (Sequence* seq : batch) {
    Event last = *std::move(seq->held_end);
    leave(*seq, std::move(last));
  }
}

void Scheduler::State::leave(Sequence& seq, Event last) {
  note_finish(seq, last, clock.now_us(), metrics);
  if (last.finish == FinishReason::kStop || last.finish == FinishReason::kLength)
    mean_answer += (1 - kAnswerForgetting) * (last.completion_tokens - mean_answer);
  const std::shared_ptr<RequestState> owner = seq.owner;
  take_out(seq, /*worth_keeping=*/last.finish != FinishReason::kError);
  owner->request.sink->push(std::move(last));
}

void Scheduler::State::take_out(Sequence& seq, bool worth_keeping) {
  order.leave(seq);
  tiers.leave(seq);
  blocks.give_back(seq, worth_keeping);
  blocks.close(seq);
  std::erase(running, &seq);
  std::erase(waiting, &seq);
  sequences.erase(static_cast<uint64_t>(seq.id));
}

void Scheduler::State::end_from_outside(Sequence& seq, FinishReason reason, std::optional<Error> error) {
  if (seq.ended()) return leave(seq, *std::exchange(seq.held_end, std::nullopt));  // its end is decided
  if (seq.owner->beams) return end_beams(std::shared_ptr(seq.owner), reason, std::move(error));
  Event event = new_event(seq);
  event.text = seq.transcript->flush();
  event.finish = reason;
  event.error = std::move(error);
  finish(seq, std::move(event));
}

void Scheduler::State::end_from_outside(std::vector<Sequence*> doomed, FinishReason reason,
                                        const std::function<std::optional<Error>(const Sequence&)>& why) {
  std::sort(doomed.begin(), doomed.end(), runs_before);  // events in an order that replays
  std::vector<uint64_t> ids;
  for (const Sequence* seq : doomed) ids.push_back(static_cast<uint64_t>(seq->id));
  for (const uint64_t id : ids) {
    const auto found = sequences.find(id);  // a beam takes its siblings with it
    if (found != sequences.end()) end_from_outside(*found->second, reason, why(*found->second));
  }
}

void Scheduler::State::end_all(FinishReason reason, const std::optional<Error>& error) {
  blocks.finish_copies();
  std::vector<Sequence*> all;
  for (const auto& [id, seq] : sequences) all.push_back(seq.get());
  end_from_outside(std::move(all), reason, [&](const Sequence&) { return error; });
  publish_load();
}

void Scheduler::State::check_invariants() const {
  blocks.check(running);
  for (const Sequence* seq : running) {
    const int32_t begun = div_ceil(seq->cached_tokens, kBlockTokens);
    PAGODA_CHECK(limits.mode == SchedulingMode::kPaged ? seq->blocks_held() == begun : seq->blocks_held() >= begun);
    PAGODA_CHECK(seq->ended() || seq->parked || seq->cached_tokens < seq->total_tokens());
  }
  for (const Sequence* seq : waiting) PAGODA_CHECK(seq->blocks.empty() && seq->cached_tokens == 0 && !seq->ended());
  PAGODA_CHECK(std::is_sorted(waiting.begin(), waiting.end(), runs_before));
  PAGODA_CHECK(running.size() + waiting.size() == sequences.size());
  PAGODA_CHECK(static_cast<int32_t>(running.size()) <= limits.max_num_seqs);
}

void Scheduler::State::learn_cost(const std::vector<Row>& rows, int64_t took_us) {
  sizing::StepWork work;
  for (const Row& row : rows) work += sizing::chunk_work(row.seq->cached_tokens, row.tokens);
  cost.observe(work, took_us);
}

void Scheduler::State::note_kv_use(const Plan& plan, int64_t took_us) {
  kv = kv_use_of(running, blocks.cache(), plan.short_of_blocks);
  kv_us.add(kv, took_us);
  metrics.note_kv_use(kv, static_cast<double>(took_us) * 1e-6);
}

Queued Scheduler::State::queued() const {
  return {load.waiting + std::ssize(arrivals), load.waiting_tokens + arrived_tokens};
}

Error Scheduler::State::refuse(Error why, int32_t places) {
  why.retry_after_s = static_cast<int32_t>(std::clamp<int64_t>((place_us * places + 999'999) / 1'000'000, 1, 600));
  return why;
}

void Scheduler::State::publish_load() {
  const std::lock_guard lock(mutex);
  const kvcache::PrefixCache& pool = blocks.cache();
  const int32_t block_pages = pool.shape().pages();
  load = {.running = static_cast<int32_t>(running.size()),
          .waiting = static_cast<int32_t>(waiting.size()),
          .waiting_tokens = 0,
          .total_blocks = pool.total_pages() / block_pages,
          .free_blocks = pool.available_blocks(),
          .cached_blocks = (pool.available_pages() - pool.free_pages()) / block_pages,
          .last_step_us = clock.now_us(),
          .kv = kv,
          .kv_us = kv_us,
          .padding_rows = padding_rows};
  for (const Sequence* seq : waiting) load.waiting_tokens += seq->prompt_tokens;
  const auto prompt = static_cast<int32_t>(load.waiting_tokens / std::max(load.waiting, 1));
  const auto answer = static_cast<int32_t>(mean_answer);
  place_us = sizing::us_per_place(cost, {.slots = limits.max_num_seqs,
                                         .prompt_rows = prompt,
                                         .answer_tokens = answer,
                                         .context = prompt + answer / 2,
                                         .rows_per_step = limits.max_num_batched_tokens});
  metrics.set_running(load.running);
  metrics.set_waiting(load.waiting + static_cast<int32_t>(arrivals.size()), deferred);
  metrics.set_kv_usage(1.0 - static_cast<double>(load.free_blocks) / load.total_blocks);
}

}  // namespace pagoda::scheduler
