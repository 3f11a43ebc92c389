#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/formats/dequantize.h"
#include "model/rope.h"

namespace pagoda::model {
namespace {

using kernels::RopePairing;
using weights::GgufFile;
using weights::GgufTensor;

// Facts: the design notes (KERNELS 1.1), from llama.cpp's model loader and conversion script.
constexpr Family kFamilies[] = {
    {.name = "gemma3",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kGelu,
     .needs_qkv_bias = false,
     .qk_norm = true,
     .post_norms = true,
     .scales_embedding = true,
     .window_period = 6,
     .local_rope_base = 10000},
    {.name = "llama",
     .pairing = RopePairing::kAdjacent,
     .activation = Activation::kSilu,
     .needs_qkv_bias = false,
     .qk_norm = false,
     .post_norms = false,
     .scales_embedding = false,
     .window_period = 1,
     .local_rope_base = 0},
    {.name = "qwen2",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kSilu,
     .needs_qkv_bias = true,
     .qk_norm = false,
     .post_norms = false,
     .scales_embedding = false,
     .window_period = 1,
     .local_rope_base = 0},
    {.name = "qwen3",
     .pairing = RopePairing::kHalves,
     .activation = Activation::kSilu,
     .needs_qkv_bias = false,
     .qk_norm = true,
     .post_norms = false,
     .scales_embedding = false,
     .window_period = 1,
     .local_rope_base = 0},
};

// Far above any real model; what a file claims beyond them is damage, and sizes computed from them stay in 63 bits.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxContext = 1 << 28;

/// The `{arch}.*` keys of one file.
class Keys {
 public:
  Keys(const GgufFile& file, const Family& family) : file_(file), prefix_(std::string(family.name) + ".") {}

  std::string key(const char* name) const { return prefix_ + name; }
  bool has(const char* name) const { return file_.find(key(name)) != nullptr; }

  /// An integer in [low, high].
  Result<int32_t> integer(const char* name, int64_t low, int64_t high) const {
    PAGODA_TRY(const int64_t value, file_.get_int(key(name)));
    return in_range(name, value, low, high);
  }
  Result<int32_t> integer_or(const char* name, int64_t fallback, int64_t low, int64_t high) const {
    PAGODA_TRY(const int64_t value, file_.get_int_or(key(name), fallback));
    return in_range(name, value, low, high);
  }
  /// One value for all layers, or one a layer.
  Result<std::vector<int32_t>> per_layer(const char* name, int32_t layers, int64_t high) const {
    PAGODA_TRY(const std::vector<int64_t> values, file_.get_int_list(key(name), layers));
    std::vector<int32_t> out;
    for (const int64_t value : values) {
      PAGODA_TRY(const int32_t v, in_range(name, value, 1, high));
      out.push_back(v);
    }
    return out;
  }
  /// A finite number > 0, or >= 0 if `zero` is fine.
  Result<double> positive_or(const char* name, double fallback, bool zero = false) const {
    PAGODA_TRY(const double value, file_.get_f64_or(key(name), fallback));
    if (!std::isfinite(value) || value < 0 || (value == 0 && !zero))
      return Error{Code::kCorruptFile, fmt::format("{} is {}, it must be a number above zero", key(name), value),
                   key(name)};
    return value;
  }
  Result<std::string_view> string_or(const char* name, std::string_view fallback) const {
    return file_.get_string_or(key(name), fallback);
  }

