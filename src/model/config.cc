#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/keys.h"
#include "model/rope_keys.h"

namespace pagoda::model {
namespace {

using kernels::RopePairing;
using weights::GgufFile;
using weights::GgufTensor;

// Facts: the design notes (KERNELS 1.1), from llama.cpp's model loader and conversion script. gemma2: its
// models/gemma2.cpp and arXiv:2408.00118; phi3: models/phi3.cpp and arXiv:2404.14219 (the window is the model's own;
// llama.cpp ignores it); granite: models/granite.cpp.
constexpr Family kFamilies[] = {
    {.name = "gemma", .activation = Activation::kGelu, .scales_embedding = true},
    {.name = "gemma2",
     .activation = Activation::kGelu,
     .post_norms = true,
     .scales_embedding = true,
     .window_period = 2,
     .scale_by_width_depth = 46,  // 27B
     .window = 4096,
     .attention_softcap = 50,
     .final_softcap = 30},
    {.name = "gemma3",
     .activation = Activation::kGelu,
     .qk_norm = true,
     .post_norms = true,
     .scales_embedding = true,
     .window_period = 6,
     .local_rope_base = 10000,
     .scale_by_width_depth = 62},  // 27B
    {.name = "granite", .pairing = RopePairing::kAdjacent, .given_scales = true},
    {.name = "llama", .pairing = RopePairing::kAdjacent},
    {.name = "phi3", .fused = true},
    {.name = "qwen2", .needs_qkv_bias = true},
    {.name = "qwen3", .qk_norm = true},
};

Error unsupported(std::string message) { return Error{Code::kUnsupported, std::move(message)}; }

Result<const Family*> read_family(const GgufFile& file) {
  PAGODA_TRY(const std::string_view architecture, file.get_string("general.architecture"));
  const Family* family = find_family(architecture);
  if (family == nullptr)
    return unsupported(fmt::format("architecture \"{}\" is not supported; known are {}", architecture.substr(0, 64),
                                   known_families()));
  return family;
}

Result<std::vector<LayerConfig>> read_layers(const Keys& keys, const Family& family) {
  PAGODA_TRY(const int32_t count, keys.integer("block_count", 1, kMaxLayers));
  PAGODA_TRY(const std::vector<int32_t> heads, keys.per_layer("attention.head_count", count, kMaxWidth));
  const char* kv_key = keys.has("attention.head_count_kv") ? "attention.head_count_kv" : "attention.head_count";
  PAGODA_TRY(const std::vector<int32_t> kv_heads, keys.per_layer(kv_key, count, kMaxWidth));
  PAGODA_TRY(const std::vector<int32_t> ffn, keys.per_layer("feed_forward_length", count, kMaxWidth));
  PAGODA_TRY(const int32_t window, keys.integer_or("attention.sliding_window", family.window, 0, INT32_MAX));
  PAGODA_TRY(const int32_t period,
             keys.integer_or("attention.sliding_window_pattern", family.window_period, 0, kMaxLayers));
  std::vector<LayerConfig> layers;
  for (int32_t i = 0; i < count; ++i) {
    const size_t l = static_cast<size_t>(i);
    if (heads[l] % kv_heads[l] != 0)
      return Error{Code::kCorruptFile,
                   fmt::format("layer {} has {} heads, no multiple of its {} KV heads", i, heads[l], kv_heads[l])};
    const bool local = window > 0 && period > 0 && (period == 1 || i % period < period - 1);
    layers.push_back({heads[l], kv_heads[l], ffn[l], local ? window : 0, local && family.local_rope_base > 0 ? 1 : 0});
  }
  return layers;
}

/// Dh: given, or D / H.
Result<int32_t> read_head_dim(const Keys& keys, int32_t width, int32_t heads, int32_t heads_max) {
  if (!keys.has("attention.key_length") && width % heads != 0)
    return Error{Code::kCorruptFile,
                 fmt::format("{} {} is no multiple of {} heads", keys.key("embedding_length"), width, heads)};
  const int32_t derived = std::max(1, width / heads);
  PAGODA_TRY(const int32_t key_length, keys.integer_or("attention.key_length", derived, 1, kMaxWidth));
  PAGODA_TRY(const int32_t value_length, keys.integer_or("attention.value_length", derived, 1, kMaxWidth));
  if (key_length != value_length)
    return unsupported(fmt::format("K heads of {} and V heads of {} values are not supported; they must be equal",
                                   key_length, value_length));
  if (key_length % 8 != 0)
    return unsupported(
        fmt::format("heads of {} values are not supported; the width must be a multiple of 8", key_length));
  if (int64_t{heads_max} * key_length > kMaxWidth)
    return Error{Code::kCorruptFile,
                 fmt::format("{} heads of {} values are more than {}", heads_max, key_length, kMaxWidth)};
  return key_length;
}

Result<float> read_attention_scale(const Keys& keys, const ModelConfig& config) {
  double scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  // gemma's 27B models alone divide by the width a head would have without key_length; files say so only by their
  // depth.
  if (config.layers.size() == static_cast<size_t>(config.family->scale_by_width_depth))
    scale = 1.0 / std::sqrt(static_cast<double>(config.width) / config.layers[0].heads);
  PAGODA_TRY(scale, keys.positive_or("attention.scale", scale));
  return static_cast<float>(scale);
}

/// Scales of the embedding, of what layers add, and of the logits (granite's files hold the divisor of the last).
Status read_scales(const Keys& keys, ModelConfig& c) {
  c.embedding_scale = c.family->scales_embedding ? static_cast<float>(std::sqrt(static_cast<double>(c.width))) : 1.f;
  c.residual_scale = c.logit_scale = 1.f;
  if (!c.family->given_scales) return ok_status();
  PAGODA_TRY(const bool rotates, keys.flag_or("rope.scaling.finetuned", true));  // granite's switch for rope
  if (!rotates)
    return unsupported(
        fmt::format("{} is false; models without rope are not supported", keys.key("rope.scaling.finetuned")));
  PAGODA_TRY(const double embedding, keys.positive_or("embedding_scale", 1));
  PAGODA_TRY(const double residual, keys.positive_or("residual_scale", 1));
  PAGODA_TRY(const double logit_divisor, keys.positive("logit_scale"));
  c.embedding_scale = static_cast<float>(embedding);
  c.residual_scale = static_cast<float>(residual);
  c.logit_scale = static_cast<float>(1 / logit_divisor);
  return ok_status();
}

Status refuse_unknown_shapes(const Keys& keys) {
  PAGODA_TRY(const int32_t experts, keys.integer_or("expert_count", 0, 0, INT32_MAX));
  if (experts > 0)
    return unsupported(
        fmt::format("{} is {}; mixtures of experts are not supported", keys.key("expert_count"), experts));
  return ok_status();
}

}  // namespace

const Family* find_family(std::string_view architecture) {
  for (const Family& family : kFamilies)
    if (architecture == family.name) return &family;
  return nullptr;
}

std::string known_families() {
  std::string names;
  for (const Family& family : kFamilies) names += (names.empty() ? "" : ", ") + std::string(family.name);
  return names;
}

int32_t ModelConfig::max_heads() const { return std::ranges::max(layers, {}, &LayerConfig::heads).heads; }
int32_t ModelConfig::max_kv_heads() const { return std::ranges::max(layers, {}, &LayerConfig::kv_heads).kv_heads; }
int32_t ModelConfig::max_ffn() const { return std::ranges::max(layers, {}, &LayerConfig::ffn).ffn; }

Result<ModelConfig> read_config(const GgufFile& file, int32_t served_tokens) {
  PAGODA_TRY(const Family* family, read_family(file));
  const Keys keys(file, family->name);
  PAGODA_TRY_STATUS(refuse_unknown_shapes(keys));
  ModelConfig c{};
  c.family = family;
  PAGODA_TRY(const std::string_view name, file.get_string_or("general.name", ""));
  c.name = name;
  PAGODA_TRY(c.width, keys.integer("embedding_length", 1, kMaxWidth));
  PAGODA_TRY(c.context_length, keys.integer("context_length", 1, kMaxContext));
  if (served_tokens > c.context_length)
    return Error{Code::kInvalidRequest, fmt::format("max-model-len {} is over the model's context of {} tokens",
                                                    served_tokens, c.context_length)};
  PAGODA_TRY(c.layers, read_layers(keys, *family));
  PAGODA_TRY(c.head_dim, read_head_dim(keys, c.width, c.layers[0].heads, c.max_heads()));
  PAGODA_TRY(c.rope_dims, keys.integer_or("rope.dimension_count", c.head_dim, 2, c.head_dim));
  if (c.rope_dims % 2 != 0)
    return Error{Code::kCorruptFile,
                 fmt::format("{} is {}, it must be even", keys.key("rope.dimension_count"), c.rope_dims)};
  PAGODA_TRY(c.rope, read_rope(file, keys, *family, c.rope_dims, served_tokens > 0 ? served_tokens : c.context_length));
  PAGODA_TRY(const double eps, file.get_f64(keys.key("attention.layer_norm_rms_epsilon")));
  if (!(eps >= 0 && eps < 1))
    return Error{Code::kCorruptFile,
                 fmt::format("{} is {}, allowed are 0 to 1", keys.key("attention.layer_norm_rms_epsilon"), eps)};
  PAGODA_TRY(c.attention_scale, read_attention_scale(keys, c));
  PAGODA_TRY(const double attention_softcap, keys.zero_or_more("attn_logit_softcapping", family->attention_softcap));
  PAGODA_TRY(const double final_softcap, keys.zero_or_more("final_logit_softcapping", family->final_softcap));
  c.norm_eps = static_cast<float>(eps);
  c.attention_softcap = static_cast<float>(attention_softcap);
  c.final_softcap = static_cast<float>(final_softcap);
  PAGODA_TRY_STATUS(read_scales(keys, c));
  const GgufTensor* embed = file.find_tensor("token_embd.weight");
  if (embed == nullptr) return Error{Code::kCorruptFile, "tensor token_embd.weight is missing"};
  c.vocab = embed->rows();
  return c;
}

}  // namespace pagoda::model
