#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "metrics/tier_counters.h"

namespace pagoda::metrics {

/// What the token slots of the KV pool are used for. The five add up to the pool.
struct KvUse {
  int64_t used = 0;      // hold a token's K and V; one that several sequences share counts once
  int64_t internal = 0;  // lost to the block's size: the unused rest of blocks that are begun
  int64_t reserved = 0;  // whole blocks taken for tokens that may come (only modes that reserve ahead have any)
  int64_t external = 0;  // free while a sequence waits that needs more than there is
  int64_t free = 0;      // free otherwise

  /// Weighted with the time it lasted, for averages over time.
  KvUse& add(const KvUse& other, int64_t weight) {
    used += other.used * weight;
    internal += other.internal * weight;
    reserved += other.reserved * weight;
    external += other.external * weight;
    free += other.free * weight;
    return *this;
  }
};

/// What operators watch, under vLLM's names (`vllm:num_requests_running`, `vllm:time_to_first_token_seconds`, …) with
/// the labels model_name and engine. Thread-safe. Counters only ever grow; negative increments are ignored.
class ServingMetrics {
 public:
  /// Token-count histograms reach up to `max_model_len`.
  explicit ServingMetrics(std::string model_name, int32_t max_model_len = 131072);
  ~ServingMetrics();

  // gauges
  void set_running(int32_t sequences);
  /// So many of the waiting are deferred: another one computes their prompt's beginning; the others lack a place.
  void set_waiting(int32_t sequences, int32_t deferred = 0);
  void set_scheduler_info(std::string_view policy, std::string_view mode);
  void set_kv_usage(double used_fraction);  // 0..1
  void set_cache_config(int32_t block_tokens, int32_t total_blocks);
  /// One step: what the pool was used for, and for how long. pagoda:kv_cache_slots{state} now and
  /// pagoda:kv_cache_slot_seconds_total{state} summed up: rates of the latter give utilisation and waste by cause.
  void note_kv_use(const KvUse& use, double seconds);

  // counters
  void add_computed_prompt_tokens(int64_t tokens);  // both are prompt tokens, by source
  void add_cached_prompt_tokens(int64_t tokens);    // and hits of the prefix cache
  void add_prefix_cache_queries(int64_t tokens);    // prompt tokens that were looked up
  void add_generation_tokens(int64_t tokens);
  void add_preemption();
  void add_finished(const std::string& finished_reason);  // stop, length, abort, error, timeout
  void add_corrupted();                                   // the model's numbers were none (NaN): that request ended
  void add_rejected(const std::string& reason);           // queue_full, invalid, unavailable

  // histograms, seconds or tokens
  void observe_time_to_first_token(double seconds);
  void observe_inter_token_latency(double seconds);
  void observe_e2e_latency(double seconds);
  void observe_queue_time(double seconds);
  void observe_prefill_time(double seconds);
  void observe_decode_time(double seconds);
  void observe_request_tokens(int32_t prompt_tokens, int32_t generation_tokens);
  void observe_iteration_tokens(int32_t tokens);
  void observe_request_params(int32_t n, int32_t max_tokens);

  /// From now on the page shows what this place for KV blocks did, under pagoda:kv_tier_*; `counters` must outlive this
  /// object. Before the first expose().
  void watch_tier(std::string tier, const TierCounters& counters);

  /// How often add_preemption() was called.
  int64_t preemptions() const;

  /// Prometheus text exposition format 0.0.4.
  std::string expose() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pagoda::metrics
