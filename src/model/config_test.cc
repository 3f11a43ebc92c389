#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <random>

#include "core/thread_pool.h"
#include "model/rope.h"
#include "model/weights.h"
#include "weights/gguf_check.h"

namespace pagoda::model {
namespace {

using kernels::TensorType;
using weights::GgufTensor;
using weights::GgufValue;

/// A GGUF file made of values, all tensors F32 zeros.
class FakeFile final : public weights::GgufFile {
 public:
  std::map<std::string, GgufValue, std::less<>> values;
  std::vector<GgufTensor> list;

  void add(const std::string& name, std::vector<int64_t> dims, TensorType type = TensorType::kF32) {
    list.push_back({name, type, std::move(dims), {}});
    zeros_.resize(std::max<size_t>(zeros_.size(), static_cast<size_t>(list.back().elements()) * 4));
    for (GgufTensor& tensor : list) tensor.data = std::span(zeros_).first(static_cast<size_t>(tensor.elements()) * 4);
  }
  GgufTensor& tensor(const std::string& name) { return *std::ranges::find(list, name, &GgufTensor::name); }

  const GgufValue* find(std::string_view key) const override {
    const auto it = values.find(key);
    return it == values.end() ? nullptr : &it->second;
  }
  const GgufTensor* find_tensor(std::string_view name) const override {
    const auto it = std::ranges::find(list, name, &GgufTensor::name);
    return it == list.end() ? nullptr : &*it;
  }
  const std::vector<GgufTensor>& tensors() const override { return list; }
  std::vector<std::string_view> keys() const override { return {}; }
  uint32_t version() const override { return 3; }
  int64_t file_bytes() const override { return 0; }
  std::vector<std::span<const std::byte>> parts() const override { return {}; }
  void release(std::span<const std::byte>) const override {}
  void release_all() const override {}

 private:
  std::vector<std::byte> zeros_;
};

/// Two heads of 16 over one KV head, width 32, FFN 64, 96 tokens.
FakeFile tiny(const std::string& arch, int layers = 2) {
  FakeFile f;
  f.values["general.architecture"] = std::string_view(find_family(arch)->name);
  const auto key = [&](const char* name) { return arch + "." + name; };
  f.values[key("block_count")] = uint32_t(layers);
  f.values[key("context_length")] = uint32_t{128};
  f.values[key("embedding_length")] = uint32_t{32};
  f.values[key("feed_forward_length")] = uint32_t{64};
  f.values[key("attention.head_count")] = uint32_t{2};
  f.values[key("attention.head_count_kv")] = uint32_t{1};
  f.values[key("attention.layer_norm_rms_epsilon")] = 1e-5f;
  f.add("token_embd.weight", {32, 96});
  f.add("output_norm.weight", {32});
  for (int l = 0; l < layers; ++l) {
    const std::string blk = "blk." + std::to_string(l) + ".";
    for (const char* norm : {"attn_norm", "ffn_norm"}) f.add(blk + norm + ".weight", {32});
    if (arch == "phi3") {
      f.add(blk + "attn_qkv.weight", {32, 64});
      f.add(blk + "ffn_up.weight", {32, 128});
    } else {
      f.add(blk + "attn_q.weight", {32, 32});
      f.add(blk + "attn_k.weight", {32, 16});
      f.add(blk + "attn_v.weight", {32, 16});
      f.add(blk + "ffn_gate.weight", {32, 64});
      f.add(blk + "ffn_up.weight", {32, 64});
    }
    f.add(blk + "attn_output.weight", {32, 32});
    f.add(blk + "ffn_down.weight", {64, 32});
    if (arch == "gemma2")
      for (const char* norm : {"post_attention_norm", "post_ffw_norm"}) f.add(blk + norm + ".weight", {32});
  }
  return f;
}

Error config_error(const FakeFile& file) {
  const Result<ModelConfig> config = read_config(file, 0);
  return config.ok() ? Error{Code::kInternal, "no error"} : config.error();
}

Error weights_error(const FakeFile& file) {
  const Result<ModelConfig> config = read_config(file, 0);
  if (!config.ok()) return config.error();
  ThreadPool pool(2);
  const Result<Weights> w = Weights::load(file, config.value(), kernels::make_ops(isa::kLevelPortable), pool, {});
  return w.ok() ? Error{Code::kInternal, "no error"} : w.error();
}

// Goal: keys become the configuration, per layer where they are arrays. Method: a file made of values.
TEST(ModelConfig, ReadsSizesDefaultsAndArrays) {
  FakeFile file = tiny("llama");
  weights::GgufArray kv;
  kv.values = std::vector<int32_t>{1, 2};
  file.values["llama.attention.head_count_kv"] = kv;
  file.values["llama.rope.scaling.factor"] = 4.f;
  const ModelConfig c = read_config(file, 0).take();
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.rope_dims, 16);
  EXPECT_EQ(c.vocab, 96);
  EXPECT_EQ(c.layers[0].kv_heads, 1);
  EXPECT_EQ(c.layers[1].kv_heads, 2);
  EXPECT_EQ(c.family->pairing, kernels::RopePairing::kAdjacent);
  EXPECT_FLOAT_EQ(c.attention_scale, 0.25f);
  EXPECT_DOUBLE_EQ(c.rope[0].frequencies[0], 0.25);
}

// Goal: a context that the model was not made for is refused before anything is packed.
TEST(ModelConfig, RefusesToServeMoreThanTheContext) {
  const FakeFile file = tiny("llama");
  EXPECT_TRUE(read_config(file, 128).ok());
  const Result<ModelConfig> config = read_config(file, 129);
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().code, Code::kInvalidRequest);
  EXPECT_EQ(config.error().message, "max-model-len 129 is over the model's context of 128 tokens");
}

