#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.h"

namespace pagoda::text {

/// As in `tokenizer.ggml.token_type`.
enum class TokenType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

/// Everything a model file says about its vocabulary, in plain values; `Tokenizer::create` judges it.
/// Field names follow GGUF's `tokenizer.ggml.*` keys.
struct VocabSpec {
  std::string name;   // `general.name`: GGUF has no field for strip rules, some follow from the model's name
  std::string model;  // "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "t5" (SentencePiece unigram)
  std::string pre;    // pre-tokenizer family, "" if absent
  std::vector<std::string> tokens;   // [V] as stored (byte-level BPE: in the printable-byte alphabet)
  std::vector<float> scores;         // [V] or empty
  std::vector<TokenType> types;      // [V] or empty (all kNormal)
  std::vector<std::string> merges;   // "left right", best first; byte-level BPE only
  std::string precompiled_charsmap;  // SentencePiece normalizer, "" if absent

  TokenId bos = kNoToken, eos = kNoToken, eot = kNoToken, unknown = kNoToken, separator = kNoToken, padding = kNoToken;
  std::vector<TokenId> end_of_generation;  // further ids that end an answer (eom, eot found by text)

  bool add_bos = false;  // the file's wish, or the default of the model kind
  bool add_eos = false;
  bool add_space_prefix = true;  // SentencePiece: a dummy blank before the first ordinary text
  bool remove_extra_whitespaces = false;
  bool escape_whitespaces = true;  // blanks become U+2581
};

}  // namespace pagoda::text
