#pragma once
#include <cstdint>
#include <vector>

namespace pagoda::sizing {

/// What one layer's attention costs.
struct AttentionShape {
  int32_t heads;     // H
  int32_t kv_heads;  // Hkv
  int32_t head_dim;  // Dh
  int32_t window;    // tokens a position sees, 0 = all before it
};

/// How a number of K or V is stored.
struct KvNumbers {
  int32_t bits;          // of a number
  int32_t scale_bytes;   // of a scale and what belongs to it; 0 = none
  int32_t scale_values;  // numbers that share one, 0 = those of a token's head
};

/// What a model costs, in plain numbers.
struct ModelCost {
  // File bytes of every tensor a step touches: all but the embedding of an untied model, of which a step reads a row a
  // token (not counted: that makes the limit a little stricter, never looser).
  int64_t step_weight_bytes;
  int64_t linear_macs;  // multiply-accumulates a token in the layers' matrices
  int64_t head_macs;    // ... and in the head, for rows that need logits
  KvNumbers k;
  KvNumbers v;
  std::vector<AttentionShape> layers;
};

/// What the machine can do at most, all threads together.
struct MachineLimits {
  double bytes_per_s;
  double int_macs_per_s;  // int8 products of the weights
  double f32_macs_per_s;  // attention
};

/// The least time one step of `sequences` decodes at context `context` takes, seconds:
///   max((W + S K(context)) / bandwidth,  S (P + head) / R_int + S A(context) / R_f32)
/// K = sum over layers of kv_token_bytes min(context, window); A = sum of 2 H Dh min(context, window).
double decode_step_seconds(const ModelCost& cost, const MachineLimits& machine, int32_t context, int32_t sequences);

/// The least time the prefill of `tokens` takes, seconds, logits for the last row only:
///   (n P + head) / R_int + A / R_f32,   A = sum over layers of 2 H Dh sum_{i=1..n} min(i, window)
/// Source of both: KERNELS 9 (Williams et al. 2009, "Roofline").
double prefill_seconds(const ModelCost& cost, const MachineLimits& machine, int32_t tokens);

/// What one call of an operator moves and computes, over all threads. Bytes are those that cannot be avoided: every
/// input read once, every output written once, weights as the file stores them.
struct KernelCost {
  int64_t bytes;
  int64_t int_macs;  // products of int8 activations
  int64_t f32_macs;
};

/// The least time a call takes, seconds, and what sets it:
///   max(bytes / bandwidth,  int_macs / R_int + f32_macs / R_f32)
/// `machine.bytes_per_s` is that of the place the operands lie in (DRAM, or a cache).
struct KernelLimit {
  double seconds;
  bool memory_bound;
};
KernelLimit kernel_limit(const KernelCost& cost, const MachineLimits& machine);

/// The least time from a file in the page cache to packed weights, seconds: each file byte read once and each packed
/// byte written once, both at the bandwidth of reads.
///   (file_bytes + packed_bytes) / bandwidth
double load_seconds(int64_t file_bytes, int64_t packed_bytes, const MachineLimits& machine);

}  // namespace pagoda::sizing
