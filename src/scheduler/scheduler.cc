#include "scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/check.h"
#include "core/log.h"
#include "scheduler/admission.h"
#include "scheduler/latency.h"
#include "scheduler/plan_step.h"
#include "scheduler/sequence.h"
#include "scheduler/sequence_blocks.h"
#include "sizing/step_cost.h"

namespace pagoda::scheduler {
namespace {

constexpr auto kIdleTick = std::chrono::milliseconds(200);  // an idle loop still shows that it lives

void insert_in_order(std::vector<Sequence*>& queue, Sequence* seq) {
  queue.insert(std::upper_bound(queue.begin(), queue.end(), seq, runs_before), seq);
}

}  // namespace

struct Scheduler::State {
  State(engine::Engine& engine_in, const text::Tokenizer* tokenizer_in, Limits limits_in, const Clock& clock_in,
        metrics::ServingMetrics& metrics_in);

  // --- worker thread: one step, in the order of step() --------------------------------------------------------------
  void admit_arrivals();
  void drop_cancelled();
  /// Before planning: what running prompts and the next newcomers need not compute, because it is there by now.
  void find_prefixes();
  /// The victim leaves the batch: what becomes of its KV is decided here.
  void preempt(Sequence& victim);
  void reserve(const std::vector<Row>& rows);
  engine::Batch batch_of(const std::vector<Row>& rows) const;
  void commit(const std::vector<Row>& rows, const engine::StepOutput& out);
  void emit(const std::vector<Row>& rows, engine::StepOutput& out);
  void check_invariants() const;
  void publish_load();
  void learn_cost(const std::vector<Row>& rows, int64_t took_us);  // before commit()
  /// What the pool is used for once the step's rows are in it.
  void note_kv_use(const Plan& plan, int64_t took_us);

  /// Prompt tokens up to `cached_tokens` are there; those not reached before count, as reused or as computed.
  int32_t reach_prompt(Sequence& seq) const;
  void note_reuse(Sequence& seq);
  void take_scores(Sequence& seq, std::vector<engine::PromptScore> scores);
  void emit_token(Sequence& seq, sampling::SampledToken token);
  Event new_event(Sequence& seq) const;
  /// Takes the sequence out of everything, then sends its last event.
  void finish(Sequence& seq, Event last);
  void end_from_outside(Sequence& seq, FinishReason reason, std::optional<Error> error);
  void end_all(FinishReason reason, const std::optional<Error>& error);

  engine::Engine& engine;
  const text::Tokenizer* tokenizer;
  const Limits limits;
  const Clock& clock;
  metrics::ServingMetrics& metrics;

  // Owned by the worker thread. Every admitted sequence is in exactly one of the two queues, both in runs_before()
  // order.
  SequenceBlocks blocks;
  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> sequences;  // by SeqId
  std::vector<Sequence*> running;                                     // exactly those that hold blocks
  std::vector<Sequence*> waiting;
  std::vector<RequestId> cancels;  // taken from the inbox, not yet carried out
  sizing::StepCost cost{};
  metrics::KvUse kv{};     // in the last step
  metrics::KvUse kv_us{};  // over all steps

