#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/result.h"
#include "weights/gguf.h"

namespace pagoda::weights {

/// What a person asks a model file first. Counts a file does not state are absent.
struct GgufSummary {
  struct TypeUse {
    int64_t tensors = 0, parameters = 0, bytes = 0;
  };
  std::string architecture, name, quantization;  // quantization: "Q4_K_M", or the type most bytes have
  bool runnable = false;                         // the architecture and all weight types
  std::string not_runnable_reason;               // "" if runnable
  int64_t parameters = 0, tensors = 0;
  std::map<std::string, TypeUse> types;
  std::optional<int64_t> context_tokens, layers, width, ffn_width, heads, kv_heads, head_width;
  std::optional<int64_t> kv_bytes_per_token;  // keys and values of all layers in f16
  std::optional<int64_t> vocab_tokens;
  std::string vocab_kind, pre_tokenizer;  // "" without a vocabulary
  bool has_chat_template = false, tied_head = false;
};

/// The file must have passed check_metadata. Errors: kCorruptFile (lists whose length is not the layer count).
Result<GgufSummary> summarize(const GgufFile& file);

}  // namespace pagoda::weights
