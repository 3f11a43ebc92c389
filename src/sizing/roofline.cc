#include "sizing/roofline.h"

#include <algorithm>

#include "sizing/kv_bytes.h"

namespace pagoda::sizing {
namespace {

double seen(const AttentionShape& layer, int32_t context) {
  return layer.window > 0 ? std::min(context, layer.window) : context;
}

/// sum over i = 1..n of min(i, window)
double seen_in_prefill(const AttentionShape& layer, int32_t tokens) {
  const double n = tokens, w = seen(layer, tokens);
  return w * (w + 1) / 2 + (n - w) * w;
}

}  // namespace

double decode_step_seconds(const ModelCost& cost, const MachineLimits& machine, int32_t context, int32_t sequences) {
  double kv_bytes = 0, attention_macs = 0;
  for (const AttentionShape& layer : cost.layers) {
    kv_bytes += static_cast<double>(kv_token_bytes(layer, cost.k, cost.v)) * seen(layer, context);
    attention_macs += 2.0 * layer.heads * layer.head_dim * seen(layer, context);
  }
  const double memory = (static_cast<double>(cost.step_weight_bytes) + sequences * kv_bytes) / machine.bytes_per_s;
  const double arithmetic =
      sequences * (static_cast<double>(cost.linear_macs + cost.head_macs) / machine.int_macs_per_s +
                   attention_macs / machine.f32_macs_per_s);
  return std::max(memory, arithmetic);
}

double prefill_seconds(const ModelCost& cost, const MachineLimits& machine, int32_t tokens) {
  double attention_macs = 0;
  for (const AttentionShape& layer : cost.layers)
    attention_macs += 2.0 * layer.heads * layer.head_dim * seen_in_prefill(layer, tokens);
  const double linear =
      static_cast<double>(tokens) * static_cast<double>(cost.linear_macs) + static_cast<double>(cost.head_macs);
  return linear / machine.int_macs_per_s + attention_macs / machine.f32_macs_per_s;
}

KernelLimit kernel_limit(const KernelCost& cost, const MachineLimits& machine) {
  const double memory = static_cast<double>(cost.bytes) / machine.bytes_per_s;
  const double arithmetic = static_cast<double>(cost.int_macs) / machine.int_macs_per_s +
                            static_cast<double>(cost.f32_macs) / machine.f32_macs_per_s;
  return {std::max(memory, arithmetic), memory >= arithmetic};
}

double load_seconds(int64_t file_bytes, int64_t packed_bytes, const MachineLimits& machine) {
  return static_cast<double>(file_bytes + packed_bytes) / machine.bytes_per_s;
}

}  // namespace pagoda::sizing
