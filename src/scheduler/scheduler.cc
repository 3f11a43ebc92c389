#include "scheduler/scheduler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "core/check.h"
#include "core/log.h"
#include "scheduler/admission.h"
#include "scheduler/scheduler_state.h"

namespace pagoda::scheduler {
namespace {

constexpr auto kIdleTick = std::chrono::milliseconds(200);  // an idle loop still shows that it lives

const char* rejection_reason(Code code) {
  return code == Code::kNoCapacity ? "queue_full" : code == Code::kUnavailable ? "unavailable" : "invalid";
}

template <class Mode, size_t N>
Result<Mode> parse_name(std::string_view name, const std::array<std::string_view, N>& names, const char* what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    return Error{Code::kInvalidRequest,
                 fmt::format("\"{}\" is no {} mode, one of {} is", name, what, fmt::join(names, ", "))};
  return static_cast<Mode>(found - names.begin());
}

}  // namespace

Result<SchedulingMode> parse_scheduling_mode(std::string_view name) {
  return parse_name<SchedulingMode>(name, kModeNames, "scheduling");
}

Result<PreemptionMode> parse_preemption_mode(std::string_view name) {
  return parse_name<PreemptionMode>(name, kPreemptionNames, "preemption");
}

Scheduler::Scheduler(engine::Engine& engine, const text::Tokenizer* tokenizer, Limits limits, const Clock& clock,
                     metrics::ServingMetrics& metrics, Tiers tiers) {
  limits.max_num_seqs = std::min(limits.max_num_seqs, limits.max_num_batched_tokens);
  if (limits.mode != SchedulingMode::kPaged) limits.prefix_caching = false;
  limits.shape = engine.block_shape();
  state_ = std::make_unique<State>(engine, tokenizer, limits, clock, metrics, tiers);
}

Scheduler::~Scheduler() {
  state_->admit_arrivals();
  state_->end_all(FinishReason::kCancelled, std::nullopt);
}

int32_t Scheduler::context_limit() const { return scheduler::context_limit(state_->limits); }

Result<RequestId> Scheduler::submit(Request request) {
  PAGODA_CHECK(request.sink != nullptr);
  Result<RequestId> id = enqueue(std::move(request));
  if (!id.ok()) state_->metrics.add_rejected(rejection_reason(id.error().code));
  return id;
}

Result<RequestId> Scheduler::enqueue(Request request) {
  State& s = *state_;
  PAGODA_TRY_STATUS(check_request(request, s.limits));
  const std::lock_guard lock(s.mutex);
  if (s.draining || s.stopping)
    return Error{Code::kUnavailable, "the server is shutting down and takes no new requests"};
  if (Status room = check_queue(request, s.queued(), s.limits); !room.ok()) return s.refuse(room.error(), request.n);

  std::vector<std::unique_ptr<Sequence>> choices = make_choices(std::move(request), s.tokenizer, s.limits);
  const RequestId id{s.next_request++};
  choices.front()->owner->id = id;
  const int64_t now_us = s.clock.now_us(), deadline_us = choices.front()->owner->request.deadline_us;
  for (std::unique_ptr<Sequence>& seq : choices) {
    seq->id = SeqId{s.next_sequence++};
    seq->times.arrived_us = now_us;
    if (deadline_us > 0) seq->deadline_us = now_us + deadline_us;
    s.arrived_tokens += seq->prompt_tokens;
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
  s.drop_expired();
  s.finish_static_batch();
  s.order.refresh(s.running, s.waiting);
  Plan plan = s.plan();
  while (plan.empty() && !s.tiers.anybody_waits() && s.preempt_parked()) plan = s.plan();
  PAGODA_CHECK(!plan.empty() || s.sequences.empty() || s.tiers.anybody_waits());  // nothing waits for ever
  s.deferred = plan.deferred;
  s.publish_load();
  s.only_tiers_work = plan.empty() && s.tiers.anybody_waits();
  if (plan.empty()) return s.only_tiers_work;

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
      if (!worked.ok() || (worked.value() && !s.only_tiers_work)) continue;
      std::unique_lock lock(s.mutex);
      s.news.wait_for(lock, kIdleTick, [&s] {
        return s.stopping || s.reset_requested || s.tier_news || !s.arrivals.empty() || !s.cancel_requests.empty();
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
