#include "sampling/ordered_prefix.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace pagoda::sampling {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr float kTopUnits = 4.f;      // holds a typical top 20
constexpr float kBandsPerUnit = 8.f;  // an eighth of scale each: 24 units deep, where weights are below e^-24

constexpr float kBandsPerLogitMax = 1e30f;  // 0 times infinity would be NaN
constexpr size_t kTables = 4;  // neighbours often share a band: separate counters do not wait for each other

/// Smaller for a larger logit, then for a smaller id; -0 counts as 0.
uint64_t key_of(float logit, size_t id) {
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.f);
  const uint32_t descending = (bits >> 31) != 0 ? bits : ~bits & 0x7FFFFFFFu;
  return (uint64_t{descending} << 32) | id;
}

}  // namespace

OrderedPrefix::OrderedPrefix(std::span<const float> logits, float maximum, float scale, Storage& storage)
    : logits_(logits), maximum_(maximum), scale_(scale), storage_(storage) {
  storage_.keys.clear();
}

void OrderedPrefix::gather_top() {
  top_floor_ = maximum_ - kTopUnits * scale_;
  for (size_t i = 0; i < logits_.size(); ++i)
    if (logits_[i] >= top_floor_ && logits_[i] > kMasked) storage_.keys.push_back(key_of(logits_[i], i));
}

/// Larger logits never get a larger band, because each rounding is monotone: so the bands' order is the logits'.
void OrderedPrefix::count_bands() {
  storage_.bands.resize(logits_.size());
  const float bands_per_logit = std::min(kBandsPerUnit / scale_, kBandsPerLogitMax);
  constexpr float kLast = static_cast<float>(kBands - 1);
  std::array<std::array<uint32_t, kBands>, kTables> tables{};
  for (size_t i = 0; i < logits_.size(); ++i) {
    const float depth = (maximum_ - logits_[i]) * bands_per_logit;
    const auto band = static_cast<uint8_t>(static_cast<int32_t>(std::min(depth, kLast)));
    storage_.bands[i] = band;
    ++tables[i % kTables][band];
  }
  for (const auto& table : tables)
    for (size_t band = 0; band < kBands; ++band) in_band_[band] += table[band];
}

void OrderedPrefix::gather_bands(size_t n) {
  const size_t first = next_band_;
  size_t expected = 0;  // too high by what gather_top() took: at worst one more turn
  while (storage_.keys.size() + expected < n && next_band_ < kBands) expected += in_band_[next_band_++];
  for (size_t i = 0; i < logits_.size(); ++i) {
    const size_t band = storage_.bands[i];
    if (band < first || band >= next_band_) continue;
    if (logits_[i] < top_floor_ && logits_[i] > kMasked) storage_.keys.push_back(key_of(logits_[i], i));
  }
}

size_t OrderedPrefix::extend(size_t n) {
  if (stage_ == Stage::kNothing) {
    gather_top();
    stage_ = Stage::kTop;
  }
  if (stage_ == Stage::kTop && storage_.keys.size() < n) {
    count_bands();
    stage_ = Stage::kBands;
  }
  while (storage_.keys.size() < n && next_band_ < kBands) gather_bands(n);

  const size_t end = std::min(n, storage_.keys.size());
  if (end <= ordered_) return ordered_;
  const auto at = [this](size_t i) { return storage_.keys.begin() + static_cast<std::ptrdiff_t>(i); };
  // What was gathered later lies wholly below what was there, so only the unordered tail takes part.
  if (end < storage_.keys.size()) std::nth_element(at(ordered_), at(end), storage_.keys.end());
  std::sort(at(ordered_), at(end));
  ordered_ = end;
  return end;
}

}  // namespace pagoda::sampling
