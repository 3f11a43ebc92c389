#include "text/sentencepiece_bpe.h"

#include <bit>
#include <cmath>

#include "text/merge_symbols.h"
#include "text/unicode.h"

namespace pagoda::text {
namespace {

// "<0xAB>" -> 0xAB, or -1.
int parse_byte_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return -1;
  int value = 0;
  for (char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

// Falls as the score rises, so that the lowest rank is the best score; NaN was refused at load.
uint32_t rank_of_score(float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score);
  const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(VocabSpec spec)
    : BaseTokenizer(std::move(spec), TokenTable::Spelling::kPlain), byte_of_(spec_.tokens.size(), -1) {
  byte_ids_.fill(kNoToken);
}

Status SentencePieceTokenizer::load_byte_tokens() {
  for (TokenId id = 0; id < table_.size(); ++id) {
    if (table_.type(id) != TokenType::kByte) continue;
    const int byte = parse_byte_token(table_.bytes(id));
    if (byte < 0)
      return Error{Code::kCorruptFile, "byte token " + std::to_string(id) + " is not spelled <0x00> to <0xFF>",
                   "tokenizer.ggml.tokens"};
    byte_of_[static_cast<size_t>(id)] = static_cast<int16_t>(byte);
    byte_ids_[static_cast<size_t>(byte)] = id;
  }
  return ok_status();
}

std::string SentencePieceTokenizer::token_bytes(TokenId id) const {
  PAGODA_CHECK(valid(id));
  if (const int16_t byte = byte_of_[static_cast<size_t>(id)]; byte >= 0) return std::string(1, static_cast<char>(byte));
  std::string out(table_.bytes(id));
  if (!spec_.escape_whitespaces || is_control(id)) return out;
  for (size_t at = out.find(kVisibleBlank); at != std::string::npos; at = out.find(kVisibleBlank, at + 1))
    out.replace(at, kVisibleBlank.size(), " ");
  return out;
}

std::string SentencePieceTokenizer::escape(std::string_view text, bool after_added) const {
  std::string out;
  out.reserve(text.size() + text.size() / 2 + kVisibleBlank.size());
  const std::string_view blank = spec_.escape_whitespaces ? kVisibleBlank : std::string_view(" ");
  if (spec_.remove_extra_whitespaces)
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  if (spec_.add_space_prefix && after_added && !text.empty()) out += blank;
  bool after_blank = false;
  for (char c : text) {
    const bool surplus = spec_.remove_extra_whitespaces && c == ' ' && after_blank;
    after_blank = c == ' ';
    if (surplus) continue;
    if (c == ' ') {
      out += blank;
    } else {
      out += c;
    }
  }
  if (spec_.remove_extra_whitespaces && after_blank) out.resize(out.size() - blank.size());
  return out;
}

void SentencePieceTokenizer::append_unknown(std::string_view piece, std::vector<TokenId>& out,
                                            bool& after_unknown) const {
  for (char c : piece) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
    if (id != kNoToken) {
      out.push_back(id);
      after_unknown = false;
    } else if (!after_unknown && spec_.unknown != kNoToken) {
      out.push_back(spec_.unknown);
      after_unknown = true;
    }
  }
}

struct SentencePieceBpe::Symbols {
  const SentencePieceBpe& bpe;
  std::string_view text;
  std::vector<size_t> begin;  // [n + 1]: byte where symbol i starts
  std::vector<size_t> end;    // [n]

