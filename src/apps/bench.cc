#include "apps/bench.h"

#include "engine/kv_storage.h"

namespace pagoda::apps {

double StealWatch::percent() const {
  const CpuTicks now = cpu_ticks();
  const int64_t total = now.total - begin_.total;
  return total > 0 ? 100.0 * static_cast<double>(now.steal - begin_.steal) / static_cast<double>(total) : 0;
}

sizing::ModelCost model_cost(const weights::GgufFile& file, const model::ModelConfig& config, kernels::KvTypes kv) {
  const bool tied = file.find_tensor("output.weight") == nullptr;
  sizing::ModelCost cost{};
  cost.k = engine::kv_numbers(kv.k);
  cost.v = engine::kv_numbers(kv.v);
  cost.head_macs = int64_t{config.vocab} * config.width;
  for (const weights::GgufTensor& tensor : file.tensors()) {
    const bool embedding = tensor.name == "token_embd.weight";
    if (!embedding || tied) cost.step_weight_bytes += static_cast<int64_t>(tensor.data.size());
    if (!embedding && tensor.name != "output.weight" && tensor.rows() > 1) cost.linear_macs += tensor.elements();
  }
  for (const model::LayerConfig& layer : config.layers)
    cost.layers.push_back({layer.heads, layer.kv_heads, config.head_dim, layer.window});
  return cost;
}

sizing::MachineLimits limits_of(double bandwidth_gb_s, const kernels::ArithmeticRates& rates) {
  return {bandwidth_gb_s * 1e9, rates.int_gmac_s * 1e9, rates.f32_gmac_s * 1e9};
}

double mac_per_cycle(double macs_per_s, const kernels::ArithmeticRates& rates, int32_t threads) {
  return macs_per_s / (rates.clock_ghz * 1e9 * threads);
}

void add_bench(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("bench", "Measure speed beside what the machine could do");
  verb->require_subcommand(1);
  add_bench_machine(*verb, invocation);
  add_bench_kernels(*verb, invocation);
  add_bench_latency(*verb, invocation);
  add_bench_serve(*verb, invocation);
}

}  // namespace pagoda::apps
