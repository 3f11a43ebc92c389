#include "text/sentencepiece_bpe.h"

#include <bit>
#include <unordered_map>

#include "text/merge_symbols.h"
#include "text/unicode.h"

namespace pagoda::text {
namespace {

// Falls as the score rises, so that the lowest rank is the best score; NaN was refused at load, + 0 makes -0 equal 0.
uint32_t rank_of_score(float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.f);
  const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

}  // namespace

struct SentencePieceBpe::Symbols {
  const SentencePieceBpe& bpe;
  std::string_view text;
  std::vector<uint32_t> begin{};  // [n]: bytes of the text that symbol i covers
  std::vector<uint32_t> end{};
  std::unordered_map<uint64_t, uint32_t> seams{};  // begin << 32 | end of an unused token -> where it was joined

  std::string_view part(int32_t i, int32_t j) const {
    const uint32_t from = begin[static_cast<size_t>(i)];
    return text.substr(from, end[static_cast<size_t>(j)] - from);
  }
  uint32_t rank(int32_t i, int32_t j) const {
    const TokenId id = bpe.table_.find(part(i, j));
    return id == kNoToken ? kNoMerge : rank_of_score(bpe.spec_.scores[static_cast<size_t>(id)]);
  }
  void merge(int32_t i, int32_t j) {
    const uint32_t seam = end[static_cast<size_t>(i)];
    end[static_cast<size_t>(i)] = end[static_cast<size_t>(j)];
    if (bpe.table_.type(bpe.table_.find(part(i, i))) == TokenType::kUnused)
      seams.emplace(uint64_t{begin[static_cast<size_t>(i)]} << 32 | end[static_cast<size_t>(i)], seam);
  }

  // Appends the id of bytes [from, to). An unused token only helps merging: it falls apart again into what it was made
  // of.
  void emit(uint32_t from, uint32_t to, std::vector<TokenId>& out) const {
    std::vector<std::pair<uint32_t, uint32_t>> todo{{from, to}};
    while (!todo.empty()) {
      const auto [left, right] = todo.back();
      todo.pop_back();
      const std::string_view piece = text.substr(left, right - left);
      const TokenId id = bpe.table_.find(piece);
      const auto seam = seams.find(uint64_t{left} << 32 | right);
      if (id == kNoToken) {
        bpe.append_unknown(piece, out);
      } else if (seam == seams.end()) {
        out.push_back(id);
      } else {
        todo.emplace_back(seam->second, right);
        todo.emplace_back(left, seam->second);
      }
    }
  }
};

Result<std::unique_ptr<Tokenizer>> SentencePieceBpe::create(VocabSpec spec) {
  std::unique_ptr<SentencePieceBpe> bpe(new SentencePieceBpe(std::move(spec)));
  PAGODA_TRY_STATUS(bpe->load());
  return std::unique_ptr<Tokenizer>(std::move(bpe));
}

void SentencePieceBpe::encode_chunk(std::string_view chunk, std::vector<TokenId>& out) const {
  const TokenId whole = whole_token(chunk, [&](TokenId id) {
    std::vector<TokenId> merged;
    merge_chars(chunk, merged);
    return merged.size() == 1 && merged[0] == id;
  });
  if (whole == kNoToken) return merge_chars(chunk, out);
  out.push_back(whole);
}

void SentencePieceBpe::merge_chars(std::string_view chunk, std::vector<TokenId>& out) const {
  Symbols symbols{*this, chunk};
  for (size_t at = 0; at < chunk.size();) {
    symbols.begin.push_back(static_cast<uint32_t>(at));
    at += decode_utf8(chunk.substr(at)).bytes;
    symbols.end.push_back(static_cast<uint32_t>(at));
  }
  const int32_t n = static_cast<int32_t>(symbols.begin.size());
  std::vector<int32_t> next;
  merge_symbols(symbols, n, next);
  for (int32_t i = 0; i < n; i = next[static_cast<size_t>(i)])
    symbols.emit(symbols.begin[static_cast<size_t>(i)], symbols.end[static_cast<size_t>(i)], out);
}

}  // namespace pagoda::text
