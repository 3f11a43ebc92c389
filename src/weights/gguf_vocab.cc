#include "weights/gguf_vocab.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace pagoda::weights {
namespace {

using text::TokenType;
using text::VocabSpec;

constexpr int64_t kVocabMax = int64_t{1} << 24;

// Texts that end an answer in the families that people use. A file names at most three of them by key, chat models emit
// others too (Qwen: <|im_end|> and <|endoftext|>), so they are looked up by text. The first kTurnEnds end a turn.
constexpr std::array<std::string_view, 16> kEndTexts = {
    "<|eot_id|>",    "<|im_end|>",      "<|end|>",    "<end_of_turn>",
    "<EOT>",         "_<EOT>",          "[EOT]",      "<end_of_utterance>",
    "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<|return|>",
    "<|call|>",      "<eos>",           "[EOS]",      "<turn|>"};
constexpr size_t kTurnEnds = 8;

// Pre-tokenizers whose files leave add_bos_token out and mean true.
constexpr std::array<std::string_view, 10> kPreWithBos = {"llama3",  "llama-v3", "llama-bpe", "falcon3", "falcon-h1",
                                                          "pixtral", "midm-2.0", "lfm2",      "tekken",  "chameleon"};

Error bad(std::string_view key, std::string message) {
  return Error{Code::kCorruptFile, fmt::format("key {} {}", key, message), std::string(key)};
}

template <class T>
const std::vector<T>* array_of(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.find(key);
  const auto* array = value ? std::get_if<GgufArray>(value) : nullptr;
  return array ? std::get_if<std::vector<T>>(&array->values) : nullptr;
}

Result<std::vector<std::string>> read_strings(const GgufFile& file, std::string_view key) {
  const auto* views = array_of<std::string_view>(file, key);
  if (!views) return bad(key, file.find(key) ? "is of the wrong type, must be an array of strings" : "is missing");
  return std::vector<std::string>(views->begin(), views->end());
}

Status read_tokens(const GgufFile& file, VocabSpec& spec) {
  constexpr std::string_view kKey = "tokenizer.ggml.tokens";
  PAGODA_TRY(spec.tokens, read_strings(file, kKey));
  const auto count = static_cast<int64_t>(spec.tokens.size());
  if (count < 1 || count > kVocabMax)
    return bad(kKey, fmt::format("has {} tokens, must be in [1, {}]", count, kVocabMax));
  return ok_status();
}

Status read_scores(const GgufFile& file, VocabSpec& spec) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  if (!file.find(kKey)) return ok_status();
  const auto* scores = array_of<float>(file, kKey);
  if (!scores) return bad(kKey, "is of the wrong type, must be an array of float32");
  if (scores->size() != spec.tokens.size())
    return bad(kKey,
               fmt::format("has {} elements, must be one for each of {} tokens", scores->size(), spec.tokens.size()));
  for (size_t i = 0; i < scores->size(); ++i)
    if (std::isnan((*scores)[i])) return bad(kKey, fmt::format("has no number at {}", i));
  spec.scores = *scores;
  return ok_status();
}

Status read_types(const GgufFile& file, VocabSpec& spec) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  if (!file.find(kKey)) return ok_status();
  const auto* types = array_of<int32_t>(file, kKey);
  const auto* unsigned_types = array_of<uint32_t>(file, kKey);
  if (!types && !unsigned_types) return bad(kKey, "is of the wrong type, must be an array of int32");
  const size_t count = types ? types->size() : unsigned_types->size();
  if (count != spec.tokens.size())
    return bad(kKey, fmt::format("has {} elements, must be one for each of {} tokens", count, spec.tokens.size()));
  spec.types.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t type = types ? int64_t{(*types)[i]} : int64_t{(*unsigned_types)[i]};
    if (type < 0 || type > static_cast<int64_t>(TokenType::kByte))
      return bad(kKey, fmt::format("is {} at {}, must be in [0, 6]", type, i));
    spec.types.push_back(type == 0 ? TokenType::kNormal : static_cast<TokenType>(type));  // 0: undefined
  }
  return ok_status();
}

Status read_charsmap(const GgufFile& file, VocabSpec& spec) {
  constexpr std::string_view kKey = "tokenizer.ggml.precompiled_charsmap";
  if (!file.find(kKey)) return ok_status();
  if (const auto* bytes = array_of<uint8_t>(file, kKey)) {
    spec.precompiled_charsmap.assign(bytes->begin(), bytes->end());
  } else if (const auto* chars = array_of<int8_t>(file, kKey)) {
    spec.precompiled_charsmap.assign(chars->begin(), chars->end());
  } else {
    return bad(kKey, "is of the wrong type, must be an array of bytes");
  }
  return ok_status();
}

// The id under `key`, or `fallback` where the vocabulary has it.
Result<TokenId> read_id(const GgufFile& file, const VocabSpec& spec, std::string_view key, TokenId fallback) {
  const auto count = static_cast<int64_t>(spec.tokens.size());
  if (!file.find(key)) return fallback < count ? fallback : kNoToken;
  PAGODA_TRY(const int64_t id, file.get_int(key));
  if (id < 0 || id >= count)
    return bad(key, fmt::format("is {}, must be in [0, {}): the vocabulary's size", id, count));
  return static_cast<TokenId>(id);
}