// Goal: gemma3 alternates five windowed layers with one global, each with its own rope. Method: twelve layers.
TEST(ModelConfig, Gemma3SeesEverythingInEachSixthLayer) {
  FakeFile file = tiny("gemma3", 12);
  file.values["gemma3.attention.sliding_window"] = uint32_t{512};
  file.values["gemma3.rope.freq_base"] = 1e6f;
  const ModelConfig c = read_config(file, 0).take();
  for (size_t l = 0; l < 12; ++l) {
    const bool global = l == 5 || l == 11;
    EXPECT_EQ(c.layers[l].window, global ? 0 : 512) << l;
    EXPECT_EQ(c.layers[l].rope, global ? 0 : 1) << l;
  }
  EXPECT_NEAR(c.rope[0].frequencies[1], std::pow(1e6, -2.0 / 16), 1e-12);
  EXPECT_NEAR(c.rope[1].frequencies[1], std::pow(1e4, -2.0 / 16), 1e-12);
  EXPECT_FLOAT_EQ(c.embedding_scale, std::sqrt(32.f));
}

// Goal: what cannot run or contradicts itself is refused with the key, its value and the limit. Method: a table of
// damage.
TEST(ModelConfig, RefusesWithKeyValueAndLimit) {
  struct Row {
    const char* key;
    GgufValue value;
    Code code;
    const char* says;
  };
  const Row rows[] = {
      {"general.architecture", std::string_view("mamba"), Code::kUnsupported,
       "\"mamba\" is not supported; known are gemma, gemma2, gemma3, granite, llama, phi3, qwen2, qwen3"},
      {"llama.block_count", uint32_t{0}, Code::kCorruptFile, "llama.block_count is 0, allowed are 1 to"},
      {"llama.embedding_length", uint64_t{1} << 40, Code::kCorruptFile, "llama.embedding_length is 1099511627776"},
      {"llama.attention.head_count", uint32_t{3}, Code::kCorruptFile, "32 is no multiple of 3 heads"},
      {"llama.attention.head_count_kv", uint32_t{0}, Code::kCorruptFile, "head_count_kv is 0"},
      {"llama.attention.head_count_kv", uint32_t{5}, Code::kCorruptFile,
       "layer 0 has 2 heads, no multiple of its 5 KV heads"},
      {"llama.attention.key_length", uint32_t{24}, Code::kUnsupported, "K heads of 24 and V heads of 16"},
      {"llama.rope.dimension_count", uint32_t{18}, Code::kCorruptFile,
       "rope.dimension_count is 18, allowed are 2 to 16"},
      {"llama.rope.dimension_count", uint32_t{7}, Code::kCorruptFile, "must be even"},
      {"llama.rope.freq_base", -1.f, Code::kCorruptFile, "rope.freq_base is -1"},
      {"llama.rope.scaling.type", std::string_view("dynamic"), Code::kUnsupported,
       "llama.rope.scaling.type \"dynamic\" is not supported; known are none, linear, yarn, longrope"},
      {"llama.rope.scaling.factor", -4.f, Code::kCorruptFile, "llama.rope.scaling.factor is -4"},
      {"llama.rope.scaling.attn_factor", 0.f, Code::kCorruptFile,
       "llama.rope.scaling.attn_factor is 0, it must be a number above zero"},
      {"llama.attention.key_length", uint32_t{1} << 20, Code::kUnsupported, "K heads of 1048576"},
      {"llama.expert_count", uint32_t{8}, Code::kUnsupported, "expert_count is 8"},
      {"llama.context_length", std::string_view("many"), Code::kCorruptFile, "llama.context_length"},
  };
  for (const Row& row : rows) {
    FakeFile file = tiny("llama");
    file.values[row.key] = row.value;
    const Error error = config_error(file);
    EXPECT_EQ(error.code, row.code) << row.key << ": " << error.message;
    EXPECT_THAT(error.message, testing::HasSubstr(row.says));
  }
}

