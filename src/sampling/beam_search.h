#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "sampling/params.h"

namespace pagoda::sampling {

/// One text under search: tokens after the prompt, each with the logprobs it was chosen among.
struct Beam {
  std::vector<SampledToken> tokens{};
  double sum = 0;       // of their logprobs, in their order
  double score = 0;     // sum / length^length_penalty, once the text is over
  bool at_end = false;  // its last token is an end id; else it ran into the length
};

/// Beam search over the raw distribution: whoever runs the model brings the likeliest next tokens of every live beam,
/// and gets the beams that live on. Which texts come out depends on the request alone.
///
/// Each step takes the 2 width likeliest tokens of each beam. An end id closes a copy of the beam; of the others the
/// `width` with the highest sums live on, ties to the lowest token id, then to the better parent. The search is over at
/// `tokens_max`, which closes all live beams, when nobody lives, with early_stopping once `width` texts have ended, and
/// as soon as no live beam can come among the best `answers` any more, which changes nothing of what comes out.
///
/// Source: vLLM beam_search.py and entrypoints/openai (scores count the prompt's tokens, and no end id), after Hugging
/// Face's beam_search.py; the stop when nobody can win is theirs too (early_stopping "never").
class BeamSearch {
 public:
  using IsEnd = std::function<bool(TokenId)>;
  /// 1 <= answers <= params.width, tokens_max >= 1. `logprobs`: so many of the likeliest stay with each token.
  BeamSearch(BeamParams params, int32_t answers, int32_t prompt_tokens, int32_t tokens_max, int32_t logprobs,
             IsEnd is_end);

  /// What each live beam's candidates must hold: so many of the likeliest, if the vocabulary has them.
  static int32_t candidates(int32_t width) { return 2 * width; }
  /// The one at first: nothing after the prompt. In step with what advance() returned last.
  const std::vector<Beam>& live() const { return live_; }

  struct Child {
    size_t parent;  // index in what was live()
    TokenId token;
  };
  /// `next[i]`: the likeliest tokens of live()[i], logprob descending, ties to the lower id. Returns live() by their
  /// parents, best first; nothing when the search is over.
  std::vector<Child> advance(std::span<const std::vector<TokenLogprob>> next);
  bool over() const { return over_; }
  /// The best `answers` or fewer, best first, ties to the one that ended first. After over().
  const std::vector<Beam>& answers() const { return ended_; }

 private:
  double score(double sum, int32_t tokens) const;
  void close(Beam beam, bool at_end);
  bool decided() const;

  const BeamParams params_;
  const size_t answers_;
  const int32_t prompt_tokens_;
  const int32_t tokens_max_;
  const size_t logprobs_;
  const IsEnd is_end_;
  std::vector<Beam> live_;
  std::vector<Beam> ended_;  // the best `answers_`
  int64_t ends_ = 0;
  int32_t length_ = 0;  // tokens of each live beam
  bool over_ = false;
};

}  // namespace pagoda::sampling
