// Filters, penalties and masks of truncation.h and repetition.h against plain versions in double, and through sample().
#include "sampling/truncation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "sampling/repetition.h"
#include "sampling/sampler.h"

namespace pagoda::sampling {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

class TruncationTest : public ::testing::Test {
 protected:
  static std::vector<float> some_logits(size_t size, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.f, 3.f);
    std::vector<float> logits(size);
    for (float& x : logits) x = normal(random);
    for (size_t i = 0; i < size; i += 7) logits[i] = kMinusInfinity;
    return logits;
  }
  static float largest(const std::vector<float>& logits) { return *std::max_element(logits.begin(), logits.end()); }
  static std::vector<double> softmax(const std::vector<float>& logits, double temperature = 1) {
    const double best = largest(logits);
    std::vector<double> p;
    double total = 0;
    for (const float x : logits) p.push_back(x == kMinusInfinity ? 0 : std::exp((x - best) / temperature));
    for (const double x : p) total += x;
    for (double& x : p) x /= total;
    return p;
  }
  static double entropy_of(const std::vector<double>& p) {
    double nats = 0;
    for (const double x : p) nats -= x > 0 ? x * std::log(x) : 0;
    return nats;
  }
  std::vector<float> weights_of(const std::vector<float>& logits) const {
    std::vector<float> weights = logits;
    for (float& x : weights) x -= largest(logits);
    ops_.exp_shifted(weights.data(), 0.f, weights.data(), static_cast<int64_t>(weights.size()));
    return weights;
  }

  /// Ids that some of `draws` seeds choose.
  std::set<TokenId> reachable(const std::vector<float>& logits, SamplingParams params,
                              std::vector<TokenId> history = {1, 2, 3}) {
    std::set<TokenId> ids;
    for (int i = 0; i < 3000; ++i) {
      params.seed = static_cast<uint64_t>(i);
      std::vector<float> copy = logits;
      auto token = sample(copy, params, {history, 0, 0}, ops_, scratch_);
      EXPECT_TRUE(token.ok());
      if (token.ok()) ids.insert(token.value().id);
    }
    return ids;
  }

  kernels::Ops ops_ = kernels::make_ops(isa::kNone);
  SamplerScratch scratch_{};
  std::vector<float> space_{};
};

TEST_F(TruncationTest, TypicalKeepsWhatIsNearestToTheEntropy) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> logits = some_logits(50, seed);
    const std::vector<double> p = softmax(logits);
    const double nats = entropy_of(p);
    for (const double mass : {0.05, 0.3, 0.7, 0.95}) {
      std::vector<std::pair<double, TokenId>> order;
      for (size_t i = 0; i < p.size(); ++i)
        if (p[i] > 0) order.emplace_back(std::fabs(-std::log(p[i]) - nats), static_cast<TokenId>(i));
      std::sort(order.begin(), order.end());
      std::vector<TokenId> kept;
      double sum = 0;
      for (const auto& [distance, id] : order) {
        if (!kept.empty() && sum >= mass) break;
        kept.push_back(id);
        sum += p[static_cast<size_t>(id)];
      }
      std::sort(kept.begin(), kept.end());
      EXPECT_EQ(typical_tokens(weights_of(logits), static_cast<float>(mass), ops_, space_), kept)
          << seed << " " << mass;
    }
  }
}

TEST_F(TruncationTest, SigmaFloorIsStandardDeviationsBelowTheBest) {
  const std::vector<float> logits = some_logits(500, 3);
  double sum = 0, squares = 0, n = 0;
  for (const float x : logits)
    if (x != kMinusInfinity) sum += x, ++n;
  for (const float x : logits)
    if (x != kMinusInfinity) squares += (x - sum / n) * (x - sum / n);
  EXPECT_NEAR(sigma_floor(logits, largest(logits), 1.5f), largest(logits) - 1.5 * std::sqrt(squares / n), 1e-4);
  const float floor = sigma_floor({{4.f, 3.5f, 0.f, 0.f, 0.f}}, 4.f, 0.5f);
  EXPECT_LT(floor, 3.5f);
  EXPECT_EQ(reachable({4.f, 3.5f, 0.f, 0.f, 0.f}, {.top_n_sigma = 0.5f}), (std::set<TokenId>{0, 1}));
}