// Goal: gemma2 alternates windowed and global layers, the first windowed, and brings its window and softcaps where the
// file is silent; the 27B model alone scales scores by the width D / H. Method: two files, one of 46 layers.
TEST(ModelConfig, Gemma2AlternatesAndKnowsItsDefaults) {
  const ModelConfig silent = read_config(tiny("gemma2", 4), 0).take();
  for (size_t l = 0; l < 4; ++l) {
    EXPECT_EQ(silent.layers[l].window, l % 2 == 0 ? 4096 : 0) << l;
    EXPECT_EQ(silent.layers[l].rope, 0) << l;
  }
  EXPECT_EQ(silent.rope.size(), 1u);
  EXPECT_EQ(silent.attention_softcap, 50.f);
  EXPECT_EQ(silent.final_softcap, 30.f);
  EXPECT_FLOAT_EQ(silent.embedding_scale, std::sqrt(32.f));
  EXPECT_EQ(silent.family->activation, Activation::kGelu);
  EXPECT_EQ(weights_error(tiny("gemma2")).message, "no error");

  FakeFile file = tiny("gemma2", 46);
  file.values["gemma2.attention.sliding_window"] = uint32_t{512};
  file.values["gemma2.attn_logit_softcapping"] = 2.f;
  file.values["gemma2.final_logit_softcapping"] = 5.f;
  file.values["gemma2.attention.key_length"] = file.values["gemma2.attention.value_length"] = uint32_t{64};
  const ModelConfig c = read_config(file, 0).take();
  EXPECT_EQ(c.layers[0].window, 512);
  EXPECT_EQ(c.attention_softcap, 2.f);
  EXPECT_EQ(c.final_softcap, 5.f);
  EXPECT_EQ(c.attention_scale, 0.25f);  // 1 / sqrt(32 / 2)
  file.values["gemma2.block_count"] = uint32_t{42};
  EXPECT_EQ(read_config(file, 0).take().attention_scale, 0.125f);  // 1 / sqrt(64)
}

// Goal: granite's four multipliers are its keys, logit_scale as a divisor that must be there; other families have none.
TEST(ModelConfig, GraniteReadsItsScales) {
  FakeFile file = tiny("granite");
  EXPECT_THAT(config_error(file).message, testing::HasSubstr("granite.logit_scale is missing"));
  file.values["granite.logit_scale"] = 8.f;
  ModelConfig c = read_config(file, 0).take();
  EXPECT_EQ(c.embedding_scale, 1.f);
  EXPECT_EQ(c.residual_scale, 1.f);
  EXPECT_EQ(c.attention_scale, 0.25f);
  EXPECT_EQ(c.logit_scale, 0.125f);
  file.values["granite.embedding_scale"] = 12.f;
  file.values["granite.residual_scale"] = 0.5f;
  file.values["granite.attention.scale"] = 0.0625f;
  c = read_config(file, 0).take();
  EXPECT_EQ(c.embedding_scale, 12.f);
  EXPECT_EQ(c.residual_scale, 0.5f);
  EXPECT_EQ(c.attention_scale, 0.0625f);
  file.values["granite.logit_scale"] = 0.f;
  EXPECT_THAT(config_error(file).message, testing::HasSubstr("granite.logit_scale is 0, it must be a number above"));
  file.values["granite.rope.scaling.finetuned"] = false;
  EXPECT_THAT(config_error(file).message, testing::HasSubstr("rope.scaling.finetuned is false"));
  FakeFile llama = tiny("llama");
  llama.values["llama.logit_scale"] = 8.f;
  EXPECT_EQ(read_config(llama, 0).take().logit_scale, 1.f);
}

