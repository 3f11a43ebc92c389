#include "sampling/beam_search.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "kernels/vector_math/vector_math.h"

namespace pagoda::sampling {
namespace {

/// length^penalty without libm: what is chosen must not depend on whose pow() it is.
double power(double length, float penalty) {
  if (penalty == 1.f) return length;
  if (penalty == 0.f) return 1.;
  return kernels::pow_f64(length, static_cast<double>(penalty));
}

}  // namespace

BeamSearch::BeamSearch(BeamParams params, int32_t answers, int32_t prompt_tokens, int32_t tokens_max, int32_t logprobs,
                       IsEnd is_end)
    : params_(params),
      answers_(static_cast<size_t>(answers)),
      prompt_tokens_(prompt_tokens),
      tokens_max_(tokens_max),
      logprobs_(static_cast<size_t>(std::max(logprobs, 0))),
      is_end_(std::move(is_end)),
      live_(1) {
  PAGODA_CHECK(answers >= 1 && answers <= params.width && tokens_max >= 1 && prompt_tokens >= 1);
}

double BeamSearch::score(double sum, int32_t tokens) const {
  return sum / power(static_cast<double>(prompt_tokens_ + tokens), params_.length_penalty);
}

void BeamSearch::close(Beam beam, bool at_end) {
  ++ends_;
  beam.at_end = at_end;
  beam.score = score(beam.sum, static_cast<int32_t>(beam.tokens.size()) - (at_end ? 1 : 0));
  const auto worse = [](const Beam& a, const Beam& b) { return a.score > b.score; };
  const auto place = std::upper_bound(ended_.begin(), ended_.end(), beam, worse);
  ended_.insert(place, std::move(beam));
  if (ended_.size() > answers_) ended_.pop_back();
}

/// Sums only fall. Where length forgives, the longest text is the best that a beam can become, else the shortest.
bool BeamSearch::decided() const {
  if (ended_.size() < answers_) return false;
  const int32_t kindest = params_.length_penalty > 0 ? tokens_max_ : length_;
  return score(live_.front().sum, kindest) <= ended_.back().score;
}

std::vector<BeamSearch::Child> BeamSearch::advance(std::span<const std::vector<TokenLogprob>> next) {
  PAGODA_CHECK(!over_ && next.size() == live_.size());
  struct Candidate {
    size_t parent;
    TokenLogprob token;
    double sum;
  };
  const auto child_of = [&](const Candidate& candidate) {
    Beam beam = live_[candidate.parent];
    const std::vector<TokenLogprob>& among = next[candidate.parent];
    const auto shown = among.begin() + static_cast<std::ptrdiff_t>(std::min(among.size(), logprobs_));
    beam.tokens.push_back(
        {.id = candidate.token.id, .logprob = candidate.token.logprob, .top = {among.begin(), shown}});
    beam.sum = candidate.sum;
    return beam;
  };
  std::vector<Candidate> going_on;
  for (size_t parent = 0; parent < live_.size(); ++parent) {
    const size_t count = std::min(next[parent].size(), static_cast<size_t>(candidates(params_.width)));
    for (const TokenLogprob& token : std::span(next[parent]).first(count)) {
      const Candidate candidate{parent, token, live_[parent].sum + static_cast<double>(token.logprob)};
      if (is_end_(token.id))
        close(child_of(candidate), true);
      else
        going_on.push_back(candidate);
    }
  }
  const auto kept = std::min(going_on.size(), static_cast<size_t>(params_.width));
  std::partial_sort(going_on.begin(), going_on.begin() + static_cast<std::ptrdiff_t>(kept), going_on.end(),
                    [](const Candidate& a, const Candidate& b) {
                      if (a.sum != b.sum) return a.sum > b.sum;
                      return a.token.id != b.token.id ? a.token.id < b.token.id : a.parent < b.parent;
                    });
  going_on.resize(kept);
  std::vector<Beam> children;
  std::vector<Child> born;
  for (const Candidate& candidate : going_on) {
    children.push_back(child_of(candidate));
    born.push_back({candidate.parent, candidate.token.id});
  }
  live_ = std::move(children);
  ++length_;
  if (length_ == tokens_max_)
    for (Beam& beam : std::exchange(live_, {})) close(std::move(beam), false);
  over_ = live_.empty() || (params_.early_stopping && ends_ >= params_.width) || decided();
  if (!over_) return born;
  // With early_stopping what lives still counts, as it is.
  if (params_.early_stopping)
    for (Beam& beam : std::exchange(live_, {})) close(std::move(beam), false);
  live_.clear();
  return {};
}

}  // namespace pagoda::sampling
