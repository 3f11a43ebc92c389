#include "text/sentencepiece_bpe.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "text/merge_symbols.h"
#include "text/piece_cache.h"
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

uint64_t pair_bit(uint32_t left, uint32_t right, size_t bits) { return hash_u64(uint64_t{left} << 32 | right) % bits; }

}  // namespace

void CharPairs::add(uint32_t left, uint32_t right) {
  if (left < 128 && right < 128) return static_cast<void>(ascii_.set(left * 128 + right));
  const uint64_t bit = pair_bit(left, right, kBits);
  others_[bit / 64] |= uint64_t{1} << bit % 64;
}

bool CharPairs::may_hold(uint32_t left, uint32_t right) const {
  if (left < 128 && right < 128) return ascii_[left * 128 + right];
  const uint64_t bit = pair_bit(left, right, kBits);
  return (others_[bit / 64] >> bit % 64 & 1) != 0;
}

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

void SentencePieceTokenizer::append_unknown(std::string_view piece, std::vector<TokenId>& out) const {
  for (char c : piece) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
    if (id != kNoToken) {
      out.push_back(id);
    } else if (spec_.unknown != kNoToken) {
      out.push_back(spec_.unknown);
    }
  }
}

void SentencePieceTokenizer::join_unknowns(size_t first, std::vector<TokenId>& out) const {
  if (spec_.unknown == kNoToken) return;
  const auto both_unknown = [this](TokenId a, TokenId b) { return a == spec_.unknown && b == spec_.unknown; };
  out.erase(std::unique(out.begin() + static_cast<ptrdiff_t>(first), out.end(), both_unknown), out.end());
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
    std::string_view token = table_.bytes(id);
    for (uint32_t left = kInvalid; !token.empty();) {
      const Utf8Char c = decode_utf8(token);
      if (left != kInvalid) joined_.add(left, c.code);
      left = c.code;
      token.remove_prefix(c.bytes);
    }
  }
}

// The next place where no token has these two neighbours, so that no merge can reach across it: what lies between two
// such places is encoded on its own, with the same ids as the whole, and pieces stay as short as words.
size_t SentencePieceBpe::chunk_end(std::string_view text, size_t at) const {
  Utf8Char left = decode_utf8(text.substr(at));
  for (at += left.bytes; at < text.size();) {
    const Utf8Char right = decode_utf8(text.substr(at));
    if (!joined_.may_hold(left.code, right.code)) break;
    left = right;
    at += right.bytes;
  }
  return at;
}

void SentencePieceBpe::encode_text(std::string_view text, bool after_added, std::vector<TokenId>& out) const {
  const std::string escaped = escape(text, after_added);
  const size_t first = out.size();
  PieceCache cache(escaped);
  for (size_t at = 0; at < escaped.size();) {
    const size_t end = chunk_end(escaped, at);
    const std::string_view chunk = std::string_view(escaped).substr(at, end - at);
    if (const TokenId whole = whole_chunk(chunk); whole != kNoToken) {
      out.push_back(whole);
    } else {
      cache.append(chunk, out, [this](std::string_view c, std::vector<TokenId>& ids) { merge_chars(c, ids); });
    }
    at = end;
  }
  join_unknowns(first, out);
}

TokenId SentencePieceBpe::whole_chunk(std::string_view chunk) const {
  return whole_token(chunk, [&](TokenId id) {
    std::vector<TokenId> merged;
    merge_chars(chunk, merged);
    return merged.size() == 1 && merged[0] == id;
  });
}

void SentencePieceBpe::merge_chars(std::string_view chunk, std::vector<TokenId>& out) const {
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
      append_unknown(piece, out);
    } else {
      out.push_back(id);
    }
  }
}

}  // namespace pagoda::text