// Goal: the window of a phi3 file counts in every layer.
TEST(ModelConfig, Phi3SeesItsWindowInEveryLayer) {
  FakeFile file = tiny("phi3", 3);
  file.values["phi3.attention.sliding_window"] = uint32_t{2047};
  const ModelConfig c = read_config(file, 0).take();
  for (const LayerConfig& layer : c.layers) EXPECT_EQ(layer.window, 2047);
  EXPECT_EQ(c.family->pairing, kernels::RopePairing::kHalves);
  EXPECT_EQ(read_config(tiny("phi3"), 0).take().layers[0].window, 0);
}

FakeFile with_yarn() {
  FakeFile file = tiny("qwen2");
  file.values["qwen2.rope.scaling.type"] = std::string_view("yarn");
  file.values["qwen2.rope.scaling.factor"] = 4.f;
  file.values["qwen2.rope.scaling.original_context_length"] = uint32_t{64};
  return file;
}

// Goal: yarn keys become frequencies and a magnitude. Method: rope.h's functions, each key changed once.
TEST(ModelConfig, ReadsYarn) {
  const auto expect = [](const FakeFile& file, const Yarn& yarn, float magnitude, const char* what) {
    const ModelConfig c = read_config(file, 0).take();
    std::vector<double> want = rope_frequencies(10000, 16, 1, {});
    blend_yarn(want, 10000, yarn);
    EXPECT_EQ(c.rope[0].frequencies, want) << what;
    EXPECT_FLOAT_EQ(c.rope[0].magnitude, magnitude) << what;
  };
  const Yarn yarn{.factor = 4, .original_tokens = 64};
  expect(with_yarn(), yarn, 1.138629436f, "defaults");
  FakeFile attn = with_yarn();
  attn.values["qwen2.rope.scaling.attn_factor"] = 2.f;
  expect(attn, yarn, 2.277258872f, "attn_factor");
  FakeFile log = with_yarn();
  log.values["qwen2.rope.scaling.yarn_log_multiplier"] = 1.f;
  expect(log, yarn, 1.f, "yarn_log_multiplier");
  FakeFile betas = with_yarn();
  betas.values["qwen2.rope.scaling.yarn_beta_fast"] = 4.f;
  betas.values["qwen2.rope.scaling.yarn_beta_slow"] = 0.5f;
  expect(betas, {.factor = 4, .original_tokens = 64, .beta_fast = 4, .beta_slow = 0.5}, 1.138629436f, "betas");
  FakeFile half = with_yarn();
  half.values["qwen2.rope.scaling.yarn_ext_factor"] = 0.5f;
  expect(half, {.factor = 4, .original_tokens = 64, .extrapolation = 0.5}, 1.138629436f, "yarn_ext_factor");
  FakeFile unset = with_yarn();
  unset.values["qwen2.rope.scaling.yarn_ext_factor"] = -1.f;
  expect(unset, yarn, 1.138629436f, "yarn_ext_factor unset");
  FakeFile none = with_yarn();
  none.values["qwen2.rope.scaling.yarn_ext_factor"] = 0.f;
  expect(none, {.factor = 4, .original_tokens = 64, .extrapolation = 0}, 1.f, "no yarn_ext_factor");
}

