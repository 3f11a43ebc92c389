#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/ids.h"

namespace pagoda::sampling {

/// The vocabulary in the order of every filter, (logit descending, id ascending), produced only as far as somebody
/// looks: a full sort of 150k logits would cost ten times the draw.
///
/// Logits of -inf are masked and never appear. The logits must hold no NaN and outlive the object unchanged.
/// Cost: one scan of [V] per band of logits (mostly one or two), and a selection among what they held.
class OrderedPrefix {
 public:
  /// `maximum` is the largest logit; `scale` > 0 the width of the first bands, in logits (the temperature).
  /// `storage` is scratch that is reused between calls.
  OrderedPrefix(std::span<const float> logits, float maximum, float scale,
                std::vector<std::pair<float, TokenId>>& storage);

  /// Puts the first min(n, what is there) in order and returns how many are.
  size_t extend(size_t n);
  TokenId id(size_t i) const { return storage_[i].second; }
  float logit(size_t i) const { return storage_[i].first; }

 private:
  void gather_next_band();

  std::span<const float> logits_;
  float maximum_;
  float scale_;
  std::vector<std::pair<float, TokenId>>& storage_;
  float band_floor_;  // everything at or above is in storage_
  float band_width_;  // of the next band, in units of scale_
  bool complete_ = false;
  size_t ordered_ = 0;
};

}  // namespace pagoda::sampling