 private:
  Result<int32_t> in_range(const char* name, int64_t value, int64_t low, int64_t high) const {
    if (value < low || value > high)
      return Error{Code::kCorruptFile, fmt::format("{} is {}, allowed are {} to {}", key(name), value, low, high),
                   key(name)};
    return static_cast<int32_t>(value);
  }
  const GgufFile& file_;
  std::string prefix_;
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

/// 1 / linear scaling factor. Files without a type but with a factor mean linear.
Result<double> read_rope_scale(const Keys& keys) {
  PAGODA_TRY(const std::string_view type, keys.string_or("rope.scaling.type", "linear"));
  if (type == "none") return 1.0;
  if (type != "linear")
    return unsupported(fmt::format("{} \"{}\" is not supported; known are none, linear", keys.key("rope.scaling.type"),
                                   type.substr(0, 64)));
  const char* name = keys.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  PAGODA_TRY(const double factor, keys.positive_or(name, 1.0, /*zero=*/true));
  return factor == 0 ? 1.0 : 1.0 / factor;  // writers use 0 for "not scaled"
}

/// Llama-3's divisors, one a frequency; empty if the file has none.
Result<std::vector<float>> read_rope_factors(const GgufFile& file, int32_t rope_dims) {
  const GgufTensor* tensor = file.find_tensor("rope_freqs.weight");
  if (tensor == nullptr) return std::vector<float>{};
  if (tensor->type != kernels::TensorType::kF32 || tensor->elements() != rope_dims / 2)
    return Error{Code::kCorruptFile, fmt::format("tensor rope_freqs.weight has {} elements, expected {} of type F32",
                                                 tensor->elements(), rope_dims / 2)};
  std::vector<float> factors(static_cast<size_t>(rope_dims / 2));
  kernels::dequantize_row(tensor->type, tensor->data.data(), tensor->elements(), factors.data());
  for (const float f : factors)
    if (!std::isfinite(f) || f <= 0)
      return Error{Code::kCorruptFile, fmt::format("tensor rope_freqs.weight holds {}, it must be above zero", f)};
  return factors;
}

Result<std::vector<RopeConfig>> read_rope(const GgufFile& file, const Keys& keys, const Family& family, int32_t dims) {
  PAGODA_TRY(const double base, keys.positive_or("rope.freq_base", 10000));
  PAGODA_TRY(const double scale, read_rope_scale(keys));
  PAGODA_TRY(const double magnitude, keys.positive_or("rope.scaling.attn_factor", 1));
  PAGODA_TRY(const std::vector<float> factors, read_rope_factors(file, dims));
  std::vector<RopeConfig> rope;
  rope.push_back({rope_frequencies(base, dims, scale, factors), static_cast<float>(magnitude)});
  if (family.local_rope_base > 0) {
    PAGODA_TRY(const double local_base, keys.positive_or("rope.freq_base_swa", family.local_rope_base));
    rope.push_back({rope_frequencies(local_base, dims, 1.0, {}), 1.f});
  }
  return rope;
}

Result<std::vector<LayerConfig>> read_layers(const Keys& keys, const Family& family) {
  PAGODA_TRY(const int32_t count, keys.integer("block_count", 1, kMaxLayers));
  PAGODA_TRY(const std::vector<int32_t> heads, keys.per_layer("attention.head_count", count, kMaxWidth));
  const char* kv_key = keys.has("attention.head_count_kv") ? "attention.head_count_kv" : "attention.head_count";
  PAGODA_TRY(const std::vector<int32_t> kv_heads, keys.per_layer(kv_key, count, kMaxWidth));
  PAGODA_TRY(const std::vector<int32_t> ffn, keys.per_layer("feed_forward_length", count, kMaxWidth));
  PAGODA_TRY(const int32_t window, keys.integer_or("attention.sliding_window", 0, 0, INT32_MAX));
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
Result<int32_t> read_head_dim(const Keys& keys, int32_t width, int32_t heads) {
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
  return key_length;
}

Result<float> read_attention_scale(const Keys& keys, const ModelConfig& config) {
  double scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
  // gemma3's 27B alone divides by the width a head would have without key_length; its files say so only by their depth.
  constexpr size_t kGemma3Layers27B = 62;
  if (config.family->scales_embedding && config.layers.size() == kGemma3Layers27B)
    scale = 1.0 / std::sqrt(static_cast<double>(config.width) / config.layers[0].heads);
  PAGODA_TRY(scale, keys.positive_or("attention.scale", scale));
  return static_cast<float>(scale);
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

Result<ModelConfig> read_config(const GgufFile& file) {
  PAGODA_TRY(const Family* family, read_family(file));
  const Keys keys(file, *family);
  PAGODA_TRY_STATUS(refuse_unknown_shapes(keys));
  ModelConfig c{};
  c.family = family;
  PAGODA_TRY(const std::string_view name, file.get_string_or("general.name", ""));
  c.name = name;
  PAGODA_TRY(c.width, keys.integer("embedding_length", 1, kMaxWidth));
  PAGODA_TRY(c.context_length, keys.integer("context_length", 1, kMaxContext));
  PAGODA_TRY(c.layers, read_layers(keys, *family));
  PAGODA_TRY(c.head_dim, read_head_dim(keys, c.width, c.layers[0].heads));
  PAGODA_TRY(c.rope_dims, keys.integer_or("rope.dimension_count", c.head_dim, 2, c.head_dim));
  if (c.rope_dims % 2 != 0)
    return Error{Code::kCorruptFile,
                 fmt::format("{} is {}, it must be even", keys.key("rope.dimension_count"), c.rope_dims)};
  PAGODA_TRY(c.rope, read_rope(file, keys, *family, c.rope_dims));
  PAGODA_TRY(const double eps, file.get_f64(keys.key("attention.layer_norm_rms_epsilon")));
  if (!(eps >= 0 && eps < 1))
    return Error{Code::kCorruptFile,
                 fmt::format("{} is {}, allowed are 0 to 1", keys.key("attention.layer_norm_rms_epsilon"), eps)};
  PAGODA_TRY(c.attention_scale, read_attention_scale(keys, c));
  PAGODA_TRY(const double attention_softcap, keys.positive_or("attn_logit_softcapping", 0, /*zero=*/true));
  PAGODA_TRY(const double final_softcap, keys.positive_or("final_logit_softcapping", 0, /*zero=*/true));
  c.norm_eps = static_cast<float>(eps);
  c.attention_softcap = static_cast<float>(attention_softcap);
  c.final_softcap = static_cast<float>(final_softcap);
  c.embedding_scale = family->scales_embedding ? static_cast<float>(std::sqrt(static_cast<double>(c.width))) : 1.f;
  const GgufTensor* embed = file.find_tensor("token_embd.weight");
  if (embed == nullptr) return Error{Code::kCorruptFile, "tensor token_embd.weight is missing"};
  c.vocab = embed->rows();
  return c;
}

}  // namespace pagoda::model