// Goal: yarn without what it needs is refused with key, value and limit. Method: a table of damage.
TEST(ModelConfig, RefusesIncompleteYarn) {
  struct Row {
    const char* key;
    std::optional<GgufValue> value;  // nothing: the key is taken away
    const char* says;
  };
  const Row rows[] = {
      {"qwen2.rope.scaling.factor", 0.f, "qwen2.rope.scaling.factor is 0, it must be a number above zero"},
      {"qwen2.rope.scaling.factor", -1.f, "qwen2.rope.scaling.factor is -1, it must be a number above zero"},
      {"qwen2.rope.scaling.factor", std::nullopt, "qwen2.rope.scaling.factor is missing"},
      {"qwen2.rope.scaling.original_context_length", uint32_t{0},
       "qwen2.rope.scaling.original_context_length is 0, allowed are 1 to 268435456"},
      {"qwen2.rope.scaling.original_context_length", std::nullopt,
       "qwen2.rope.scaling.original_context_length is missing"},
      {"qwen2.rope.scaling.yarn_beta_fast", 0.f, "yarn_beta_fast is 0, it must be a number above zero"},
      {"qwen2.rope.scaling.yarn_beta_slow", -2.f, "yarn_beta_slow is -2, it must be a number above zero"},
      {"qwen2.rope.scaling.yarn_ext_factor", 1.5f, "yarn_ext_factor is 1.5, allowed are 0 to 1"},
      {"qwen2.rope.scaling.yarn_log_multiplier", -1.f, "yarn_log_multiplier is -1, it must be a number not below zero"},
      {"qwen2.rope.freq_base", 1.f, "qwen2.rope.freq_base is 1, with yarn it must be above 1"},
  };
  EXPECT_EQ(config_error(with_yarn()).message, "no error");
  for (const Row& row : rows) {
    FakeFile file = with_yarn();
    if (row.value)
      file.values[row.key] = *row.value;
    else
      file.values.erase(row.key);
    const Error error = config_error(file);
    EXPECT_EQ(error.code, Code::kCorruptFile) << row.key << ": " << error.message;
    EXPECT_THAT(error.message, testing::HasSubstr(row.says));
  }
}

/// Long factors 4 and short factors 2 for each of the eight pairs; trained for 64 of 128 tokens.
FakeFile with_long_rope(const std::string& arch) {
  static const std::vector<float> long_factors(8, 4.f), short_factors(8, 2.f);
  FakeFile file = tiny(arch);
  file.values[arch + ".rope.scaling.original_context_length"] = uint32_t{64};
  file.add("rope_factors_long.weight", {8});
  file.add("rope_factors_short.weight", {8});
  file.tensor("rope_factors_long.weight").data = std::as_bytes(std::span(long_factors));
  file.tensor("rope_factors_short.weight").data = std::as_bytes(std::span(short_factors));
  return file;
}

// Goal: which of two sets of factors counts follows from the length that will be served, at load. Method: the first
// frequency, 1 / factor, for served lengths around the original context; 0 means the file's 128 tokens.
TEST(ModelConfig, ServedLengthChoosesLongOrShortFactors) {
  FakeFile file = with_long_rope("phi3");
  file.values["phi3.rope.scaling.attn_factor"] = 1.25f;
  for (const auto& [served, factor] : {std::pair{0, 4.0}, {128, 4.0}, {65, 4.0}, {64, 2.0}, {16, 2.0}}) {
    const ModelConfig c = read_config(file, served).take();
    EXPECT_EQ(c.rope[0].frequencies[0], 1 / factor) << served;
    EXPECT_EQ(c.rope[0].magnitude, 1.25f) << served;
  }
  EXPECT_EQ(weights_error(file).message, "no error");  // the factors have their use
  FakeFile llama = with_long_rope("llama");
  llama.values["llama.rope.scaling.type"] = std::string_view("longrope");
  EXPECT_EQ(read_config(llama, 0).take().rope[0].frequencies[0], 0.25);
}

// Goal: factors that are missing, of the wrong length, type or value are refused, naming tensor or key.
TEST(ModelConfig, RefusesDamagedRopeFactors) {
  FakeFile lengthless = with_long_rope("phi3");
  lengthless.values.erase("phi3.rope.scaling.original_context_length");
  EXPECT_THAT(config_error(lengthless).message,
              testing::HasSubstr("phi3.rope.scaling.original_context_length is missing"));
  FakeFile alone = with_long_rope("phi3");
  std::erase_if(alone.list, [](const GgufTensor& t) { return t.name == "rope_factors_short.weight"; });
  EXPECT_THAT(config_error(alone).message, testing::HasSubstr("tensor rope_factors_short.weight is missing"));
  FakeFile cut = with_long_rope("phi3");
  cut.tensor("rope_factors_long.weight").dims = {6};
  EXPECT_THAT(config_error(cut).message,
              testing::HasSubstr("rope_factors_long.weight has 6 elements of type F32, expected 8 of type F32"));
  FakeFile typed = with_long_rope("phi3");
  typed.tensor("rope_factors_short.weight").type = TensorType::kF16;
  EXPECT_THAT(config_error(typed).message, testing::HasSubstr("rope_factors_short.weight has 8 elements of type F16"));
  FakeFile zeros = with_long_rope("phi3");
  const std::vector<float> nothing(8, 0.f);
  zeros.tensor("rope_factors_short.weight").data = std::as_bytes(std::span(nothing));
  EXPECT_THAT(config_error(zeros).message, testing::HasSubstr("rope_factors_short.weight holds 0"));
  FakeFile both = with_long_rope("phi3");
  both.add("rope_freqs.weight", {8});
  EXPECT_THAT(config_error(both).message,
              testing::HasSubstr("rope_freqs.weight and rope_factors_long.weight are both there"));
  FakeFile none = tiny("llama");
  none.values["llama.rope.scaling.type"] = std::string_view("longrope");
  none.values["llama.rope.scaling.original_context_length"] = uint32_t{64};
  EXPECT_THAT(config_error(none).message, testing::HasSubstr("tensor rope_factors_long.weight is missing"));
}