  // The inbox: written by any thread.
  mutable std::mutex mutex;
  std::condition_variable news;
  std::vector<std::unique_ptr<Sequence>> arrivals;
  std::vector<RequestId> cancel_requests;
  bool reset_requested = false;
  uint64_t next_request = 1;
  uint64_t next_sequence = 1;
  bool stopping = false;
  bool draining = false;
  Load load{};  // without arrivals
};

Scheduler::State::State(engine::Engine& engine_in, const text::Tokenizer* tokenizer_in, Limits limits_in,
                        const Clock& clock_in, metrics::ServingMetrics& metrics_in)
    : engine(engine_in),
      tokenizer(tokenizer_in),
      limits(limits_in),
      clock(clock_in),
      metrics(metrics_in),
      blocks(limits_in.total_blocks, limits_in.prefix_caching) {
  PAGODA_CHECK(limits.max_num_seqs > 0 && limits.max_num_batched_tokens >= limits.max_num_seqs);
  PAGODA_CHECK(limits.max_model_len > 0 && limits.total_blocks > 0);
  metrics.set_cache_config(kBlockTokens, limits.total_blocks);
  publish_load();
}

void Scheduler::State::admit_arrivals() {
  std::vector<std::unique_ptr<Sequence>> arrived;
  bool reset = false;
  {
    const std::lock_guard lock(mutex);
    arrived.swap(arrivals);
    cancels.insert(cancels.end(), cancel_requests.begin(), cancel_requests.end());
    cancel_requests.clear();
    reset = std::exchange(reset_requested, false);
    load.waiting += static_cast<int32_t>(arrived.size());  // they count at every moment
    load.last_step_us = clock.now_us();
  }
  if (reset) blocks.reset(running);
  for (std::unique_ptr<Sequence>& seq : arrived) {
    Sequence* raw = seq.get();
    blocks.open(*raw);
    raw->transcript.emplace(tokenizer, raw->owner->request, limits.max_model_len);
    sequences.emplace(static_cast<uint64_t>(raw->id), std::move(seq));
    insert_in_order(waiting, raw);
  }
}

void Scheduler::State::drop_cancelled() {
  std::vector<Sequence*> doomed;
  for (const auto& [id, seq] : sequences)
    if (std::find(cancels.begin(), cancels.end(), seq->owner->id) != cancels.end()) doomed.push_back(seq.get());
  cancels.clear();
  std::sort(doomed.begin(), doomed.end(), runs_before);  // events in an order that replays
  for (Sequence* seq : doomed) end_from_outside(*seq, FinishReason::kCancelled, std::nullopt);
}

void Scheduler::State::find_prefixes() {
  for (Sequence* seq : running) {
    if (seq->decoding()) continue;
    blocks.extend(*seq);
    note_reuse(*seq);
  }
  int32_t slots = limits.max_num_seqs - static_cast<int32_t>(running.size());
  int32_t left = blocks.cache().available_blocks();
  for (Sequence* seq : waiting) {  // no further than plan_step lets anybody in
    seq->reuse = {};
    if (slots-- <= 0 || left < 0) continue;
    blocks.find_reuse(*seq, running);
    left -= div_ceil(seq->total_tokens(), kBlockTokens) - static_cast<int32_t>(seq->reuse.match.blocks.size());
  }
}

void Scheduler::State::preempt(Sequence& victim) {
  // Recomputation: its full blocks stay in the prefix cache as long as nobody needs them, the rest is computed again.
  // cost.predict_us(chunk_work(0, victim.cached_tokens)) is what that takes at most.
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
      if (limits.prefix_caching) metrics.add_prefix_cache_queries(seq.prompt_tokens);
    }
    note_reuse(seq);
  }
  for (const Row& row : rows) blocks.grow(*row.seq, row.new_blocks);
}

