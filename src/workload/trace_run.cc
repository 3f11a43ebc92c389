#include "workload/trace_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include "core/clock.h"

namespace pagoda::workload {
namespace {

/// Notes when tokens come. Pushed to by the thread that steps.
class TimingSink final : public scheduler::EventSink {
 public:
  TimingSink(const Clock& clock, int64_t begin_us) : clock_(clock), begin_us_(begin_us) {}
  void push(scheduler::Event event) override {
    if (event.token) {
      token_s.push_back(static_cast<double>(clock_.now_us() - begin_us_) * 1e-6);
      ids.push_back(event.token->id);
    }
    cached_tokens = event.cached_tokens;
    if (event.error) error = std::move(event.error);
  }
  std::vector<double> token_s;
  std::vector<TokenId> ids;
  int32_t cached_tokens = 0;
  std::optional<Error> error;

 private:
  const Clock& clock_;
  int64_t begin_us_;
};

/// Notes how many sequences each step has.
class CountingEngine final : public engine::Engine {
 public:
  CountingEngine(engine::Engine& inner, const Clock& clock, int64_t begin_us)
      : inner_(inner), clock_(clock), begin_us_(begin_us) {}
  Result<engine::StepOutput> run(const engine::Batch& batch) override {
    const double at_s = now_s();
    auto output = inner_.run(batch);
    points.push_back({at_s, now_s() - at_s, static_cast<int32_t>(batch.chunks.size())});
    return output;
  }
  std::vector<BatchPoint> points;

 private:
  double now_s() const { return static_cast<double>(clock_.now_us() - begin_us_) * 1e-6; }

  engine::Engine& inner_;
  const Clock& clock_;
  int64_t begin_us_;
};

}  // namespace

Result<TraceRun> run_trace(engine::Engine& engine, const scheduler::Limits& limits,
                           const std::vector<ScaledRequest>& requests) {
  const SteadyClock clock;
  const int64_t begin_us = clock.now_us();
  const auto now_s = [&] { return static_cast<double>(clock.now_us() - begin_us) * 1e-6; };
  CountingEngine counting(engine, clock, begin_us);
  metrics::ServingMetrics metrics("trace");
  scheduler::Scheduler scheduler(counting, nullptr, limits, clock, metrics);
  std::vector<std::shared_ptr<TimingSink>> sinks;
  for (bool worked = true; worked || sinks.size() < requests.size();) {
    for (; sinks.size() < requests.size() && requests[sinks.size()].arrival_s <= now_s();) {
      const ScaledRequest& one = requests[sinks.size()];
      sinks.push_back(std::make_shared<TimingSink>(clock, begin_us));
      scheduler::Request request;
      request.prompt = one.prompt;
      request.max_tokens = one.max_tokens;
      request.ignore_eos = true;
      request.sampling.temperature = 0.f;
      request.sink = sinks.back();
      PAGODA_TRY(const scheduler::RequestId id, scheduler.submit(std::move(request)));
      static_cast<void>(id);
    }
    PAGODA_TRY(worked, scheduler.step());
    if (!worked && sinks.size() < requests.size())
      std::this_thread::sleep_for(
          std::chrono::duration<double>(std::clamp(requests[sinks.size()].arrival_s - now_s(), 0.0, 0.01)));
  }
  const scheduler::Scheduler::Load load = scheduler.load();
  TraceRun run{{}, std::move(counting.points), load.kv_us, metrics.preemptions(), load.padding_rows,
               0,  0xCBF29CE484222325ull};
  for (size_t i = 0; i < sinks.size(); ++i) {
    TimingSink& sink = *sinks[i];
    if (sink.error) return *sink.error;
    PAGODA_CHECK(!sink.token_s.empty());
    for (const TokenId id : sink.ids)
      run.digest = (run.digest ^ static_cast<uint64_t>(id)) * 0x100000001B3ull;  // FNV-1a
    run.seconds = std::max(run.seconds, sink.token_s.back());
    run.requests.push_back({requests[i].arrival_s, std::move(sink.token_s),
                            static_cast<int32_t>(requests[i].prompt.size()), sink.cached_tokens});
  }
  return run;
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double at = p / 100 * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

}  // namespace pagoda::workload