// Goal: every family a model can be read of is one that `inspect` calls runnable.
TEST(ModelConfig, KnownFamiliesAreRunnable) {
  for (const char* name : {"gemma", "gemma2", "gemma3", "granite", "llama", "phi3", "qwen2", "qwen3"}) {
    ASSERT_NE(find_family(name), nullptr) << name;
    EXPECT_TRUE(weights::known_architecture(name)) << name;
    EXPECT_THAT(known_families(), testing::HasSubstr(name));
  }
  EXPECT_EQ(known_families(), "gemma, gemma2, gemma3, granite, llama, phi3, qwen2, qwen3");
  EXPECT_FALSE(weights::known_architecture("mamba"));
}

// Goal: a fused tensor packs to the same bytes as the matrices it is made of, whatever the row layout of the type.
// Method: a phi3 file and a llama file whose split tensors are parts of its fused ones; memcmp of each packed matrix. A
// fused bias is cut at the same rows.
TEST(ModelWeights, FusedTensorsPackLikeTheirParts) {
  std::mt19937 rng(20261130);
  std::vector<std::byte> bytes(size_t{128} * 32 * 4);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kQ8_0, TensorType::kQ5_0}) {
    FakeFile fused = tiny("phi3"), split = tiny("llama");
    const int64_t row = kernels::row_bytes(type, 32);
    const auto use = [&](FakeFile& file, const std::string& name, int64_t first) {
      for (const char* blk : {"blk.0.", "blk.1."}) {
        GgufTensor& tensor = file.tensor(blk + name);
        tensor.type = type;
        tensor.data =
            std::span(bytes).subspan(static_cast<size_t>(first * row), static_cast<size_t>(row * tensor.rows()));
      }
    };
    use(fused, "attn_qkv.weight", 0);
    use(fused, "ffn_up.weight", 0);
    use(split, "attn_q.weight", 0);
    use(split, "attn_k.weight", 32);
    use(split, "attn_v.weight", 48);
    use(split, "ffn_gate.weight", 0);
    use(split, "ffn_up.weight", 64);
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      const kernels::Ops ops = kernels::make_ops(isa::detected());
      const Weights a = Weights::load(fused, read_config(fused, 0).take(), ops, pool, {}).take();
      const Weights b = Weights::load(split, read_config(split, 0).take(), ops, pool, {}).take();
      for (Linear LayerWeights::*matrix :
           {&LayerWeights::wq, &LayerWeights::wk, &LayerWeights::wv, &LayerWeights::w_gate, &LayerWeights::w_up}) {
        const Linear &got = a.layer(1).*matrix, &want = b.layer(1).*matrix;
        ASSERT_EQ(got.w.rows, want.w.rows);
        const size_t size = static_cast<size_t>(ops.matmul.packed_bytes(type, want.w.rows, want.w.cols));
        EXPECT_EQ(0, std::memcmp(got.w.data, want.w.data, size)) << kernels::type_traits(type)->name << " " << threads;
      }
    }
  }
  static const std::vector<float> biases = [] {
    std::vector<float> b(64);
    std::iota(b.begin(), b.end(), 1.f);
    return b;
  }();
  FakeFile biased = tiny("phi3");
  biased.add("blk.1.attn_qkv.bias", {64});
  biased.tensor("blk.1.attn_qkv.bias").data = std::as_bytes(std::span(biases));
  ThreadPool pool(1);
  const Weights w = Weights::load(biased, read_config(biased, 0).take(), kernels::make_ops(0), pool, {}).take();
  EXPECT_EQ(w.layer(0).wq.bias, nullptr);
  EXPECT_EQ(w.layer(1).wq.bias[0], 1.f);
  EXPECT_EQ(w.layer(1).wk.bias[0], 33.f);
  EXPECT_EQ(w.layer(1).wv.bias[15], 64.f);
  FakeFile split = tiny("llama");
  split.values["general.architecture"] = std::string_view("phi3");
  for (const auto& [key, value] : tiny("phi3").values) split.values[key] = value;
  EXPECT_THAT(weights_error(split).message, testing::HasSubstr("blk.0.attn_qkv.weight is missing"));
  FakeFile narrow = tiny("phi3");
  narrow.tensor("blk.0.ffn_up.weight").dims = {32, 64};
  EXPECT_THAT(weights_error(narrow).message,
              testing::HasSubstr("blk.0.ffn_up.weight has shape [32, 64], expected [32, 128]"));
}

