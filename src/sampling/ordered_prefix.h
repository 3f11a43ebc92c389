#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/ids.h"

namespace pagoda::sampling {

/// The vocabulary in the order of every filter, (logit descending, id ascending), produced only as far as somebody
/// looks: a full sort of 150k logits would cost ten times the draw.
///
/// A first look takes the logits within a few units of the maximum, which is mostly enough. A deeper one counts all
/// others into narrow bands once, and then collects only as many bands as hold what is asked for. Logits of -inf are
/// masked and never appear. The logits must hold no NaN and outlive the object unchanged. Cost: a pass over [V] for the
/// first look, three for a deeper one, and the sort of what was looked at.
class OrderedPrefix {
 public:
  struct Storage {
    std::vector<uint64_t> keys;  // ascending keys are the order: see key_of() in ordered_prefix.cc
    std::vector<uint8_t> bands;  // [V]
  };

  /// `maximum` is the largest logit, finite; `scale` > 0 stretches the bands (the temperature). `storage` is scratch
  /// that is reused between calls.
  OrderedPrefix(std::span<const float> logits, float maximum, float scale, Storage& storage);

  /// Puts the first min(n, what is there) in order and returns how many are.
  size_t extend(size_t n);
  TokenId id(size_t i) const { return static_cast<TokenId>(storage_.keys[i] & 0xFFFFFFFFu); }
  float logit(size_t i) const { return logits_[static_cast<size_t>(id(i))]; }

 private:
  static constexpr size_t kBands = 192;  // the last takes all that lie deeper, masked ones included

  void gather_top();
  void count_bands();
  void gather_bands(size_t n);

  std::span<const float> logits_;
  float maximum_;
  float scale_;
  Storage& storage_;
  float top_floor_ = 0.f;  // everything at or above is in storage_.keys
  std::array<uint32_t, kBands> in_band_{};
  size_t next_band_ = 0;  // bands below it are in storage_.keys
  enum class Stage { kNothing, kTop, kBands } stage_ = Stage::kNothing;
  size_t ordered_ = 0;  // of storage_.keys, from its begin
};

}  // namespace pagoda::sampling