engine::Batch Scheduler::State::batch_of(const std::vector<Row>& rows) const {
  engine::Batch batch;
  batch.copies = blocks.copies();
  batch.chunks.reserve(rows.size());
  for (const Row& row : rows) {
    const Sequence& seq = *row.seq;
    const Request& request = seq.owner->request;
    const bool wants_scores = wants_prompt_scores(request) && seq.choice == 0 && seq.prompt_scored < seq.prompt_tokens;
    batch.chunks.push_back({
        .id = seq.id,
        .history = seq.history,
        .begin = seq.cached_tokens,
        .count = row.tokens,
        .blocks = seq.blocks,
        .sample = row.tokens == seq.uncached_tokens() && request.max_tokens > 0,
        .params = &request.sampling,
        .prompt_tokens = seq.prompt_tokens,
        .sample_index = seq.choice,
        .score = wants_scores ? &seq.owner->score : nullptr,
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
    if (!out.chunks[i].error) blocks.filled(seq);
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
  event.cache_exit_at = seq.cache_exit_at;
  event.cache_exit = seq.cache_exit;
  if (seq.prompt_scored == seq.prompt_tokens) event.prompt_scores = std::exchange(seq.prompt_scores, {});
  return event;
}

/// Chunks deliver scores in pieces, and after a preemption once more.
void Scheduler::State::take_scores(Sequence& seq, std::vector<engine::PromptScore> scores) {
  for (engine::PromptScore& score : scores) {
    if (score.position != seq.prompt_scored) continue;
    seq.prompt_scores.push_back(std::move(score));
    ++seq.prompt_scored;
  }
}

void Scheduler::State::emit_token(Sequence& seq, sampling::SampledToken token) {
  const int64_t now_us = clock.now_us();
  note_token(seq.times, now_us, metrics);
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
  for (size_t i = 0; i < rows.size(); ++i) {
    Sequence& seq = *rows[i].seq;
    engine::ChunkOutput& chunk = out.chunks[i];
    if (chunk.error) {
      end_from_outside(seq, FinishReason::kError, std::move(chunk.error));
      continue;
    }
    take_scores(seq, std::move(chunk.prompt_scores));
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
  metrics.add_generation_tokens(sampled);
}

void Scheduler::State::finish(Sequence& seq, Event last) {
  note_finish(seq, *last.finish, clock.now_us(), metrics);
  blocks.give_back(seq, /*worth_keeping=*/last.finish != FinishReason::kError);
  blocks.close(seq);
  std::erase(running, &seq);
  std::erase(waiting, &seq);
  const auto node = sequences.extract(static_cast<uint64_t>(seq.id));  // alive until its sink has the event
  seq.owner->request.sink->push(std::move(last));
}

void Scheduler::State::end_from_outside(Sequence& seq, FinishReason reason, std::optional<Error> error) {
  Event event = new_event(seq);
  event.text = seq.transcript->flush();
  event.finish = reason;
  event.error = std::move(error);
  finish(seq, std::move(event));
}

void Scheduler::State::end_all(FinishReason reason, const std::optional<Error>& error) {
  blocks.finish_copies();
  std::vector<Sequence*> all;
  for (const auto& [id, seq] : sequences) all.push_back(seq.get());
  std::sort(all.begin(), all.end(), runs_before);
  for (Sequence* seq : all) end_from_outside(*seq, reason, error);
  publish_load();
}

void Scheduler::State::check_invariants() const {
  blocks.check(running);
  for (const Sequence* seq : running) {
    PAGODA_CHECK(seq->blocks_held() == div_ceil(seq->cached_tokens, kBlockTokens));
    PAGODA_CHECK(seq->cached_tokens < seq->total_tokens());
  }
  for (const Sequence* seq : waiting) PAGODA_CHECK(seq->blocks.empty() && seq->cached_tokens == 0);
  PAGODA_CHECK(running.size() + waiting.size() == sequences.size());
  PAGODA_CHECK(static_cast<int32_t>(running.size()) <= limits.max_num_seqs);
}

void Scheduler::State::learn_cost(const std::vector<Row>& rows, int64_t took_us) {
  sizing::StepWork work;
  for (const Row& row : rows) work += sizing::chunk_work(row.seq->cached_tokens, row.tokens);
  cost.observe(work, took_us);
}

void Scheduler::State::note_kv_use(const Plan& plan, int64_t took_us) {
  kv = {};
  for (const Sequence* seq : running) {
    const int32_t begun = div_ceil(seq->cached_tokens, kBlockTokens);
    kv.internal += begun * kBlockTokens - seq->cached_tokens;
    kv.reserved += int64_t{seq->blocks_held() - begun} * kBlockTokens;
  }
  kv.used = int64_t{blocks.cache().held_blocks()} * kBlockTokens - kv.internal - kv.reserved;
  (plan.short_of_blocks ? kv.external : kv.free) = int64_t{blocks.cache().available_blocks()} * kBlockTokens;
  kv_us.add(kv, took_us);
  metrics.note_kv_use(kv, static_cast<double>(took_us) * 1e-6);
}

void Scheduler::State::publish_load() {
  const std::lock_guard lock(mutex);
  load = {.running = static_cast<int32_t>(running.size()),
          .waiting = static_cast<int32_t>(waiting.size()),
          .total_blocks = blocks.cache().total_blocks(),
          .free_blocks = blocks.cache().available_blocks(),
          .cached_blocks = blocks.cache().cached_blocks(),
          .last_step_us = clock.now_us(),
          .kv = kv,
          .kv_us = kv_us};
  metrics.set_running(load.running);
  metrics.set_waiting(load.waiting + static_cast<int32_t>(arrivals.size()));
  metrics.set_kv_usage(1.0 - static_cast<double>(load.free_blocks) / load.total_blocks);
}

Scheduler::Scheduler(engine::Engine& engine, const text::Tokenizer* tokenizer, Limits limits, const Clock& clock,
                     metrics::ServingMetrics& metrics) {
  limits.max_num_seqs = std::min(limits.max_num_seqs, limits.max_num_batched_tokens);
  state_ = std::make_unique<State>(engine, tokenizer, limits, clock, metrics);
}

Scheduler::~Scheduler() {
  state_->admit_arrivals();
  state_->end_all(FinishReason::kCancelled, std::nullopt);
}

int32_t Scheduler::context_limit() const { return scheduler::context_limit(state_->limits); }

Result<RequestId> Scheduler::submit(Request request) {
  PAGODA_CHECK(request.sink != nullptr);
  PAGODA_TRY_STATUS(check_request(request, state_->limits));
  std::vector<std::unique_ptr<Sequence>> choices = make_choices(std::move(request), state_->tokenizer);

  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  if (s.draining || s.stopping)
    return Error{Code::kUnavailable, "the server is shutting down and takes no new requests"};
  const int64_t queued = s.load.waiting + static_cast<int64_t>(s.arrivals.size());
  if (queued + static_cast<int64_t>(choices.size()) > s.limits.max_queued)
    return Error{Code::kNoCapacity, fmt::format("{} sequences wait and {} more were asked for, limit {}", queued,
                                                choices.size(), s.limits.max_queued)};
  const RequestId id{s.next_request++};
  choices.front()->owner->id = id;
  for (std::unique_ptr<Sequence>& seq : choices) {
    seq->id = SeqId{s.next_sequence++};
    seq->times.arrived_us = s.clock.now_us();
    s.arrivals.push_back(std::move(seq));
  }
  s.news.notify_one();
  return id;
}

void Scheduler::cancel(RequestId id) {
  const std::lock_guard lock(state_->mutex);
  state_->cancel_requests.push_back(id);
  state_->news.notify_one();
}

void Scheduler::reset_prefix_cache() {
  const std::lock_guard lock(state_->mutex);
  state_->reset_requested = true;
  state_->news.notify_one();
}

void Scheduler::begin_drain() {
  const std::lock_guard lock(state_->mutex);
  state_->draining = true;
}

bool Scheduler::draining() const {
  const std::lock_guard lock(state_->mutex);
  return state_->draining;
}

Scheduler::Load Scheduler::load() const {
  const std::lock_guard lock(state_->mutex);
  Load load = state_->load;
  load.waiting += static_cast<int32_t>(state_->arrivals.size());
  return load;
}

Result<bool> Scheduler::step() {
  State& s = *state_;
  s.admit_arrivals();
  s.drop_cancelled();  // their blocks are free before we plan
  s.find_prefixes();

  const Plan plan = plan_step(s.running, s.waiting, s.blocks.cache(), s.limits);
  PAGODA_CHECK(!plan.empty() || s.sequences.empty());  // nothing waits for ever
  s.publish_load();
  if (plan.empty()) return false;

  for (Sequence* victim : plan.victims) s.preempt(*victim);  // first give back ...
  s.reserve(plan.rows);                                      // ... then take: cannot fail, plan_step counted it
  s.publish_load();

  const int64_t began_us = s.clock.now_us();
  Result<engine::StepOutput> out = s.engine.run(s.batch_of(plan.rows));
  const int64_t took_us = s.clock.now_us() - began_us;
  s.blocks.finish_copies();
  if (!out.ok()) {
    s.end_all(FinishReason::kError, out.error());
    return out.error();
  }

  s.learn_cost(plan.rows, took_us);
  s.commit(plan.rows, out.value());
  s.note_kv_use(plan, took_us);
  s.emit(plan.rows, out.value());
  s.check_invariants();
  s.publish_load();
  return true;
}

void Scheduler::run_until_stopped() {
  State& s = *state_;
  const auto stopping = [&s] {
    const std::lock_guard lock(s.mutex);
    return s.stopping;
  };
  while (!stopping()) {
    try {
      const Result<bool> worked = step();
      if (!worked.ok()) log_error("the engine failed, all sequences end: {}", worked.error().message);
      if (!worked.ok() || worked.value()) continue;
      std::unique_lock lock(s.mutex);
      s.news.wait_for(lock, kIdleTick, [&s] {
        return s.stopping || s.reset_requested || !s.arrivals.empty() || !s.cancel_requests.empty();
      });
    } catch (const std::exception& error) {  // a library's throw, std::bad_alloc above all
      log_error("a step failed, all sequences end: {}", error.what());
      s.end_all(FinishReason::kError, Error{Code::kInternal, "the server ran into an internal error"});
    }
  }
  s.admit_arrivals();
  s.end_all(FinishReason::kCancelled, std::nullopt);
}

void Scheduler::stop() {
  const std::lock_guard lock(state_->mutex);
  state_->stopping = true;
  state_->news.notify_all();
}

}  // namespace pagoda::scheduler