// Goal: every tensor's presence, shape and type is checked, naming it. Method: damage one at a time.
TEST(ModelWeights, RefusesMissingMisshapenAndUnknownTensors) {
  EXPECT_EQ(weights_error(tiny("llama")).message, "no error");
  FakeFile missing = tiny("llama");
  std::erase_if(missing.list, [](const GgufTensor& t) { return t.name == "blk.1.ffn_up.weight"; });
  EXPECT_THAT(weights_error(missing).message, testing::HasSubstr("blk.1.ffn_up.weight is missing"));
  FakeFile misshapen = tiny("llama");
  misshapen.tensor("blk.0.attn_k.weight").dims = {32, 8};
  EXPECT_THAT(weights_error(misshapen).message,
              testing::HasSubstr("blk.0.attn_k.weight has shape [32, 8], expected [32, 16]"));
  FakeFile typed = tiny("llama");
  typed.tensor("blk.0.attn_v.weight").type = TensorType::kI32;
  EXPECT_EQ(weights_error(typed).code, Code::kUnsupported);
  EXPECT_THAT(weights_error(typed).message, testing::HasSubstr("blk.0.attn_v.weight has type I32"));
  FakeFile extra = tiny("llama");
  extra.add("blk.0.attn_sinks.weight", {2});
  EXPECT_THAT(weights_error(extra).message,
              testing::HasSubstr("blk.0.attn_sinks.weight has no use in architecture llama"));
  EXPECT_THAT(weights_error(tiny("qwen2")).message, testing::HasSubstr("blk.0.attn_q.bias is missing"));
  EXPECT_THAT(weights_error(tiny("qwen3")).message, testing::HasSubstr("blk.0.attn_q_norm.weight is missing"));
  EXPECT_THAT(weights_error(tiny("gemma3")).message, testing::HasSubstr("attn_q_norm.weight is missing"));
}

// Goal: pieces of q, k and v cover every row once and cut between heads, wherever they are cut and for odd shapes.
TEST(QkvPart, CoversEveryRowOnceInWholeHeads) {
  for (const int32_t piece : {1, 2, 3, 100}) {
    for (const auto& [heads, kv_heads, head_dim] : {std::tuple{9, 3, 64}, {4, 1, 256}, {5, 5, 80}, {3, 1, 8}}) {
      const LayerConfig layer{heads, kv_heads, 64, 0, 0};
      const int32_t units = qkv_units(layer, head_dim, 32);
      const auto covers = [&](Range QkvPart::*part, int32_t rows) {
        int32_t next = 0;
        for (int32_t begin = 0; begin < units; begin += piece) {
          const Range r = qkv_part({begin, std::min(units, begin + piece)}, layer, head_dim, 32).*part;
          if (r.empty()) continue;
          EXPECT_EQ(r.begin, next);
          EXPECT_EQ(r.begin % head_dim, 0);
          EXPECT_EQ(r.begin % 32, 0);
          next = r.end;
        }
        EXPECT_EQ(next, rows);
      };
      covers(&QkvPart::q, heads * head_dim);
      covers(&QkvPart::k, kv_heads * head_dim);
      covers(&QkvPart::v, kv_heads * head_dim);
    }
  }
}

}  // namespace
}  // namespace pagoda::model
