#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/thread_pool.h"
#include "model/weights.h"

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
  void release(const GgufTensor&) const override {}

 private:
  std::vector<std::byte> zeros_;
};

/// Two heads of 16 over one KV head, width 32, FFN 64, 96 tokens.
FakeFile tiny(const std::string& arch, int layers = 2) {
  FakeFile f;
  f.values["general.architecture"] = std::string_view(arch == "llama"   ? "llama"
                                                      : arch == "qwen2" ? "qwen2"
                                                      : arch == "qwen3" ? "qwen3"
                                                                        : "gemma3");
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
    f.add(blk + "attn_q.weight", {32, 32});
    f.add(blk + "attn_k.weight", {32, 16});
    f.add(blk + "attn_v.weight", {32, 16});
    f.add(blk + "attn_output.weight", {32, 32});
    f.add(blk + "ffn_gate.weight", {32, 64});
    f.add(blk + "ffn_up.weight", {32, 64});
    f.add(blk + "ffn_down.weight", {64, 32});
  }
  return f;
}

Error config_error(const FakeFile& file) {
  const Result<ModelConfig> config = read_config(file);
  return config.ok() ? Error{Code::kInternal, "no error"} : config.error();
}

Error weights_error(const FakeFile& file) {
  const Result<ModelConfig> config = read_config(file);
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
  const ModelConfig c = read_config(file).take();
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.rope_dims, 16);
  EXPECT_EQ(c.vocab, 96);
  EXPECT_EQ(c.layers[0].kv_heads, 1);
  EXPECT_EQ(c.layers[1].kv_heads, 2);
  EXPECT_EQ(c.family->pairing, kernels::RopePairing::kAdjacent);
  EXPECT_FLOAT_EQ(c.attention_scale, 0.25f);
  EXPECT_DOUBLE_EQ(c.rope[0].frequencies[0], 0.25);
}

// Goal: gemma3 alternates five windowed layers with one global, each with its own rope. Method: twelve layers.
TEST(ModelConfig, Gemma3SeesEverythingInEachSixthLayer) {
  FakeFile file = tiny("gemma3", 12);
  file.values["gemma3.attention.sliding_window"] = uint32_t{512};
  file.values["gemma3.rope.freq_base"] = 1e6f;
  const ModelConfig c = read_config(file).take();
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
       "\"mamba\" is not supported; known are gemma3, llama, qwen2, qwen3"},
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
      {"llama.rope.scaling.type", std::string_view("yarn"), Code::kUnsupported, "\"yarn\" is not supported"},
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

// Goal: the threads' shares of q, k and v cover every row once and cut between heads, for any thread count and odd
// shapes.
TEST(QkvShare, CoversEveryRowOnceInWholeHeads) {
  for (const int32_t threads : {1, 2, 3, 7}) {
    for (const auto& [heads, kv_heads, head_dim] : {std::tuple{9, 3, 64}, {4, 1, 256}, {5, 5, 80}, {3, 1, 8}}) {
      const LayerConfig layer{heads, kv_heads, 64, 0, 0};
      std::vector<QkvShare> shares(static_cast<size_t>(threads));
      ThreadPool pool(threads);
      pool.run([&](Worker& worker) {
        shares[static_cast<size_t>(worker.index())] = qkv_share(worker, layer, head_dim, 32);
      });
      const auto covers = [&](Range QkvShare::* part, int32_t rows) {
        int32_t next = 0;
        for (const QkvShare& share : shares) {
          const Range r = share.*part;
          if (r.empty()) continue;
          EXPECT_EQ(r.begin, next);
          EXPECT_EQ(r.begin % head_dim, 0);
          EXPECT_EQ(r.begin % 32, 0);
          next = r.end;
        }
        EXPECT_EQ(next, rows);
      };
      covers(&QkvShare::q, heads * head_dim);
      covers(&QkvShare::k, kv_heads * head_dim);
      covers(&QkvShare::v, kv_heads * head_dim);
    }
  }
}

}  // namespace
}  // namespace pagoda::model
