#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/result.h"
#include "kernels/ops.h"
#include "weights/gguf.h"

namespace pagoda::model {

enum class Activation : uint8_t { kSilu, kGelu };

/// What tells one family from another: facts about its files, not code. A decoder layer reads these; nobody reads the
/// name.
struct Family {
  const char* name;              // general.architecture
  kernels::RopePairing pairing;  // llama files have their Q and K rows permuted for adjacent pairs
  Activation activation;
  bool needs_qkv_bias;     // others may have biases; these must
  bool qk_norm;            // RMS norm of each head of q and k before rope
  bool post_norms;         // RMS norm of what attention and FFN add to the residual
  bool scales_embedding;   // by sqrt(D)
  int32_t window_period;   // with a sliding window: every so-many-th layer sees everything; 1 = none does
  double local_rope_base;  // of windowed layers, unscaled; 0 = as the others
};

/// Null when unknown.
const Family* find_family(std::string_view architecture);
/// "gemma3, llama, qwen2, qwen3"
std::string known_families();

struct LayerConfig {
  int32_t heads;     // H
  int32_t kv_heads;  // Hkv, divides H
  int32_t ffn;       // F
  int32_t window;    // position p sees (p - window, p]; 0 = all
  int32_t rope;      // index into ModelConfig::rope
};

/// Angles are position x frequency; fixed at load, never by the current length.
struct RopeConfig {
  std::vector<double> frequencies;  // [rope_dims / 2], radians a token
  float magnitude = 1.f;            // of cos and sin (rope.scaling.attn_factor)
};

/// Everything about a model that is not a weight. Sizes are positive and consistent.
struct ModelConfig {
  const Family* family;
  std::string name;        // general.name, "" if absent
  int32_t width;           // D
  int32_t head_dim;        // Dh, of K and V alike; a multiple of 8
  int32_t vocab;           // V
  int32_t context_length;  // tokens
  int32_t rope_dims;       // leading values of a head that rotate; even, <= Dh
  float norm_eps;
  float embedding_scale;            // 1 = none
  float attention_scale;            // scores are q.k * scale
  float attention_softcap;          // 0 = none
  float final_softcap;              // 0 = none
  std::vector<RopeConfig> rope;     // global, then (if a family has one) local
  std::vector<LayerConfig> layers;  // [L]

  int32_t max_heads() const;
  int32_t max_kv_heads() const;
  int32_t max_ffn() const;
};

/// Reads `{arch}.*` and the shapes that only tensors tell (V, rope factors).
/// Errors: kUnsupported (architecture, listing the known ones; rope scaling; unequal K and V widths; experts),
/// kCorruptFile naming the key, its value and the limit.
Result<ModelConfig> read_config(const weights::GgufFile& file);

}  // namespace pagoda::model