  std::string_view part(int32_t i, int32_t j) const {
    const size_t from = begin[static_cast<size_t>(i)];
    return text.substr(from, end[static_cast<size_t>(j)] - from);
  }
  uint32_t rank(int32_t i, int32_t j) const {
    const TokenId id = bpe.table_.find(part(i, j));
    return id == kNoToken ? kNoMerge : rank_of_score(bpe.spec_.scores[static_cast<size_t>(id)]);
  }
  void merge(int32_t i, int32_t j) { end[static_cast<size_t>(i)] = end[static_cast<size_t>(j)]; }
};

Result<std::unique_ptr<Tokenizer>> SentencePieceBpe::create(VocabSpec spec) {
  if (spec.scores.empty())
    return Error{Code::kCorruptFile, "tokenizer.ggml.scores is missing", "tokenizer.ggml.scores"};
  for (size_t i = 0; i < spec.scores.size(); ++i)
    if (std::isnan(spec.scores[i]))
      return Error{Code::kCorruptFile, "tokenizer.ggml.scores[" + std::to_string(i) + "] is not a number",
                   "tokenizer.ggml.scores"};
  std::unique_ptr<SentencePieceBpe> bpe(new SentencePieceBpe(std::move(spec)));
  PAGODA_TRY_STATUS(bpe->load_byte_tokens());
  return std::unique_ptr<Tokenizer>(std::move(bpe));
}

SentencePieceBpe::SentencePieceBpe(VocabSpec spec) : SentencePieceTokenizer(std::move(spec)) {
  for (TokenId id = 0; id < table_.size(); ++id) {
    if (!table_.ordinary(id)) continue;
    const std::string_view token = table_.bytes(id);
    for (size_t at = token.find(kVisibleBlank, 1); at != std::string_view::npos;
         at = token.find(kVisibleBlank, at + 1)) {
      size_t lead = at - 1;
      while (lead > 0 && (static_cast<uint8_t>(token[lead]) & 0xC0) == 0x80) --lead;
      before_blank_.insert(decode_utf8(token.substr(lead, at - lead)).code);
    }
  }
}

// The next U+2581 that no merge can join to what is before it: what lies between two of them is encoded on its own,
// with the same ids as the whole, and words stay short.
size_t SentencePieceBpe::chunk_end(std::string_view text, size_t at) const {
  uint32_t before = 0;
  for (size_t i = at; i < text.size();) {
    if (i > at && text[i] == kVisibleBlank[0] && text.substr(i).starts_with(kVisibleBlank) &&
        !before_blank_.contains(before))
      return i;
    const Utf8Char c = decode_utf8(text.substr(i));
    before = c.code;
    i += c.bytes;
  }
  return text.size();
}

void SentencePieceBpe::encode_text(std::string_view text, bool after_added, std::vector<TokenId>& out) const {
  const std::string escaped = escape(text, after_added);
  bool after_unknown = false;
  for (size_t at = 0; at < escaped.size();) {
    const size_t end = chunk_end(escaped, at);
    encode_chunk(std::string_view(escaped).substr(at, end - at), out, after_unknown);
    at = end;
  }
}

void SentencePieceBpe::encode_chunk(std::string_view chunk, std::vector<TokenId>& out, bool& after_unknown) const {
  const TokenId whole = whole_token(chunk, [&](TokenId id) {
    std::vector<TokenId> merged;
    bool ignored = false;
    merge_chars(chunk, merged, ignored);
    return merged.size() == 1 && merged[0] == id;
  });
  if (whole == kNoToken) return merge_chars(chunk, out, after_unknown);
  out.push_back(whole);
  after_unknown = false;
}

void SentencePieceBpe::merge_chars(std::string_view chunk, std::vector<TokenId>& out, bool& after_unknown) const {
  Symbols symbols{*this, chunk, {}, {}};
  for (size_t at = 0; at < chunk.size();) {
    symbols.begin.push_back(at);
    at += decode_utf8(chunk.substr(at)).bytes;
    symbols.end.push_back(at);
  }
  const int32_t n = static_cast<int32_t>(symbols.begin.size());
  std::vector<int32_t> next;
  merge_symbols(symbols, n, next);
  for (int32_t i = 0; i < n; i = next[static_cast<size_t>(i)]) {
    const std::string_view piece = symbols.part(i, i);
    const TokenId id = table_.find(piece);
    if (id == kNoToken) {
      append_unknown(piece, out, after_unknown);
    } else {
      out.push_back(id);
      after_unknown = false;
    }
  }
}

}  // namespace pagoda::text