TEST_F(TruncationTest, DynamicTemperatureGoesWithEntropy) {
  const std::vector<float> logits = some_logits(60, 5);
  const std::vector<double> p = softmax(logits);
  const double most = std::log(static_cast<double>(std::count_if(p.begin(), p.end(), [](double x) { return x > 0; })));
  SamplingParams params{.temperature = 0.8f, .dynatemp_range = 0.5f, .dynatemp_exponent = 2.f};
  const double share = entropy_of(p) / most;
  EXPECT_NEAR(dynamic_temperature(logits, largest(logits), params, ops_, space_), 0.3 + 1.0 * share * share, 1e-5);
  params.dynatemp_range = 0.f;
  EXPECT_EQ(dynamic_temperature(logits, largest(logits), params, ops_, space_), 0.8f);
  const std::vector<float> sure = {30.f, 0.f, kMinusInfinity};
  params.dynatemp_range = 2.f;
  EXPECT_NEAR(dynamic_temperature(sure, 30.f, params, ops_, space_), 0.f, 1e-3);
}

// Goal: XTC leaves out all tokens at or above the threshold but the least likely of them, as often as asked.
TEST_F(TruncationTest, XtcExcludesTopChoices) {
  const std::vector<float> p = {0.4f, 0.3f, 0.2f, 0.1f};
  SamplingParams params{.xtc_probability = 1.f, .xtc_threshold = 0.2f};
  EXPECT_EQ(xtc_left_out(p, {1, 2, 0}, params), 2u);
  params.xtc_threshold = 0.35f;
  EXPECT_EQ(xtc_left_out(p, {1, 2, 0}, params), 0u);  // the only one above stays
  params.xtc_threshold = 0.05f;
  EXPECT_EQ(xtc_left_out(p, {1, 2, 0}, params), 3u);
  params.xtc_probability = 0.25f;
  int left = 0;
  for (int position = 0; position < 4000; ++position) left += xtc_left_out(p, {7, position, 0}, params) > 0;
  EXPECT_NEAR(left, 1000, 110);  // four standard deviations
  const std::vector<float> logits = {2.f, 1.9f, 1.8f, -3.f};
  EXPECT_EQ(reachable(logits, {.xtc_probability = 1.f}), (std::set<TokenId>{2, 3}));
}

/// The longest repetition that each token would continue, by trying every place.
std::map<TokenId, size_t> dry_reference(const std::vector<TokenId>& history, const DryParams& dry) {
  const size_t from = dry.last_n < 0 || static_cast<size_t>(dry.last_n) > history.size()
                          ? 0
                          : history.size() - static_cast<size_t>(dry.last_n);
  std::map<TokenId, size_t> lengths;
  for (size_t next = from + 1; next < history.size(); ++next) {
    size_t length = 0;
    while (next > from + length) {
      const TokenId last = history[history.size() - 1 - length];
      if (history[next - 1 - length] != last) break;
      if (std::find(dry.breakers.begin(), dry.breakers.end(), last) != dry.breakers.end()) break;
      ++length;
    }
    if (length >= static_cast<size_t>(dry.allowed_length) && length > 0)
      lengths[history[next]] = std::max(lengths[history[next]], length);
  }
  return lengths;
}

