#include "model/rope_keys.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "kernels/formats/dequantize.h"
#include "model/rope.h"

namespace pagoda::model {
namespace {

using weights::GgufFile;
using weights::GgufTensor;

constexpr const char* kFreqs = "rope_freqs.weight";
constexpr const char* kLong = "rope_factors_long.weight";
constexpr const char* kShort = "rope_factors_short.weight";
constexpr const char* kOriginal = "rope.scaling.original_context_length";

enum class Scaling { kNone, kLinear, kYarn, kLongRope };

/// Files without a type but with a factor mean linear.
Result<Scaling> read_scaling(const Keys& keys) {
  PAGODA_TRY(const std::string_view type, keys.string_or("rope.scaling.type", "linear"));
  if (type == "none") return Scaling::kNone;
  if (type == "linear") return Scaling::kLinear;
  if (type == "yarn") return Scaling::kYarn;
  if (type == "longrope") return Scaling::kLongRope;
  return Error{Code::kUnsupported,
               fmt::format("{} \"{}\" is not supported; known are none, linear, yarn, longrope",
                           keys.key("rope.scaling.type"), type.substr(0, 64)),
               keys.key("rope.scaling.type")};
}

/// 1 / linear scaling factor; writers use 0 for "not scaled".
Result<double> read_linear_scale(const Keys& keys) {
  const char* name = keys.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  PAGODA_TRY(const double factor, keys.zero_or_more(name, 1.0));
  return factor == 0 ? 1.0 : 1.0 / factor;
}

Result<Yarn> read_yarn(const Keys& keys) {
  Yarn yarn{};
  PAGODA_TRY(yarn.factor, keys.positive("rope.scaling.factor"));
  PAGODA_TRY(yarn.original_tokens, keys.integer(kOriginal, 1, kMaxContext));
  PAGODA_TRY(yarn.beta_fast, keys.positive_or("rope.scaling.yarn_beta_fast", yarn.beta_fast));
  PAGODA_TRY(yarn.beta_slow, keys.positive_or("rope.scaling.yarn_beta_slow", yarn.beta_slow));
  PAGODA_TRY(yarn.extrapolation, keys.number_or("rope.scaling.yarn_ext_factor", yarn.extrapolation));
  if (yarn.extrapolation < 0) yarn.extrapolation = Yarn{}.extrapolation;  // writers use -1 for "not set"
  if (yarn.extrapolation > 1)
    return Error{
        Code::kCorruptFile,
        fmt::format("{} is {}, allowed are 0 to 1", keys.key("rope.scaling.yarn_ext_factor"), yarn.extrapolation),
        keys.key("rope.scaling.yarn_ext_factor")};
  return yarn;
}

Result<std::vector<float>> read_factors(const GgufFile& file, const char* name, int32_t dims) {
  const GgufTensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) return Error{Code::kCorruptFile, fmt::format("tensor {} is missing", name)};
  if (tensor->type != kernels::TensorType::kF32 || tensor->elements() != dims / 2)
    return Error{Code::kCorruptFile,
                 fmt::format("tensor {} has {} elements of type {}, expected {} of type F32", name, tensor->elements(),
                             kernels::type_traits(tensor->type)->name, dims / 2)};
  std::vector<float> factors(static_cast<size_t>(dims / 2));
  kernels::dequantize_row(tensor->type, tensor->data.data(), tensor->elements(), factors.data());
  for (const float f : factors)
    if (!std::isfinite(f) || f <= 0)
      return Error{Code::kCorruptFile, fmt::format("tensor {} holds {}, it must be above zero", name, f)};
  return factors;
}

/// One divisor a frequency; empty if the file has none. Of long and short ones those that the served length asks for:
/// chosen here once, for a choice by the current length would change the bytes of tokens already computed.
Result<std::vector<float>> choose_factors(const GgufFile& file, const Keys& keys, Scaling scaling, int32_t dims,
                                          int32_t served_tokens) {
  const bool freqs = file.find_tensor(kFreqs) != nullptr;
  const bool pair = file.find_tensor(kLong) != nullptr || file.find_tensor(kShort) != nullptr;
  if (freqs && pair)
    return Error{Code::kCorruptFile, fmt::format("tensors {} and {} are both there, one may be", kFreqs,
                                                 file.find_tensor(kLong) != nullptr ? kLong : kShort)};
  if (freqs) return read_factors(file, kFreqs, dims);
  if (!pair && scaling != Scaling::kLongRope) return std::vector<float>{};
  PAGODA_TRY(const int32_t original, keys.integer(kOriginal, 1, kMaxContext));
  PAGODA_TRY(std::vector<float> for_long, read_factors(file, kLong, dims));
  PAGODA_TRY(std::vector<float> for_short, read_factors(file, kShort, dims));
  return served_tokens > original ? for_long : for_short;
}

Result<RopeConfig> read_global(const GgufFile& file, const Keys& keys, int32_t dims, int32_t served_tokens) {
  PAGODA_TRY(const double base, keys.positive_or("rope.freq_base", 10000));
  PAGODA_TRY(const Scaling scaling, read_scaling(keys));
  PAGODA_TRY(double magnitude, keys.positive_or("rope.scaling.attn_factor", 1));
  PAGODA_TRY(const std::vector<float> factors, choose_factors(file, keys, scaling, dims, served_tokens));
  double scale = 1;
  if (scaling == Scaling::kLinear) {
    PAGODA_TRY(scale, read_linear_scale(keys));
  }
  std::vector<double> frequencies = rope_frequencies(base, dims, scale, factors);
  if (scaling == Scaling::kYarn) {
    PAGODA_TRY(const Yarn yarn, read_yarn(keys));
    if (base <= 1)
      return Error{Code::kCorruptFile,
                   fmt::format("{} is {}, with yarn it must be above 1", keys.key("rope.freq_base"), base)};
    blend_yarn(frequencies, base, yarn);
    PAGODA_TRY(const double log_multiplier, keys.zero_or_more("rope.scaling.yarn_log_multiplier", 0));
    if (yarn.extrapolation > 0) magnitude *= yarn_magnitude(yarn.factor, log_multiplier);
  }
  return RopeConfig{std::move(frequencies), static_cast<float>(magnitude)};
}

}  // namespace

Result<std::vector<RopeConfig>> read_rope(const GgufFile& file, const Keys& keys, const Family& family, int32_t dims,
                                          int32_t served_tokens) {
  std::vector<RopeConfig> rope(1);
  PAGODA_TRY(rope[0], read_global(file, keys, dims, served_tokens));
  if (family.local_rope_base > 0) {
    PAGODA_TRY(const double local_base, keys.positive_or("rope.freq_base_swa", family.local_rope_base));
    rope.push_back({rope_frequencies(local_base, dims, 1.0, {}), 1.f});
  }
  return rope;
}

}  // namespace pagoda::model
