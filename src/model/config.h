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
  const char* name;                                              // general.architecture
  kernels::RopePairing pairing = kernels::RopePairing::kHalves;  // llama files have Q and K permuted for adjacent pairs
  Activation activation = Activation::kSilu;
  bool needs_qkv_bias = false;       // others may have biases; these must
  bool fused = false;                // attn_qkv holds q, k, v and ffn_up holds gate, up, one below the other
  bool qk_norm = false;              // RMS norm of each head of q and k before rope
  bool post_norms = false;           // RMS norm of what attention and FFN add to the residual
  bool scales_embedding = false;     // by sqrt(D)
  bool given_scales = false;         // embedding_scale, residual_scale and logit_scale are keys of the file
  int32_t window_period = 1;         // with a sliding window: every so-many-th layer sees everything; 1 = none does
  double local_rope_base = 0;        // of windowed layers, unscaled; 0 = as the others
  int32_t scale_by_width_depth = 0;  // a model of so many layers scales scores by 1/sqrt(D/H), others by 1/sqrt(Dh)
  // Where the file is silent:
  int32_t window = 0;            // tokens, 0 = none
  double attention_softcap = 0;  // 0 = none
  double final_softcap = 0;      // 0 = none
};

/// Null when unknown.
const Family* find_family(std::string_view architecture);
/// "gemma, gemma2, gemma3, granite, llama, phi3, qwen2, qwen3"
std::string known_families();

struct LayerConfig {
  int32_t heads;     // H
  int32_t kv_heads;  // Hkv, divides H
  int32_t ffn;       // F
  int32_t window;    // position p sees (p - window, p]; 0 = all
  int32_t rope;      // index into ModelConfig::rope
};

/// Angles are position x frequency; fixed at load, never by the current length. A file with factors for long and for
/// short contexts (LongRoPE, arXiv:2402.13753) is read for the longest sequence that will be served: long ones when
/// that is above rope.scaling.original_context_length. So the bytes of an answer depend on max_model_len there, once,
/// and not on how long a conversation has grown.
struct RopeConfig {
  std::vector<double> frequencies;  // [rope_dims / 2], radians a token
  float magnitude = 1.f;            // of cos and sin (rope.scaling.attn_factor, and YaRN's)
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
  float residual_scale;             // of what attention and FFN add to the residual; 1 = none
  float logit_scale;                // logits are multiplied by it; 1 = none
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
///
///   served_tokens  longest sequence that will be served (max_model_len); 0 = the file's context_length
///
/// Errors: kUnsupported (architecture, listing the known ones; rope scaling; unequal K and V widths; experts),
/// kCorruptFile naming the key, its value and the limit; kInvalidRequest for served_tokens above context_length.
Result<ModelConfig> read_config(const weights::GgufFile& file, int32_t served_tokens);

}  // namespace pagoda::model
