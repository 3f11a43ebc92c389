#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "scheduler/admission.h"
#include "scheduler/plan_step.h"
#include "scheduler/prompt_scores.h"
#include "scheduler/queue_order.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"
#include "scheduler/sequence_blocks.h"
#include "scheduler/tier_loads.h"
#include "sizing/queue_time.h"
#include "sizing/step_cost.h"

namespace pagoda::scheduler {

/// What the worker thread owns, and the inbox to it. scheduler.cc is its only user.
struct Scheduler::State {
  State(engine::Engine& engine_in, const text::Tokenizer* tokenizer_in, Limits limits_in, const Clock& clock_in,
        metrics::ServingMetrics& metrics_in, Tiers tiers_in);
  ~State();

  // --- worker thread: one step, in the order of step() --------------------------------------------------------------
  void admit_arrivals();
  void drop_cancelled();
  void drop_expired();
  /// Before planning: what running prompts and the next newcomers need not compute, because it is there by now. Those
  /// newcomers: no others can enter.
  std::span<Sequence* const> find_prefixes();
  void ask_tiers(size_t most);
  /// find_prefixes(), and what the step computes then.
  Plan plan();
  /// The victim leaves the batch: what becomes of its KV is decided here.
  void preempt(Sequence& victim);
  void reserve(const std::vector<Row>& rows);
  void note_padding(const std::vector<Row>& rows);
  std::span<const uint64_t> allowed_next(Sequence& seq) const;
  std::optional<Error> follow_grammar(Sequence& seq, const engine::ChunkOutput& chunk) const;
  engine::Batch batch_of(const std::vector<Row>& rows) const;
  void commit(const std::vector<Row>& rows, const engine::StepOutput& out);
  void emit(const std::vector<Row>& rows, engine::StepOutput& out);
  void check_invariants() const;
  void publish_load();

  // --- any thread, with the mutex held -------------------------------------------------------------------------------
  Queued queued() const;
  /// `why` with the time until `places` more sequences have left.
  Error refuse(Error why, int32_t places);
  void learn_cost(const std::vector<Row>& rows, int64_t took_us);  // before commit()
  /// What the pool is used for once the step's rows are in it.
  void note_kv_use(const Plan& plan, int64_t took_us);

  /// Prompt tokens up to `cached_tokens` are there; those not reached before count, as reused or as computed.
  int32_t reach_prompt(Sequence& seq) const;
  void note_reuse(Sequence& seq);
  void take_scores(Sequence& seq, std::vector<engine::PromptScore> arrived);
  void emit_token(Sequence& seq, sampling::SampledToken token);
  Event new_event(Sequence& seq) const;
  /// Takes the sequence out of everything, then sends its last event; in a static batch, when all of it have ended.
  void finish(Sequence& seq, Event last);
  void finish_static_batch();
  void leave(Sequence& seq, Event last);
  void end_siblings(const RequestState& request, const Error& error);
  void take_out(Sequence& seq, bool worth_keeping);
  void end_from_outside(Sequence& seq, FinishReason reason, std::optional<Error> error);
  void end_from_outside(std::vector<Sequence*> doomed, FinishReason reason,
                        const std::function<std::optional<Error>(const Sequence&)>& why);
  // Beam searches, in beams.cc.
  void note_beam(Sequence& seq, engine::ChunkOutput& chunk);
  /// Once all its beams have candidates. Returns how many tokens it has told.
  int32_t advance_beams(RequestState& owner);
  Sequence& fork_beam(const Sequence& parent);
  int32_t tell_beams(RequestState& owner);
  void end_beams(const std::shared_ptr<RequestState>& owner, FinishReason reason, std::optional<Error> error);
  /// A beam that waits for others gives its blocks back; false if none does.
  bool preempt_parked();
  void end_all(FinishReason reason, const std::optional<Error>& error);

  engine::Engine& engine;
  const text::Tokenizer* tokenizer;
  const Limits limits;
  const Clock& clock;
  metrics::ServingMetrics& metrics;

  // Owned by the worker thread. Every admitted sequence is in exactly one of the two queues, both in runs_before()
  // order.
  SequenceBlocks blocks;
  PromptScores scores;
  engine::BlockTier* const disk;  // null = none
  TierLoads tiers;
  QueueOrder order;
  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> sequences;  // by SeqId
  std::vector<Sequence*> running;                                     // exactly those that hold blocks
  std::vector<Sequence*> waiting;
  std::vector<Sequence*> newcomers;  // of those waiting, who does not wait for blocks from a tier
  std::vector<RequestId> cancels;    // taken from the inbox, not yet carried out
  bool only_tiers_work = false;      // all who are inside wait for blocks: so can the worker
  sizing::StepCost cost{};
  double mean_answer = 128;  // tokens; a guess until some have finished
  int32_t deferred = 0;      // waiting for another's prompt in the last step
  metrics::KvUse kv{};       // in the last step
  metrics::KvUse kv_us{};    // over all steps
  int64_t padding_rows = 0;  // of static batches so far

  // The inbox: written by any thread.
  mutable std::mutex mutex;
  std::condition_variable news;
  std::vector<std::unique_ptr<Sequence>> arrivals;
  int64_t arrived_tokens = 0;  // of their prompts
  std::vector<RequestId> cancel_requests;
  bool reset_requested = false;
  bool tier_news = false;
  uint64_t next_request = 1;
  uint64_t next_sequence = 1;
  bool stopping = false;
  bool draining = false;
  Load load{};           // without arrivals
  int64_t place_us = 0;  // until one more sequence has left; 0 = unknown
};

}  // namespace pagoda::scheduler
