#include "text/base_tokenizer.h"

#include <algorithm>

#include "text/detokenizer.h"

namespace pagoda::text {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// GGUF has no field for strip rules. Known models (facts: their tokenizer.json): Phi-3's added tokens swallow the white
// space behind them, except <unk>, <s> and <|endoftext|>; the mask of some BERT-like models swallows what is before it.
void set_strip_rules(const VocabSpec& spec, AddedTokens::Entry& entry) {
  std::string name = spec.name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (contains(name, "phi-3") || contains(name, "phi3"))
    entry.strip_right = entry.text != "<unk>" && entry.text != "<s>" && entry.text != "<|endoftext|>";
  if (spec.pre.starts_with("jina-v2-") && entry.text == "<mask>") entry.strip_left = true;
  if (spec.pre == "modern-bert" && entry.text == "[MASK]") entry.strip_left = true;
}

AddedTokens find_added_tokens(const VocabSpec& spec) {
  std::vector<AddedTokens::Entry> entries;
  for (size_t i = 0; i < spec.types.size(); ++i) {
    const TokenType type = spec.types[i];
    const bool control = type == TokenType::kControl || type == TokenType::kUnknown;
    if ((!control && type != TokenType::kUserDefined) || spec.tokens[i].empty()) continue;
    entries.push_back({spec.tokens[i], static_cast<TokenId>(i), control, false, false});
    set_strip_rules(spec, entries.back());
  }
  return AddedTokens(entries);
}

}  // namespace

BaseTokenizer::BaseTokenizer(VocabSpec spec, TokenTable::Spelling spelling)
    : Tokenizer(std::move(spec)),
      table_(spec_, spelling),
      added_(find_added_tokens(spec_)),
      whole_(std::make_unique<std::atomic<uint8_t>[]>(spec_.tokens.size())) {}

std::vector<TokenId> BaseTokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<Span> control;
  if (options.parse_special) control.push_back({0, text.size()});
  return encode_spans(text, control, options.add_special);
}

std::vector<TokenId> BaseTokenizer::encode_parts(const std::vector<PromptPart>& parts, bool add_special) const {
  std::string text;
  std::vector<Span> control;
  for (const PromptPart& part : parts) {
    const Span span{text.size(), text.size() + part.text.size()};
    text += part.text;
    if (!part.parse_special || span.begin == span.end) continue;
    if (!control.empty() && control.back().end == span.begin) {
      control.back().end = span.end;
    } else {
      control.push_back(span);
    }
  }
  return encode_spans(text, control, add_special);
}

std::vector<TokenId> BaseTokenizer::encode_spans(std::string_view text, const std::vector<Span>& control,
                                                 bool add_special) const {
  std::vector<TokenId> out;
  bool after_added = true;
  for (size_t at = 0; at < text.size();) {
    const AddedTokens::Match match = added_.next(text, at, control);
    size_t end = match.span.begin;
    while (match.strip_left && end > at && is_blank(text[end - 1])) --end;
    if (end > at) encode_text(text.substr(at, end - at), after_added, out);
    if (match.id == kNoToken) break;
    out.push_back(match.id);
    after_added = true;
    at = match.span.end;
    while (match.strip_right && at < text.size() && is_blank(text[at])) ++at;
  }
  if (!add_special) return out;
  if (spec_.add_bos && spec_.bos != kNoToken && (out.empty() || out.front() != spec_.bos))
    out.insert(out.begin(), spec_.bos);
  if (spec_.add_eos && spec_.eos != kNoToken) out.push_back(spec_.eos);
  return out;
}

std::string BaseTokenizer::token_bytes(TokenId id) const {
  PAGODA_CHECK(valid(id));
  return std::string(table_.bytes(id));
}

std::string BaseTokenizer::decode(const std::vector<TokenId>& ids, bool skip_special) const {
  Detokenizer stream(*this, skip_special);
  std::string out;
  for (TokenId id : ids) out += stream.push(id);
  return out += stream.finish();
}

}  // namespace pagoda::text
