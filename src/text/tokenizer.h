#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "core/result.h"
#include "text/vocab.h"

namespace pagoda::text {

struct EncodeOptions {
  bool add_special = false;    // BOS (unless the text's ids already begin with it) and EOS, as the vocabulary asks
  bool parse_special = false;  // control tokens written in the text become their ids; otherwise they stay text
};

/// A piece of a rendered prompt: `parse_special` is false for what a user wrote, so that a user who types
/// "<|im_end|>" gets those ten characters and not the control token.
struct PromptPart {
  std::string text;
  bool parse_special;
};

/// Text <-> token ids of one vocabulary. Immutable after create(): share it between threads freely.
///
/// Kinds: byte-level BPE (GPT-2 and its descendants, with the pre-tokenizer that `pre` names), SentencePiece BPE
/// and SentencePiece unigram, both with byte fallback. Cost: linear in the text; see tokenizer_bench.cc for MB/s.
class Tokenizer {
 public:
  /// Errors: kCorruptFile (sizes disagree, id out of range, merge of unknown tokens), kUnsupported (unknown model or
  /// pre-tokenizer, naming it).
  static Result<std::unique_ptr<Tokenizer>> create(VocabSpec spec);
  virtual ~Tokenizer() = default;

  /// Any bytes are accepted; invalid UTF-8 is encoded byte by byte where the vocabulary can, as U+FFFD where not.
  virtual std::vector<TokenId> encode(std::string_view text, EncodeOptions options) const = 0;

  /// encode() over parts as one text: user parts never yield control tokens; BOS added once unless already there.
  virtual std::vector<TokenId> encode_parts(const std::vector<PromptPart>& parts, bool add_special) const = 0;

  /// The bytes one token stands for inside a text (may be part of a UTF-8 character; control tokens give their
  /// spelling). id must be in [0, size()).
  virtual std::string token_bytes(TokenId id) const = 0;

  /// The whole text of `ids`, as a model's reader sees it. Control tokens are left out if `skip_special`; bytes that
  /// are no UTF-8 become U+FFFD. The dummy blank of SentencePiece is removed at the start.
  virtual std::string decode(const std::vector<TokenId>& ids, bool skip_special) const = 0;

  /// True where encode() puts a dummy blank before a text, which decode() takes away again.
  virtual bool strips_first_blank() const = 0;

  /// What create() was given, without the merges.
  const VocabSpec& spec() const { return spec_; }
  int32_t size() const { return static_cast<int32_t>(spec_.tokens.size()); }
  bool is_control(TokenId id) const;            // kControl or kUnknown: no printable text
  bool is_end_of_generation(TokenId id) const;  // eos, eot or one of end_of_generation
  bool valid(TokenId id) const { return id >= 0 && id < size(); }

 protected:
  explicit Tokenizer(VocabSpec spec) : spec_(std::move(spec)) {}
  VocabSpec spec_;
};

}  // namespace pagoda::text
