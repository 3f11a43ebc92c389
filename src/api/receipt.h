#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/openai_request.h"
#include "scheduler/request.h"

namespace pagoda::api {

/// What every receipt of a served model says. See docs/adr/0021-receipts.md.
struct ReceiptSource {
  std::string build{};                          // "pagoda 0.1.0, numbers 1": what the bytes are relative to
  std::string model{};                          // what `pagoda replay` can find it by
  std::function<std::string()> model_sha256{};  // of the file's bytes, hexadecimal; takes a while the first time
  std::function<bool()> ready{};                // whether it takes none by now
  std::string kv_k{}, kv_v{};                   // how K and V are stored, as --cache-type-k and -v call them
  int32_t max_model_len = 0;                    // it may choose between two sets of rope factors
  std::string chat_template{};                  // "" = none
};

/// Token ids stand in a receipt up to this many, of a prompt and of an answer each; beyond it only their digest does.
inline constexpr size_t kReceiptIdsMax = 4096;

/// SHA-256, hexadecimal, of the ids, each as four bytes, little-endian.
std::string digest_of_tokens(std::span<const TokenId> ids);
/// SHA-256, hexadecimal.
std::string digest_of_text(std::string_view text);

/// "stop", "length", "abort", "error".
const char* name_of(scheduler::FinishReason finish);

struct ReceiptPrompt {
  std::optional<std::vector<TokenId>> ids{};
  int64_t tokens = 0;
  std::string sha256{};
  int32_t max_tokens = 0;  // of each of its answers
};
struct ReceiptChoice {
  std::optional<std::vector<TokenId>> ids{};
  int64_t tokens = 0;
  std::string sha256{};
  std::string ended_by{};  // "stop" or "length"; another name than in the answer, for who counts those
};

/// All that makes one answer repeatable, and what it was: a receipt as it is read.
struct Receipt {
  std::string build{};
  std::string model{};
  std::string model_sha256{};
  std::string kv_k{}, kv_v{};
  int32_t max_model_len = 0;
  std::string chat_template_sha256{};  // "" for completions
  bool echo = false;
  GenerationRequest generation{};
  std::vector<ReceiptPrompt> prompts{};
  std::vector<ReceiptChoice> choices{};  // choice c answers prompts[c / n]
};

/// Writes and reads whole lists of ids: above kReceiptIdsMax they become digests.
ReceiptPrompt receipt_prompt(const std::vector<TokenId>& ids, int32_t max_tokens);
ReceiptChoice receipt_choice(const std::vector<TokenId>& ids, scheduler::FinishReason finish);

/// The fields of `generation` that decide what is said, under the names that requests have for them. Numbers give the
/// floats that were computed with again, bit for bit; the seed is there also if nobody gave one.
Json sampling_json(const GenerationRequest& generation);

/// Waits for the model's digest. `chat`: the prompt came out of the template.
Json receipt_json(const ReceiptSource& source, const GenerationRequest& generation, bool chat, bool echo,
                  const std::vector<ReceiptPrompt>& prompts, const std::vector<ReceiptChoice>& choices);

/// Errors kInvalidRequest name the field, as for requests. Ids must be below facts.vocab_size; lists of ids must have
/// the length that stands beside them, and choices the number that prompts and n make.
Result<Receipt> read_receipt(const JsonField& receipt, const ModelFacts& facts);

}  // namespace pagoda::api
