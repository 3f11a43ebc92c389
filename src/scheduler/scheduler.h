#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/clock.h"
#include "core/result.h"
#include "engine/batch.h"
#include "kvcache/block_shape.h"
#include "metrics/serving_metrics.h"
#include "scheduler/policy/fair.h"
#include "scheduler/policy/policy.h"
#include "scheduler/request.h"
#include "scheduler/tiers.h"
#include "text/tokenizer.h"

namespace pagoda::scheduler {

/// How batches are formed. kPaged is Pagoda; the others are what it is measured against, on the same engine and with
/// the same answers. They share no prefixes and preempt nobody.
enum class SchedulingMode : uint8_t {
  kPaged,   // KV blocks as tokens come, iteration-level batching, prefix sharing (vLLM, arXiv:2309.06180)
  kOrca,    // iteration-level batching, KV reserved for prompt + max_tokens at entry (Orca, OSDI 2022)
  kStatic,  // as FasterTransformer: a batch is formed when the last one is over, KV is reserved for its longest prompt
            // plus its longest max_tokens, those who are done compute on until the slowest is, and their ends come
            // then. Padding of prompts is counted (Load::padding_rows) and not computed: later FasterTransformers
            // removed it
};
inline constexpr std::array<std::string_view, 3> kModeNames = {"paged", "orca", "static"};
inline std::string_view name_of(SchedulingMode mode) { return kModeNames[static_cast<size_t>(mode)]; }
/// Error kInvalidRequest lists the names.
Result<SchedulingMode> parse_scheduling_mode(std::string_view name);

/// What becomes of a victim's KV. Names are vLLM's, the rule of kAuto is ours.
enum class PreemptionMode : uint8_t {
  kAuto,       // to host memory if there is some, and if copying there and back costs less than computing
  kRecompute,  // it makes room as it is needed, and is computed again
  kSwap,       // always to host memory: all full blocks that nobody else holds
};
inline constexpr std::array<std::string_view, 3> kPreemptionNames = {"auto", "recompute", "swap"};
inline std::string_view name_of(PreemptionMode mode) { return kPreemptionNames[static_cast<size_t>(mode)]; }
/// Error kInvalidRequest lists the names.
Result<PreemptionMode> parse_preemption_mode(std::string_view name);

/// Bounds of the serving loop. Flags of the same names set them.
struct Limits {
  int32_t max_num_seqs = 64;  // sequences in one batch; lowered to max_num_batched_tokens, so that all can decode
  int32_t max_num_batched_tokens = 256;  // rows in one step
  int32_t max_model_len = 0;             // context, tokens
  int32_t max_queued = 1024;             // sequences waiting; beyond it submit() answers kNoCapacity
  int64_t max_queued_tokens = 0;         // prompt tokens waiting, 0 = no limit
  int32_t total_blocks = 0;              // KV pool, in pages where a block is several (BlockShape)
  kvcache::BlockShape shape{};           // the engine's: whoever makes a Scheduler need not set it
  bool prefix_caching = true;            // sequences share the blocks of equal beginnings
  Policy policy = Policy::kFcfs;
  FairWeights fair_weights{};  // by Request::account
  SchedulingMode mode = SchedulingMode::kPaged;
  PreemptionMode preemption = PreemptionMode::kAuto;
  int32_t itl_slo_ms = 0;       // between two tokens of one sequence; prompts are cut to keep it. 0 = no objective
  int32_t max_prompt_rows = 0;  // so many of a step's rows are prompts' at most; 0 = all that decodes leave
};

/// Who runs next. One worker thread owns all state; others post to its inbox.
///
/// Source of the design: Orca (OSDI 2022, iteration-level batching), vLLM (arXiv:2309.06180, paged KV, preemption by
/// recomputation), Sarathi-Serve (arXiv:2403.02310, chunked prefill).
class Scheduler {
 public:
  /// `tokenizer` may be null in tests (events then carry no text). All references must outlive the scheduler.
  Scheduler(engine::Engine& engine, const text::Tokenizer* tokenizer, Limits limits, const Clock& clock,
            metrics::ServingMetrics& metrics, Tiers tiers = {});
  ~Scheduler();

  // --- any thread -------------------------------------------------------------------------------------------------
  /// Longest prompt plus output that one request can have: max_model_len, or the KV pool if that is smaller. What a
  /// front end offers as the default of max_tokens must stay within it.
  int32_t context_limit() const;
  /// Checks what can be known at once (prompt empty or over max_model_len, could never fit the pool, priority without
  /// Policy::kPriority, queue full, draining) and enqueues. Errors carry the numbers, that of a full queue when to come
  /// again. Output ends with kLength at max_model_len, whatever max_tokens says.
  Result<RequestId> submit(Request request);
  /// Takes effect at the next step; the remaining choices end with kCancelled. Unknown ids are ignored.
  void cancel(RequestId id);
  /// Requests submitted after this find nothing that was computed before it.
  void reset_prefix_cache();
  /// No new requests; those inside go on.
  void begin_drain();
  bool draining() const;
  /// Running and waiting sequences, and what the KV pool is used for.
  struct Load {
    int32_t running;
    int32_t waiting;
    int64_t waiting_tokens;  // of their prompts
    int32_t total_blocks;
    int32_t free_blocks;    // nobody holds them; those of finished sequences count, though they may be found again
    int32_t cached_blocks;  // so many of the free ones. With windows all three count pages, as whole blocks
    int64_t last_step_us;   // clock value of the last turn of the loop: /health compares it with now
    metrics::KvUse kv;      // token slots in the last step
    metrics::KvUse kv_us;   // the same summed over all steps, times how long each took: slots * microseconds
    int64_t padding_rows;   // SchedulingMode::kStatic: what its prompts would be padded by; nobody computes that
  };
  Load load() const;

  // --- worker thread ----------------------------------------------------------------------------------------------
  /// One turn of the serving loop; false when nobody had work.
  Result<bool> step();
  /// step() until stop(); sleeps when idle. Library throws end here: every sequence fails with kInternal.
  void run_until_stopped();

  // --- any thread -------------------------------------------------------------------------------------------------
  /// Ends run_until_stopped() after the current step; sequences still inside end with kCancelled.
  void stop();

 private:
  Result<RequestId> enqueue(Request request);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pagoda::scheduler
