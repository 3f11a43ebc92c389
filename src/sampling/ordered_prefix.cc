#include "sampling/ordered_prefix.h"

#include <algorithm>
#include <limits>

namespace pagoda::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kFirstBand = 4.f;     // e^-4 below the best: holds a typical top-k of 20
constexpr float kDeepestBand = 64.f;  // below it, one last band takes the rest

bool before(const std::pair<float, TokenId>& a, const std::pair<float, TokenId>& b) {
  return a.first > b.first || (a.first == b.first && a.second < b.second);
}

}  // namespace

OrderedPrefix::OrderedPrefix(std::span<const float> logits, float maximum, float scale,
                             std::vector<std::pair<float, TokenId>>& storage)
    : logits_(logits),
      maximum_(maximum),
      scale_(scale),
      storage_(storage),
      band_floor_(kInfinity),
      band_width_(kFirstBand) {
  storage_.clear();
}

void OrderedPrefix::gather_next_band() {
  const float ceiling = band_floor_;
  const bool last = band_width_ > kDeepestBand;
  const float floor = last ? -kInfinity : maximum_ - band_width_ * scale_;
  for (size_t i = 0; i < logits_.size(); ++i) {
    const float logit = logits_[i];
    if (logit >= floor && logit < ceiling && logit > -kInfinity) storage_.emplace_back(logit, static_cast<TokenId>(i));
  }
  band_floor_ = floor;
  band_width_ *= 2.f;
  complete_ = floor == -kInfinity;  // also when scale_ is so large that the band reached the bottom
}

size_t OrderedPrefix::extend(size_t n) {
  while (storage_.size() < n && !complete_) gather_next_band();
  const size_t end = std::min(n, storage_.size());
  if (end > ordered_) {
    const auto at = [this](size_t i) { return storage_.begin() + static_cast<std::ptrdiff_t>(i); };
    // Later bands lie wholly below earlier ones, so only the unordered tail takes part.
    if (end < storage_.size()) std::nth_element(at(ordered_), at(end), storage_.end(), before);
    std::sort(at(ordered_), at(end), before);
    ordered_ = end;
  }
  return end;
}

}  // namespace pagoda::sampling
