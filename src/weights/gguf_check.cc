#include "weights/gguf_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "weights/gguf_parse.h"
#include "weights/gguf_vocab.h"

namespace pagoda::weights {
namespace {

enum class Kind { kCount, kCountOrList, kPositive, kString };

// What stands behind "{architecture}." in a file. Bounds are far above any real model and far below what could
// overflow.
struct KnownKey {
  std::string_view name;
  Kind kind;
  int64_t max = 0;  // of a count
};
constexpr int64_t kWidthMax = int64_t{1} << 20;
constexpr int64_t kTokensMax = int64_t{1} << 31;
constexpr std::array<KnownKey, 28> kKnownKeys = {{
    {"block_count", Kind::kCount, 4096},
    {"context_length", Kind::kCount, kTokensMax},
    {"embedding_length", Kind::kCount, kWidthMax},
    {"feed_forward_length", Kind::kCountOrList, kWidthMax},
    {"vocab_size", Kind::kCount, kTokensMax},
    {"expert_count", Kind::kCount, 65536},
    {"expert_used_count", Kind::kCount, 65536},
    {"attention.head_count", Kind::kCountOrList, 65536},
    {"attention.head_count_kv", Kind::kCountOrList, 65536},
    {"attention.key_length", Kind::kCount, 65536},
    {"attention.value_length", Kind::kCount, 65536},
    {"attention.sliding_window", Kind::kCount, kTokensMax},
    {"attention.layer_norm_rms_epsilon", Kind::kPositive},
    {"attention.layer_norm_epsilon", Kind::kPositive},
    {"attention.scale", Kind::kPositive},
    {"attn_logit_softcapping", Kind::kPositive},
    {"final_logit_softcapping", Kind::kPositive},
    {"rope.dimension_count", Kind::kCount, 65536},
    {"rope.freq_base", Kind::kPositive},
    {"rope.freq_base_swa", Kind::kPositive},
    {"rope.scale_linear", Kind::kPositive},
    {"rope.scaling.type", Kind::kString},
    {"rope.scaling.factor", Kind::kPositive},
    {"rope.scaling.attn_factor", Kind::kPositive},
    {"rope.scaling.original_context_length", Kind::kCount, kTokensMax},
    {"rope.scaling.yarn_beta_fast", Kind::kPositive},
    {"rope.scaling.yarn_beta_slow", Kind::kPositive},
    {"rope.scaling.yarn_log_multiplier", Kind::kPositive},
}};

constexpr std::array<std::string_view, 6> kGeneralStrings = {"general.name",    "general.basename",
                                                             "general.type",    "general.size_label",
                                                             "general.license", "tokenizer.chat_template"};

Error bad(const std::string& key, std::string message) {
  return Error{Code::kCorruptFile, fmt::format("key {} {}", printable(key), message), key};
}

Status check_count(const std::string& key, int64_t value, int64_t max) {
  if (value >= 0 && value <= max) return ok_status();
  return bad(key, fmt::format("is {}, must be in [0, {}]", value, max));
}

Status check_count_or_list(const GgufFile& file, const std::string& key, int64_t max) {
  const auto* array = std::get_if<GgufArray>(file.find(key));
  if (!array) {
    PAGODA_TRY(const int64_t value, file.get_int(key));
    return check_count(key, value, max);
  }
  const auto length = std::visit([](const auto& values) { return static_cast<int64_t>(values.size()); }, array->values);
  PAGODA_TRY(const std::vector<int64_t> values, file.get_int_list(key, length));
  for (const int64_t value : values) PAGODA_TRY_STATUS(check_count(key, value, max));
  return ok_status();
}

Status check_key(const GgufFile& file, const std::string& key, const KnownKey& known) {
  switch (known.kind) {
    case Kind::kCount: {
      PAGODA_TRY(const int64_t value, file.get_int(key));
      return check_count(key, value, known.max);
    }
    case Kind::kCountOrList:
      return check_count_or_list(file, key, known.max);
    case Kind::kPositive: {
      PAGODA_TRY(const double value, file.get_f64(key));
      if (std::isfinite(value) && value >= 0) return ok_status();
      return bad(key, fmt::format("is {}, must be finite and not negative", value));
    }
    case Kind::kString: {
      PAGODA_TRY([[maybe_unused]] const std::string_view text, file.get_string(key));
      return ok_status();
    }
  }
  return ok_status();
}

// Zero is a valid count in recurrent families; here it would divide.
Status check_known_architecture(const GgufFile& file, const std::string& prefix) {
  for (const char* name : {"block_count", "context_length", "embedding_length", "attention.head_count",
                           "attention.key_length", "attention.value_length"}) {
    const std::string key = prefix + name;
    if (!file.find(key)) continue;
    PAGODA_TRY(const int64_t value, file.get_int(key));
    if (value == 0) return bad(key, "is 0, must be at least 1");
  }
  const std::string heads_key = prefix + "attention.head_count", kv_key = prefix + "attention.head_count_kv";
  PAGODA_TRY(const int64_t heads, file.get_int_or(heads_key, 1));
  if (file.find(kv_key) && !std::holds_alternative<GgufArray>(*file.find(kv_key))) {
    PAGODA_TRY(const int64_t kv_heads, file.get_int(kv_key));
    if (kv_heads == 0 || (file.find(heads_key) && heads % kv_heads != 0))
      return bad(kv_key, fmt::format("is {}, must divide {} = {}", kv_heads, heads_key, heads));
  }
  PAGODA_TRY(const int64_t width, file.get_int_or(prefix + "embedding_length", 0));
  if (!file.find(prefix + "attention.key_length") && width % heads != 0)
    return bad(heads_key, fmt::format("is {}, must divide {}embedding_length = {}", heads, prefix, width));
  return ok_status();
}

}  // namespace

bool known_architecture(std::string_view architecture) {
  constexpr std::array<std::string_view, 8> kKnown = {"gemma", "gemma2", "gemma3", "granite",
                                                      "llama", "phi3",   "qwen2",  "qwen3"};
  return std::ranges::find(kKnown, architecture) != kKnown.end();
}

Status check_metadata(const GgufFile& file) {
  PAGODA_TRY(const std::string_view architecture, file.get_string("general.architecture"));
  if (architecture.empty()) return bad("general.architecture", "is empty");
  const std::string prefix = std::string(architecture) + ".";
  for (const KnownKey& known : kKnownKeys) {
    const std::string key = prefix + std::string(known.name);
    if (file.find(key)) PAGODA_TRY_STATUS(check_key(file, key, known));
  }
  for (const char* key : {"general.file_type", "general.quantization_version"})
    if (file.find(key)) PAGODA_TRY_STATUS(check_key(file, key, {"", Kind::kCount, kTokensMax}));
  for (const std::string_view key : kGeneralStrings) PAGODA_TRY_STATUS(file.get_string_or(key, ""));
  if (known_architecture(architecture)) PAGODA_TRY_STATUS(check_known_architecture(file, prefix));
  if (file.find("tokenizer.ggml.model") || file.find("tokenizer.ggml.tokens")) PAGODA_TRY_STATUS(read_vocab(file));
  return ok_status();
}

}  // namespace pagoda::weights
