#include "text/sentencepiece_unigram.h"

#include <algorithm>
#include <limits>

#include "text/unicode.h"

namespace pagoda::text {
namespace {

constexpr float kUnknownPenalty = 10.f;

std::vector<std::pair<std::string_view, int32_t>> trie_entries(const TokenTable& table) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (TokenId id = 0; id < table.size(); ++id)
    if (table.ordinary(id) && table.type(id) != TokenType::kUnused) entries.emplace_back(table.bytes(id), id);
  return entries;
}

// The best way to a place in the text.
struct Node {
  float score = 0;
  uint32_t from = kNowhere;
  TokenId id = kNoToken;  // of the last token; kNoToken for an unknown character
  static constexpr uint32_t kNowhere = 0xFFFFFFFF;
};

void offer(Node& node, float score, size_t from, TokenId id) {
  if (node.from == Node::kNowhere || score > node.score) node = {score, static_cast<uint32_t>(from), id};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> SentencePieceUnigram::create(VocabSpec spec) {
  std::unique_ptr<SentencePieceUnigram> unigram(new SentencePieceUnigram(std::move(spec)));
  PAGODA_TRY_STATUS(unigram->load());
  float worst = 0, best = std::numeric_limits<float>::lowest();
  bool any = false;
  for (TokenId id = 0; id < unigram->size(); ++id) {
    if (unigram->table_.type(id) != TokenType::kNormal) continue;
    const float score = unigram->spec_.scores[static_cast<size_t>(id)];
    worst = any ? std::min(worst, score) : score;
    best = std::max(best, score);
    any = true;
  }
  unigram->unknown_score_ = worst - kUnknownPenalty;
  unigram->best_score_ = any ? best : 0;
  return std::unique_ptr<Tokenizer>(std::move(unigram));
}

SentencePieceUnigram::SentencePieceUnigram(VocabSpec spec)
    : SentencePieceTokenizer(std::move(spec)), trie_(trie_entries(table_)) {}

void SentencePieceUnigram::encode_chunk(std::string_view chunk, std::vector<TokenId>& out) const {
  std::vector<Node> nodes(chunk.size() + 1);
  nodes[0].from = 0;
  for (size_t at = 0; at < chunk.size();) {
    const size_t one_char = decode_utf8(chunk.substr(at)).bytes;
    const float here = nodes[at].score;
    bool covered = false;  // does a token cover exactly one character?
    int32_t node = TokenTrie::kRoot;
    for (size_t end = at; end < chunk.size();) {
      node = trie_.child(node, chunk[end++]);
      if (node == TokenTrie::kNone) break;
      const TokenId id = trie_.value(node);
      if (id == TokenTrie::kNone) continue;
      const float length = static_cast<float>(end - at);
      const bool user_defined = table_.type(id) == TokenType::kUserDefined;
      offer(nodes[end], here + (user_defined ? length * best_score_ - 0.1f : spec_.scores[static_cast<size_t>(id)]), at,
            id);
      covered = covered || end - at == one_char;
    }
    if (!covered) offer(nodes[at + one_char], here + unknown_score_, at, kNoToken);
    at += one_char;
  }
  std::vector<size_t> ends;
  for (size_t end = chunk.size(); end > 0; end = nodes[end].from) ends.push_back(end);
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    const Node& last = nodes[*end];
    if (last.id == kNoToken) {
      append_unknown(chunk.substr(last.from, *end - last.from), out);
    } else {
      out.push_back(last.id);
    }
  }
}

}  // namespace pagoda::text
