#pragma once
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/median.h"
#include "apps/verbs.h"
#include "core/machine.h"
#include "kernels/machine_rates.h"
#include "model/config.h"
#include "sizing/roofline.h"
#include "weights/gguf.h"

namespace pagoda::apps {

/// The verbs of `pagoda bench`, each in its own file.
void add_bench_machine(CLI::App& bench, Invocation& invocation);
void add_bench_kernels(CLI::App& bench, Invocation& invocation);
void add_bench_latency(CLI::App& bench, Invocation& invocation);
void add_bench_serve(CLI::App& bench, Invocation& invocation);

/// What the hypervisor took from all CPUs while something ran.
class StealWatch {
 public:
  StealWatch() : begin_(cpu_ticks()) {}
  int64_t ticks() const { return cpu_ticks().steal - begin_.steal; }
  double percent() const;  // of the time of all CPUs

 private:
  CpuTicks begin_;
};

/// What a step of the model costs: tensors by their size in the file, shapes from the configuration.
sizing::ModelCost model_cost(const weights::GgufFile& file, const model::ModelConfig& config, kernels::KvTypes kv);

sizing::MachineLimits limits_of(double bandwidth_gb_s, const kernels::ArithmeticRates& rates);

/// Multiply-accumulates a cycle and core.
double mac_per_cycle(double macs_per_s, const kernels::ArithmeticRates& rates, int32_t threads);

}  // namespace pagoda::apps