TEST_F(TruncationTest, DryPunishesTheLongestRepetition) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<TokenId> history(random() % 60);
    for (TokenId& id : history) id = static_cast<TokenId>(random() % 4);
    SamplingParams params;
    params.dry = {.multiplier = 0.7f, .base = 1.5f, .allowed_length = static_cast<int32_t>(random() % 4)};
    params.dry.last_n = round % 3 == 0 ? static_cast<int32_t>(random() % 40) : -1;
    if (round % 2 == 0) params.dry.breakers = {3};
    std::vector<float> logits(6, 1.f);
    EXPECT_TRUE(punish_repetition(logits, params, {history, 0, 0}));
    const auto lengths = dry_reference(history, params.dry);
    for (TokenId id = 0; id < 6; ++id) {
      const auto found = lengths.find(id);
      const double penalty = found == lengths.end()
                                 ? 0
                                 : 0.7 * std::pow(1.5, static_cast<double>(found->second) - params.dry.allowed_length);
      EXPECT_NEAR(logits[static_cast<size_t>(id)], 1 - penalty, 1e-4 * (1 + penalty)) << round << " " << id;
    }
  }
}

TEST_F(TruncationTest, MasksFollowTheHistory) {
  const std::vector<float> even(6, 0.f);
  EXPECT_EQ(reachable(even, {.no_repeat_ngram_size = 3}, {1, 2, 3, 5, 1, 2}), (std::set<TokenId>{0, 1, 2, 4, 5}));
  EXPECT_EQ(reachable(even, {.no_repeat_ngram_size = 1}, {1, 2, 3}), (std::set<TokenId>{0, 4, 5}));
  EXPECT_EQ(reachable(even, {.no_repeat_ngram_size = 9}, {1, 2, 3}).size(), 6u);
  EXPECT_EQ(reachable(even, {.bad_words = {{2, 3, 4}, {0}, {9}, {5, 1}}}, {1, 2, 3}), (std::set<TokenId>{1, 2, 3, 5}));
  EXPECT_EQ(reachable(even, {.allowed_token_ids = {4, 2}}), (std::set<TokenId>{2, 4}));
  std::vector<float> logits = even;
  EXPECT_FALSE(sample(logits, {.allowed_token_ids = {6}}, {{}, 0, 0}, ops_, scratch_).ok());
}

// Goal: case P07: penalties look at the last repeat_last_n tokens of prompt and output; 0 = none, -1 = all.
TEST_F(TruncationTest, PenaltiesHaveAWindow) {
  std::vector<TokenId> history(100);
  for (size_t i = 0; i < history.size(); ++i) history[i] = static_cast<TokenId>(i);
  for (const auto& [last_n, first] : std::map<int32_t, TokenId>{{0, 100}, {-1, 0}, {10, 90}, {1000, 0}}) {
    SamplingParams params{.temperature = 0.f, .repetition_penalty = 2.f, .repeat_last_n = last_n};
    for (const TokenId id : {0, 89, 90, 99}) {
      std::vector<float> logits(120, 0.f);
      logits[static_cast<size_t>(id)] = 3.f;
      logits[110] = 2.f;
      const auto token = sample(logits, params, {history, 40, 0}, ops_, scratch_);
      ASSERT_TRUE(token.ok());
      EXPECT_EQ(token.value().id, id >= first ? 110 : id) << last_n << " " << id;
    }
  }
}

// Goal: all of it gives the same bits on every machine.
TEST_F(TruncationTest, EveryIsaGivesTheSameChoices) {
  const kernels::Ops best = kernels::make_ops(isa::detected());
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SamplingParams params{.temperature = 1.1f,
                          .typical_p = 0.9f,
                          .top_n_sigma = 2.f,
                          .xtc_probability = 0.5f,
                          .dynatemp_range = 0.4f,
                          .seed = seed};
    const std::vector<float> logits = some_logits(3000, static_cast<uint32_t>(seed));
    std::vector<float> one = logits, two = logits;
    const auto a = sample(one, params, {{}, 0, 0}, ops_, scratch_);
    const auto b = sample(two, params, {{}, 0, 0}, best, scratch_);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a.value().id, b.value().id);
  }
}

}  // namespace
}  // namespace pagoda::sampling
