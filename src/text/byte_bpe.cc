#include "text/byte_bpe.h"

#include "text/piece_cache.h"
#include "text/unicode.h"

namespace pagoda::text {

struct ByteBpe::Symbols {
  const ByteBpe& bpe;
  std::vector<TokenId> ids;

  const Merge* find(int32_t i, int32_t j) const {
    const uint64_t left = static_cast<uint32_t>(ids[static_cast<size_t>(i)]);
    return bpe.merges_.find(left << 32 | static_cast<uint32_t>(ids[static_cast<size_t>(j)]));
  }
  uint32_t rank(int32_t i, int32_t j) const {
    const Merge* merge = find(i, j);
    return merge == nullptr ? kNoMerge : merge->rank;
  }
  void merge(int32_t i, int32_t j) { ids[static_cast<size_t>(i)] = find(i, j)->id; }
};

Result<std::unique_ptr<Tokenizer>> ByteBpe::create(VocabSpec spec) {
  PAGODA_TRY(PreTokenizer pre, find_pre_tokenizer(spec.pre));
  std::unique_ptr<ByteBpe> bpe(new ByteBpe(std::move(spec), std::move(pre)));
  PAGODA_TRY_STATUS(bpe->load_merges());
  return std::unique_ptr<Tokenizer>(std::move(bpe));
}

ByteBpe::ByteBpe(VocabSpec spec, PreTokenizer pre)
    : BaseTokenizer(std::move(spec), TokenTable::Spelling::kByteAlphabet),
      pre_(std::move(pre)),
      merges_(spec_.merges.size()) {
  for (size_t b = 0; b < byte_ids_.size(); ++b) {
    const char byte = static_cast<char>(b);
    byte_ids_[b] = table_.find({&byte, 1});
  }
}

Status ByteBpe::load_merges() {
  std::string bytes;
  TokenId merged = kNoToken;
  for (size_t i = 0; i < spec_.merges.size(); ++i) {
    const std::string_view merge = spec_.merges[i];
    const auto corrupt = [&](const std::string& why) {
      return Error{Code::kCorruptFile, "merge " + std::to_string(i) + " " + why, "tokenizer.ggml.merges"};
    };
    const size_t blank = merge.find(' ', 1);  // the alphabet has no blank
    if (blank == std::string_view::npos || blank + 1 == merge.size()) return corrupt("is not two tokens");
    bytes.clear();
    if (!append_alphabet_bytes(merge.substr(0, blank), bytes)) bytes.append(merge.substr(0, blank));
    const size_t left_bytes = bytes.size();
    if (!append_alphabet_bytes(merge.substr(blank + 1), bytes)) bytes.append(merge.substr(blank + 1));
    const std::string_view whole = bytes;
    const TokenId left = table_.find(whole.substr(0, left_bytes)), right = table_.find(whole.substr(left_bytes));
    // Trained vocabularies list tokens in the order of their merges: the next id is nearly always the one, and
    // comparing is cheaper than a look-up in a table that does not fit the cache.
    const TokenId next = merged + 1;
    merged = next < size() && table_.ordinary(next) && table_.bytes(next) == whole ? next : table_.find(whole);
    if (left == kNoToken || right == kNoToken || merged == kNoToken)
      return corrupt("names a token that is not in the vocabulary");
    merges_.add(uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right),
                {static_cast<uint32_t>(i), merged});
  }
  spec_.merges = {};  // the map holds them now
  return ok_status();
}

void ByteBpe::encode_text(std::string_view text, bool /*after_added*/, std::vector<TokenId>& out) const {
  std::string composed;
  if (pre_.nfc) {
    composed = nfc(text);
    text = composed;
  }
  Splitter splitter(pre_, text);
  PieceCache cache(text);
  for (std::string_view piece = splitter.next(); !piece.empty(); piece = splitter.next()) {
    if (const TokenId whole = whole_piece(piece); whole != kNoToken) {
      out.push_back(whole);
    } else {
      cache.append(piece, out, [this](std::string_view p, std::vector<TokenId>& ids) { merge_bytes(p, ids); });
    }
  }
}

TokenId ByteBpe::whole_piece(std::string_view piece) const {
  return whole_token(piece, [&](TokenId id) {
    if (pre_.ignore_merges) return true;
    std::vector<TokenId> merged;
    merge_bytes(piece, merged);
    return merged.size() == 1 && merged[0] == id;
  });
}

void ByteBpe::merge_bytes(std::string_view piece, std::vector<TokenId>& out) const {
  Symbols symbols{*this, {}};
  symbols.ids.reserve(piece.size());
  for (char c : piece) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
    if (id != kNoToken) {
      symbols.ids.push_back(id);
      continue;
    }
    // A byte without a token is never part of well-formed text in the vocabularies we know: it is read as U+FFFD.
    for (char r : kReplacement)
      if (const TokenId part = byte_ids_[static_cast<uint8_t>(r)]; part != kNoToken) symbols.ids.push_back(part);
  }
  if (symbols.ids.empty()) return;
  const int32_t n = static_cast<int32_t>(symbols.ids.size());
  std::vector<int32_t> next;
  merge_symbols(symbols, n, next);
  for (int32_t i = 0; i < n; i = next[static_cast<size_t>(i)]) out.push_back(symbols.ids[static_cast<size_t>(i)]);
}

}  // namespace pagoda::text