Status read_special_ids(const GgufFile& file, VocabSpec& spec) {
  // Defaults where a file is silent: those of the SentencePiece trainers. Byte-level BPE has none.
  const bool spm = spec.model == "llama", unigram = spec.model == "t5";
  PAGODA_TRY(spec.bos, read_id(file, spec, "tokenizer.ggml.bos_token_id", spm ? 1 : kNoToken));
  PAGODA_TRY(spec.eos, read_id(file, spec, "tokenizer.ggml.eos_token_id", spm ? 2 : unigram ? 1 : kNoToken));
  PAGODA_TRY(spec.unknown, read_id(file, spec, "tokenizer.ggml.unknown_token_id", spm ? 0 : unigram ? 2 : kNoToken));
  PAGODA_TRY(spec.padding, read_id(file, spec, "tokenizer.ggml.padding_token_id", unigram ? 0 : kNoToken));
  PAGODA_TRY(spec.eot, read_id(file, spec, "tokenizer.ggml.eot_token_id", kNoToken));
  // GGUF's own spelling first.
  PAGODA_TRY(spec.separator, read_id(file, spec, "tokenizer.ggml.seperator_token_id", kNoToken));
  PAGODA_TRY(spec.separator, read_id(file, spec, "tokenizer.ggml.separator_token_id", spec.separator));
  PAGODA_TRY(const TokenId eom, read_id(file, spec, "tokenizer.ggml.eom_token_id", kNoToken));
  if (eom != kNoToken) spec.end_of_generation.push_back(eom);
  return ok_status();
}

bool may_be_special(const VocabSpec& spec, size_t id) {
  return spec.types.empty() || spec.types[id] == TokenType::kControl || spec.types[id] == TokenType::kUserDefined;
}

// Completes eot and end_of_generation by token text.
void find_end_tokens(VocabSpec& spec) {
  std::array<TokenId, kEndTexts.size()> found;
  found.fill(kNoToken);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string& token = spec.tokens[id];
    if (token.empty() || (token[0] != '<' && token[0] != '[' && token[0] != '_') || !may_be_special(spec, id)) continue;
    const auto at = std::find(kEndTexts.begin(), kEndTexts.end(), token);
    if (at != kEndTexts.end()) found[static_cast<size_t>(at - kEndTexts.begin())] = static_cast<TokenId>(id);
  }
  const auto id_of = [&](std::string_view text) -> TokenId& {
    return found[static_cast<size_t>(std::find(kEndTexts.begin(), kEndTexts.end(), text) - kEndTexts.begin())];
  };
  // In the harmony format <|end|> closes a message, and the answer goes on.
  if (id_of("<|return|>") != kNoToken && id_of("<|call|>") != kNoToken) id_of("<|end|>") = kNoToken;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == kNoToken) continue;
    if (i < kTurnEnds && spec.eot == kNoToken) spec.eot = found[i];
    spec.end_of_generation.push_back(found[i]);
  }
  std::sort(spec.end_of_generation.begin(), spec.end_of_generation.end());
  spec.end_of_generation.erase(std::unique(spec.end_of_generation.begin(), spec.end_of_generation.end()),
                               spec.end_of_generation.end());
  std::erase_if(spec.end_of_generation, [&](TokenId id) { return id == spec.eos || id == spec.eot; });
}

Status read_flags(const GgufFile& file, VocabSpec& spec) {
  const bool spm = spec.model == "llama", unigram = spec.model == "t5";
  const bool pre_with_bos = std::find(kPreWithBos.begin(), kPreWithBos.end(), spec.pre) != kPreWithBos.end();
  PAGODA_TRY(spec.add_bos, file.get_bool_or("tokenizer.ggml.add_bos_token", spm || pre_with_bos));
  PAGODA_TRY(spec.add_eos, file.get_bool_or("tokenizer.ggml.add_eos_token", unigram));
  PAGODA_TRY(spec.add_space_prefix, file.get_bool_or("tokenizer.ggml.add_space_prefix", spm || unigram));
  PAGODA_TRY(spec.remove_extra_whitespaces, file.get_bool_or("tokenizer.ggml.remove_extra_whitespaces", false));
  PAGODA_TRY(spec.escape_whitespaces, file.get_bool_or("tokenizer.ggml.escape_whitespaces", true));
  spec.add_bos = spec.add_bos && spec.bos != kNoToken;
  spec.add_eos = spec.add_eos && spec.eos != kNoToken;
  return ok_status();
}

}  // namespace

Result<VocabSpec> read_vocab(const GgufFile& file) {
  VocabSpec spec;
  PAGODA_TRY(spec.name, file.get_string_or("general.name", ""));
  PAGODA_TRY(spec.model, file.get_string("tokenizer.ggml.model"));
  PAGODA_TRY(spec.pre, file.get_string_or("tokenizer.ggml.pre", ""));
  PAGODA_TRY_STATUS(read_tokens(file, spec));
  PAGODA_TRY_STATUS(read_scores(file, spec));
  PAGODA_TRY_STATUS(read_types(file, spec));
  PAGODA_TRY_STATUS(read_charsmap(file, spec));
  if (file.find("tokenizer.ggml.merges")) {
    PAGODA_TRY(spec.merges, read_strings(file, "tokenizer.ggml.merges"));
  }
  PAGODA_TRY_STATUS(read_special_ids(file, spec));
  PAGODA_TRY_STATUS(read_flags(file, spec));
  find_end_tokens(spec);
  return spec;
}

}  // namespace pagoda::weights
