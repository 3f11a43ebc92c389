#include "text/tokenizer.h"

#include <algorithm>
#include <limits>

#include "text/byte_bpe.h"
#include "text/sentencepiece_bpe.h"
#include "text/sentencepiece_unigram.h"

namespace pagoda::text {
namespace {

constexpr size_t kTokensMax = 16u << 20;      // ids are 32 bits; the largest vocabularies have 2^18
constexpr size_t kAddedTokenBytesMax = 1024;  // a text costs this many steps a byte at worst

Status check_id(const VocabSpec& spec, TokenId id, const char* key) {
  if (id == kNoToken || (id >= 0 && static_cast<size_t>(id) < spec.tokens.size())) return ok_status();
  return Error{Code::kCorruptFile,
               std::string(key) + " is " + std::to_string(id) + ", the vocabulary has " +
                   std::to_string(spec.tokens.size()) + " tokens",
               key};
}

Status check_ids(const VocabSpec& spec) {
  PAGODA_TRY_STATUS(check_id(spec, spec.bos, "tokenizer.ggml.bos_token_id"));
  PAGODA_TRY_STATUS(check_id(spec, spec.eos, "tokenizer.ggml.eos_token_id"));
  PAGODA_TRY_STATUS(check_id(spec, spec.eot, "tokenizer.ggml.eot_token_id"));
  PAGODA_TRY_STATUS(check_id(spec, spec.unknown, "tokenizer.ggml.unknown_token_id"));
  PAGODA_TRY_STATUS(check_id(spec, spec.separator, "tokenizer.ggml.seperator_token_id"));
  PAGODA_TRY_STATUS(check_id(spec, spec.padding, "tokenizer.ggml.padding_token_id"));
  for (TokenId id : spec.end_of_generation) PAGODA_TRY_STATUS(check_id(spec, id, "tokenizer.ggml.eot_token_id"));
  return ok_status();
}

Status check_size(size_t got, size_t tokens, const char* key) {
  if (got == 0 || got == tokens) return ok_status();
  return Error{
      Code::kCorruptFile,
      std::string(key) + " has " + std::to_string(got) + " entries, tokenizer.ggml.tokens " + std::to_string(tokens),
      key};
}

Status check_spec(const VocabSpec& spec) {
  const size_t tokens = spec.tokens.size();
  if (tokens == 0 || tokens > kTokensMax)
    return Error{Code::kCorruptFile,
                 "tokenizer.ggml.tokens has " + std::to_string(tokens) + " entries, allowed are 1 to " +
                     std::to_string(kTokensMax),
                 "tokenizer.ggml.tokens"};
  PAGODA_TRY_STATUS(check_size(spec.types.size(), tokens, "tokenizer.ggml.token_type"));
  PAGODA_TRY_STATUS(check_size(spec.scores.size(), tokens, "tokenizer.ggml.scores"));
  for (size_t i = 0; i < spec.types.size(); ++i) {
    const TokenType type = spec.types[i];
    const bool added = type == TokenType::kControl || type == TokenType::kUserDefined || type == TokenType::kUnknown;
    if (added && spec.tokens[i].size() > kAddedTokenBytesMax)
      return Error{Code::kCorruptFile,
                   "added token " + std::to_string(i) + " has " + std::to_string(spec.tokens[i].size()) +
                       " bytes, limit " + std::to_string(kAddedTokenBytesMax),
                   "tokenizer.ggml.tokens"};
  }
  return check_ids(spec);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(VocabSpec spec) {
  PAGODA_TRY_STATUS(check_spec(spec));
  if (spec.model == "gpt2") return ByteBpe::create(std::move(spec));
  if (spec.model == "llama") return SentencePieceBpe::create(std::move(spec));
  if (spec.model == "t5") return SentencePieceUnigram::create(std::move(spec));
  return Error{Code::kUnsupported, "tokenizer model '" + spec.model + "' is not known", "tokenizer.ggml.model"};
}

bool Tokenizer::is_control(TokenId id) const {
  if (!valid(id) || spec_.types.empty()) return false;
  const TokenType type = spec_.types[static_cast<size_t>(id)];
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

bool Tokenizer::is_end_of_generation(TokenId id) const {
  if (id == kNoToken) return false;
  const auto& more = spec_.end_of_generation;
  return id == spec_.eos || id == spec_.eot || std::find(more.begin(), more.end(), id) != more.end();
}

}  // namespace pagoda::text
