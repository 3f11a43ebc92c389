#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace pagoda::text {

/// One pattern of a pre-tokenizer, as a hand-written scanner: the end of the piece that starts at text[at] (at < size,
/// result > at). What the pattern does not match becomes pieces of its own between the matches. Look-ahead ends with
/// `text`. Linear over a whole text, without recursion: nothing a user writes can overflow the stack or go quadratic.
using SplitStage = size_t (*)(std::string_view text, size_t at);

/// How a family of byte-level BPE vocabularies cuts text before merging: each stage cuts the pieces of the one before.
struct PreTokenizer {
  std::vector<SplitStage> stages;
  bool nfc = false;            // the family's tokenizer.json declares NFC (GGUF has no field for it)
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
};

/// By the name in `tokenizer.ggml.pre`; "" is "default". Errors: kUnsupported naming it.
Result<PreTokenizer> find_pre_tokenizer(std::string_view name);

/// Walks the pieces of a text.
class Splitter {
 public:
  /// `text` and `pre` must outlive the object.
  Splitter(const PreTokenizer& pre, std::string_view text);

  /// The next piece, empty at the end.
  std::string_view next();

 private:
  const PreTokenizer& pre_;
  std::string_view text_;
  size_t at_ = 0;
  std::vector<size_t> ends_;  // ends_[s]: end of the current piece of stage s-1, ends_[0] the text's
};

// The scanners, by the family that made each known; pre_tokenizer.cc says who else uses them.
// In split_words.cc: patterns that cover every character.
size_t split_gpt2(std::string_view text, size_t at);
size_t split_llama3(std::string_view text, size_t at);
size_t split_qwen2(std::string_view text, size_t at);
size_t split_qwen35(std::string_view text, size_t at);
size_t split_seed_coder(std::string_view text, size_t at);
size_t split_gpt4o(std::string_view text, size_t at);
size_t split_tekken(std::string_view text, size_t at);
size_t split_kimi_k2(std::string_view text, size_t at);

// In split_runs.cc: patterns that leave gaps.
size_t split_number_one(std::string_view text, size_t at);           // \p{N}
size_t split_number_three(std::string_view text, size_t at);         // \p{N}{1,3}
size_t split_numbers(std::string_view text, size_t at);              // \p{N}+
size_t split_digit_triples(std::string_view text, size_t at);        // [0-9][0-9][0-9]
size_t split_line_breaks(std::string_view text, size_t at);          // [\r\n]
size_t split_falcon_punctuation(std::string_view text, size_t at);   // [\p{P}\$\+<=>\^~\|`]+
size_t split_default_punctuation(std::string_view text, size_t at);  // the same without `
size_t split_spaced_letters(std::string_view text, size_t at);       // \s?\p{L}+
size_t split_spaced_punctuation(std::string_view text, size_t at);   // \s?\p{P}+
size_t split_deepseek_letters(std::string_view text, size_t at);     // \s?[cased letters]+
size_t split_deepseek_signs(std::string_view text, size_t at);       // \s?[!-/:-~ and wide forms]+
size_t split_final_space(std::string_view text, size_t at);          // \s+$
size_t split_deepseek_cjk(std::string_view text, size_t at);         // U+4E00-9FA5, U+0800-4E00, U+AC00-D7FF
size_t split_deepseek3_cjk(std::string_view text, size_t at);        // Han, Hiragana, Katakana
size_t split_deepseek3_words(std::string_view text, size_t at);
size_t split_bloom(std::string_view text, size_t at);  //  ?[^(\s|.,!?...]+

}  // namespace pagoda::text
