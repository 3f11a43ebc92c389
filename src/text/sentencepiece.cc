#include "text/sentencepiece.h"

#include <algorithm>
#include <cmath>

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

Status SentencePieceTokenizer::load() {
  if (spec_.scores.empty())
    return Error{Code::kCorruptFile, "tokenizer.ggml.scores is missing", "tokenizer.ggml.scores"};
  for (size_t i = 0; i < spec_.scores.size(); ++i)
    if (std::isnan(spec_.scores[i]))
      return Error{Code::kCorruptFile, "tokenizer.ggml.scores[" + std::to_string(i) + "] is not a number",
                   "tokenizer.ggml.scores"};
  PAGODA_TRY(charsmap_, Charsmap::parse(spec_.precompiled_charsmap));
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

// The steps of sentencepiece's normalizer, in its order.
std::string SentencePieceTokenizer::escape(std::string_view text, bool after_added) const {
  const std::string_view blank = spec_.escape_whitespaces ? kVisibleBlank : std::string_view(" ");
  const bool squeeze = spec_.remove_extra_whitespaces;
  std::string out;
  out.reserve(text.size() + text.size() / 2 + blank.size());
  if (spec_.add_space_prefix && after_added) out += blank;
  bool after_blank = squeeze;  // so that blanks at the start are surplus
  while (!text.empty()) {
    size_t consumed = 1;
    const std::string_view part = charsmap_.empty() ? text.substr(0, 1) : charsmap_.normalize_prefix(text, consumed);
    for (char c : part) {
      if (c == ' ' && after_blank) continue;
      after_blank = squeeze && c == ' ';
      if (c == ' ') {
        out += blank;
      } else {
        out += c;
      }
    }
    text.remove_prefix(consumed);
  }
  while (squeeze && out.ends_with(blank)) out.resize(out.size() - blank.size());
  return out;
}

// The next place where no token has these two neighbours, so that no token can reach across it: what lies between two
// such places is encoded on its own, with the same ids as the whole, and pieces stay as short as words.
size_t SentencePieceTokenizer::chunk_end(std::string_view text, size_t at) const {
  Utf8Char left = decode_utf8(text.substr(at));
  for (at += left.bytes; at < text.size();) {
    const Utf8Char right = decode_utf8(text.substr(at));
    if (!joined_.may_hold(left.code, right.code)) break;
    left = right;
    at += right.bytes;
  }
  return at;
}

void SentencePieceTokenizer::encode_text(std::string_view text, bool after_added, std::vector<TokenId>& out) const {
  const std::string escaped = escape(text, after_added);
  const size_t first = out.size();
  PieceCache cache(escaped);
  for (size_t at = 0; at < escaped.size();) {
    const size_t end = chunk_end(escaped, at);
    cache.append(std::string_view(escaped).substr(at, end - at), out,
                 [this](std::string_view chunk, std::vector<TokenId>& ids) { encode_chunk(chunk, ids); });
    at = end;
  }
  join_unknowns(first, out);
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

}  // namespace pagoda::text
