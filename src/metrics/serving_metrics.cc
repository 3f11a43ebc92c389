#include "metrics/serving_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "metrics/tier_families.h"

namespace pagoda::metrics {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;
using Labels = std::map<std::string, std::string>;

// vLLM's bucket bounds (v1/metrics/buckets.py), seconds: dashboards compute quantiles from them.
const Buckets& time_to_first_token_buckets() {
  static const Buckets bounds{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                              1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
  return bounds;
}
const Buckets& inter_token_buckets() {
  static const Buckets bounds{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                              0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
  return bounds;
}
const Buckets& request_latency_buckets() {
  static const Buckets bounds{0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                              30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
  return bounds;
}
const Buckets& iteration_token_buckets() {
  static const Buckets bounds{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
  return bounds;
}

/// Counters only ever grow.
double counted(int64_t tokens) { return static_cast<double>(std::max<int64_t>(tokens, 0)); }

// 1, 2, 5, 10, 20, 50, … up to the longest request there can be.
Buckets one_two_five(int32_t max_tokens) {
  Buckets bounds;
  for (double decade = 1; decade <= max_tokens; decade *= 10) {
    for (const double digit : {1., 2., 5.}) {
      if (digit * decade <= max_tokens) bounds.push_back(digit * decade);
    }
  }
  return bounds;
}

}  // namespace

struct ServingMetrics::State {
  State(const std::string& model_name, int32_t max_model_len)
      : labels{{"engine", "0"}, {"model_name", model_name}}, token_buckets(one_two_five(max_model_len)) {}

  Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, buckets);
  }
  Counter& by_source(const char* source) {
    Labels with_source = labels;
    with_source["source"] = source;
    return prompt_tokens_by_source.Add(with_source);
  }
  Labels with(const char* name, std::string value) const {
    Labels more = labels;
    more[name] = std::move(value);
    return more;
  }
  Counter& rejected(const std::string& reason) { return rejections.Add(with("reason", reason)); }
  Counter& finished(const std::string& reason) {
    Labels with_reason = labels;
    with_reason["finished_reason"] = reason;
    return success.Add(with_reason);  // the same labels give the same counter
  }

  const Labels labels;
  std::vector<std::pair<std::string, const TierCounters*>> tiers{};
  const Buckets token_buckets;
  prometheus::Registry registry{};

  Gauge& running = gauge("vllm:num_requests_running", "Sequences in the running batch.");
  Gauge& waiting = gauge("vllm:num_requests_waiting", "Sequences waiting for a place in the batch.");
  prometheus::Family<Gauge>& waiting_by_reason = prometheus::BuildGauge()
                                                     .Name("vllm:num_requests_waiting_by_reason")
                                                     .Help(
                                                         "The same by what they wait for: a place, or another one's "
                                                         "prompt.")
                                                     .Register(registry);
  Gauge& waiting_for_capacity = waiting_by_reason.Add(with("reason", "capacity"));
  Gauge& waiting_deferred = waiting_by_reason.Add(with("reason", "deferred"));
  prometheus::Family<Gauge>& scheduler_info = prometheus::BuildGauge()
                                                  .Name("pagoda:scheduler_info")
                                                  .Help("Scheduling policy and mode, as labels.")
                                                  .Register(registry);
  Gauge& kv_usage = gauge("vllm:kv_cache_usage_perc", "Share of the KV pool in use, 0 to 1.");
  prometheus::Family<Gauge>& cache_config = prometheus::BuildGauge()
                                                .Name("vllm:cache_config_info")
                                                .Help("Shape of the KV pool, as labels.")
                                                .Register(registry);

  prometheus::Family<Gauge>& kv_slots = prometheus::BuildGauge()
                                            .Name("pagoda:kv_cache_slots")
                                            .Help("Token slots of the KV pool by what they are used for.")
                                            .Register(registry);
  prometheus::Family<Counter>& kv_slot_seconds = prometheus::BuildCounter()
                                                     .Name("pagoda:kv_cache_slot_seconds_total")
                                                     .Help("The same, times the seconds of the steps it lasted.")
                                                     .Register(registry);
  struct KvState {
    int64_t KvUse::*part;
    Gauge& slots;
    Counter& slot_seconds;
  };
  KvState kv_state(const char* name, int64_t KvUse::*part) {
    return {part, kv_slots.Add(with("state", name)), kv_slot_seconds.Add(with("state", name))};
  }
  const std::array<KvState, 5> kv_states{kv_state("used", &KvUse::used), kv_state("internal", &KvUse::internal),
                                         kv_state("reserved", &KvUse::reserved), kv_state("external", &KvUse::external),
                                         kv_state("free", &KvUse::free)};

  Counter& prompt_tokens = counter("vllm:prompt_tokens_total", "Prompt tokens, computed or found in the prefix cache.");
  prometheus::Family<Counter>& prompt_tokens_by_source = prometheus::BuildCounter()
                                                             .Name("vllm:prompt_tokens_by_source_total")
                                                             .Help("Prompt tokens by where their KV came from.")
                                                             .Register(registry);
  Counter& prompt_tokens_computed = by_source("local_compute");
  Counter& prompt_tokens_found = by_source("local_cache_hit");
  Counter& prompt_tokens_cached =
      counter("vllm:prompt_tokens_cached_total", "Prompt tokens found in the prefix cache.");
  Counter& prefix_queries = counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.");
  Counter& prefix_hits = counter("vllm:prefix_cache_hits_total", "Prompt tokens found there.");
  Counter& generation_tokens = counter("vllm:generation_tokens_total", "Tokens generated.");
  Counter& preemptions = counter("vllm:num_preemptions_total", "Sequences preempted because the KV pool ran out.");
  Counter& corrupted =
      counter("vllm:corrupted_requests_total", "Sequences ended because their logits were no numbers.");
  prometheus::Family<Counter>& rejections = prometheus::BuildCounter()
                                                .Name("vllm:admission_rejections_total")
                                                .Help("Requests that were not let into the queue, by reason.")
                                                .Register(registry);
  prometheus::Family<Counter>& success = prometheus::BuildCounter()
                                             .Name("vllm:request_success_total")
                                             .Help("Finished requests by reason.")
                                             .Register(registry);

  Histogram& time_to_first_token =
      histogram("vllm:time_to_first_token_seconds", "Arrival to first token.", time_to_first_token_buckets());
  Histogram& inter_token =
      histogram("vllm:inter_token_latency_seconds", "Between two tokens of one sequence.", inter_token_buckets());
  Histogram& e2e = histogram("vllm:e2e_request_latency_seconds", "Arrival to last token.", request_latency_buckets());
  Histogram& queue_time =
      histogram("vllm:request_queue_time_seconds", "Arrival to first scheduled.", request_latency_buckets());
  Histogram& prefill_time =
      histogram("vllm:request_prefill_time_seconds", "First scheduled to first token.", request_latency_buckets());
  Histogram& decode_time =
      histogram("vllm:request_decode_time_seconds", "First token to last token.", request_latency_buckets());
  Histogram& request_prompt_tokens =
      histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", token_buckets);
  Histogram& request_generation_tokens =
      histogram("vllm:request_generation_tokens", "Generated tokens of a request.", token_buckets);
  Histogram& iteration_tokens =
      histogram("vllm:iteration_tokens_total", "Token rows of an engine step.", iteration_token_buckets());
  Histogram& params_n = histogram("vllm:request_params_n", "The parameter n.", {1, 2, 5, 10, 20});
  Histogram& params_max_tokens =
      histogram("vllm:request_params_max_tokens", "The parameter max_tokens.", token_buckets);
};

ServingMetrics::ServingMetrics(std::string model_name, int32_t max_model_len)
    : state_(std::make_unique<State>(model_name, max_model_len)) {
  // Present from 0 on.
  for (const char* reason : {"stop", "length", "abort", "error", "timeout"}) state_->finished(reason);
  for (const char* reason : {"queue_full", "invalid", "unavailable"}) state_->rejected(reason);
}
ServingMetrics::~ServingMetrics() = default;

void ServingMetrics::set_running(int32_t sequences) { state_->running.Set(sequences); }
void ServingMetrics::set_waiting(int32_t sequences, int32_t deferred) {
  state_->waiting.Set(sequences);
  state_->waiting_for_capacity.Set(std::max(0, sequences - deferred));
  state_->waiting_deferred.Set(std::min(sequences, deferred));
}
void ServingMetrics::set_scheduler_info(std::string_view policy, std::string_view mode) {
  Labels labels = state_->labels;
  labels["policy"] = policy;
  labels["mode"] = mode;
  state_->scheduler_info.Add(labels).Set(1);
}
void ServingMetrics::set_kv_usage(double used_fraction) { state_->kv_usage.Set(used_fraction); }
void ServingMetrics::set_cache_config(int32_t block_tokens, int32_t total_blocks) {
  Labels shape = state_->labels;
  shape["block_size"] = std::to_string(block_tokens);
  shape["num_gpu_blocks"] = std::to_string(total_blocks);  // vLLM's label; here the blocks lie in host memory
  state_->cache_config.Add(shape).Set(1);
}

void ServingMetrics::note_kv_use(const KvUse& use, double seconds) {
  for (const State::KvState& state : state_->kv_states) {
    const auto slots = static_cast<double>(use.*state.part);
    state.slots.Set(slots);
    state.slot_seconds.Increment(slots * std::max(seconds, 0.0));
  }
}

void ServingMetrics::add_computed_prompt_tokens(int64_t tokens) {
  const double count = counted(tokens);
  state_->prompt_tokens.Increment(count);
  state_->prompt_tokens_computed.Increment(count);
}
void ServingMetrics::add_cached_prompt_tokens(int64_t tokens) {
  const double count = counted(tokens);
  for (Counter* counter :
       {&state_->prompt_tokens, &state_->prompt_tokens_found, &state_->prompt_tokens_cached, &state_->prefix_hits})
    counter->Increment(count);
}
void ServingMetrics::add_prefix_cache_queries(int64_t tokens) { state_->prefix_queries.Increment(counted(tokens)); }
void ServingMetrics::add_generation_tokens(int64_t tokens) { state_->generation_tokens.Increment(counted(tokens)); }
void ServingMetrics::add_preemption() { state_->preemptions.Increment(); }
int64_t ServingMetrics::preemptions() const { return static_cast<int64_t>(state_->preemptions.Value()); }
void ServingMetrics::add_corrupted() { state_->corrupted.Increment(); }
void ServingMetrics::add_rejected(const std::string& reason) { state_->rejected(reason).Increment(); }
void ServingMetrics::add_finished(const std::string& finished_reason) { state_->finished(finished_reason).Increment(); }

void ServingMetrics::observe_time_to_first_token(double seconds) { state_->time_to_first_token.Observe(seconds); }
void ServingMetrics::observe_inter_token_latency(double seconds) { state_->inter_token.Observe(seconds); }
void ServingMetrics::observe_e2e_latency(double seconds) { state_->e2e.Observe(seconds); }
void ServingMetrics::observe_queue_time(double seconds) { state_->queue_time.Observe(seconds); }
void ServingMetrics::observe_prefill_time(double seconds) { state_->prefill_time.Observe(seconds); }
void ServingMetrics::observe_decode_time(double seconds) { state_->decode_time.Observe(seconds); }
void ServingMetrics::observe_request_tokens(int32_t prompt_tokens, int32_t generation_tokens) {
  state_->request_prompt_tokens.Observe(prompt_tokens);
  state_->request_generation_tokens.Observe(generation_tokens);
}
void ServingMetrics::observe_iteration_tokens(int32_t tokens) { state_->iteration_tokens.Observe(tokens); }
void ServingMetrics::observe_request_params(int32_t n, int32_t max_tokens) {
  state_->params_n.Observe(n);
  state_->params_max_tokens.Observe(max_tokens);
}

void ServingMetrics::watch_tier(std::string tier, const TierCounters& counters) {
  state_->tiers.emplace_back(std::move(tier), &counters);
}

std::string ServingMetrics::expose() const {
  std::vector<prometheus::MetricFamily> families = state_->registry.Collect();
  add_tier_families(state_->tiers, state_->labels, families);
  return prometheus::TextSerializer{}.Serialize(families);
}

}  // namespace pagoda::metrics
