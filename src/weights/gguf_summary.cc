#include "weights/gguf_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "weights/gguf_check.h"
#include "weights/gguf_parse.h"

namespace pagoda::weights {
namespace {

// general.file_type, as the quantizer that wrote the file calls its recipe.
std::string recipe_name(int64_t file_type) {
  constexpr std::array<const char*, 39> kNames = {
      "F32",    "F16",    "Q4_0",   "Q4_1",    "",       "",       "",       "Q8_0",   "Q5_0",     "Q5_1",
      "Q2_K",   "Q3_K_S", "Q3_K_M", "Q3_K_L",  "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K",     "IQ2_XXS",
      "IQ2_XS", "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S",  "IQ4_NL", "IQ3_S",  "IQ3_M",  "IQ2_S",    "IQ2_M",
      "IQ4_XS", "IQ1_M",  "BF16",   "",        "",       "",       "TQ1_0",  "TQ2_0",  "MXFP4_MOE"};
  if (file_type < 0 || file_type >= static_cast<int64_t>(kNames.size())) return "";
  return kNames[static_cast<size_t>(file_type)];
}

Result<std::optional<int64_t>> optional_int(const GgufFile& file, const std::string& key) {
  if (!file.find(key)) return std::optional<int64_t>();
  PAGODA_TRY(const int64_t value, file.get_int(key));
  return std::optional<int64_t>(value);
}

// A number, or the largest of a list that has one for each layer.
Result<std::optional<int64_t>> largest_of(const GgufFile& file, const std::string& key, std::optional<int64_t> layers) {
  if (!file.find(key)) return std::optional<int64_t>();
  PAGODA_TRY(const std::vector<int64_t> values, file.get_int_list(key, std::max<int64_t>(1, layers.value_or(1))));
  return std::optional<int64_t>(*std::max_element(values.begin(), values.end()));
}

void add_tensors(const GgufFile& file, GgufSummary& summary) {
  summary.tensors = static_cast<int64_t>(file.tensors().size());
  for (const GgufTensor& tensor : file.tensors()) {
    const kernels::TypeTraits& traits = *kernels::type_traits(tensor.type);
    GgufSummary::TypeUse& use = summary.types[traits.name];
    ++use.tensors;
    use.parameters += tensor.elements();
    use.bytes += static_cast<int64_t>(tensor.data.size());
    summary.parameters += tensor.elements();
    if (!traits.dequantizable && summary.not_runnable_reason.empty())
      summary.not_runnable_reason = fmt::format("tensor {} has type {}", printable(tensor.name), traits.name);
  }
  summary.tied_head = file.find_tensor("token_embd.weight") && !file.find_tensor("output.weight");
}

Status add_shape(const GgufFile& file, const std::string& prefix, GgufSummary& s) {
  PAGODA_TRY(s.context_tokens, optional_int(file, prefix + "context_length"));
  PAGODA_TRY(s.layers, optional_int(file, prefix + "block_count"));
  PAGODA_TRY(s.width, optional_int(file, prefix + "embedding_length"));
  PAGODA_TRY(s.ffn_width, largest_of(file, prefix + "feed_forward_length", s.layers));
  PAGODA_TRY(s.heads, largest_of(file, prefix + "attention.head_count", s.layers));
  PAGODA_TRY(s.kv_heads, largest_of(file, prefix + "attention.head_count_kv", s.layers));
  PAGODA_TRY(s.head_width, optional_int(file, prefix + "attention.key_length"));
  if (!s.kv_heads) s.kv_heads = s.heads;
  if (!s.head_width && s.width && s.heads.value_or(0) > 0) s.head_width = *s.width / *s.heads;
  if (!s.layers || !s.kv_heads || !s.head_width) return ok_status();

  PAGODA_TRY(const int64_t value_width, file.get_int_or(prefix + "attention.value_length", *s.head_width));
  std::vector<int64_t> kv_heads(static_cast<size_t>(*s.layers), *s.kv_heads);
  if (file.find(prefix + "attention.head_count_kv")) {
    PAGODA_TRY(kv_heads, file.get_int_list(prefix + "attention.head_count_kv", *s.layers));
  }
  constexpr int64_t kF16Bytes = 2;
  s.kv_bytes_per_token =
      std::accumulate(kv_heads.begin(), kv_heads.end(), int64_t{0}) * (*s.head_width + value_width) * kF16Bytes;
  return ok_status();
}

}  // namespace

Result<GgufSummary> summarize(const GgufFile& file) {
  GgufSummary summary;
  PAGODA_TRY(summary.architecture, file.get_string("general.architecture"));
  PAGODA_TRY(summary.name, file.get_string_or("general.name", ""));
  if (!known_architecture(summary.architecture))
    summary.not_runnable_reason = fmt::format("unknown architecture {}", printable(summary.architecture));
  add_tensors(file, summary);
  if (summary.tensors == 0 && summary.not_runnable_reason.empty())
    summary.not_runnable_reason = "no tensors: a vocabulary";
  summary.runnable = summary.not_runnable_reason.empty();
  PAGODA_TRY_STATUS(add_shape(file, summary.architecture + ".", summary));

  PAGODA_TRY(const int64_t file_type, file.get_int_or("general.file_type", -1));
  summary.quantization = recipe_name(file_type);
  if (summary.quantization.empty() && !summary.types.empty())
    summary.quantization =
        std::max_element(summary.types.begin(), summary.types.end(), [](const auto& a, const auto& b) {
          return a.second.bytes < b.second.bytes;
        })->first;

  PAGODA_TRY(summary.vocab_kind, file.get_string_or("tokenizer.ggml.model", ""));
  PAGODA_TRY(summary.pre_tokenizer, file.get_string_or("tokenizer.ggml.pre", ""));
  if (const GgufValue* tokens = file.find("tokenizer.ggml.tokens"))
    if (const auto* array = std::get_if<GgufArray>(tokens))
      summary.vocab_tokens = std::visit([](const auto& v) { return static_cast<int64_t>(v.size()); }, array->values);
  PAGODA_TRY(const std::string_view chat_template, file.get_string_or("tokenizer.chat_template", ""));
  summary.has_chat_template = !chat_template.empty();
  return summary;
}

}  // namespace pagoda::weights
