#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "sampling/noise.h"

namespace pagoda::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class SamplerTest : public ::testing::Test {
 protected:
  SampledToken draw(std::vector<float> logits, const SamplingParams& params, std::vector<TokenId> history = {1, 2, 3},
                    int32_t prompt_tokens = 3, int32_t sample_index = 0) {
    auto token = sample(logits, params, {history, prompt_tokens, sample_index}, ops_, scratch_);
    EXPECT_TRUE(token.ok()) << token.error().message;
    return token.ok() ? std::move(token).take() : SampledToken{};
  }

  /// Ids that some of `draws` seeds choose.
  std::set<TokenId> reachable(const std::vector<float>& logits, SamplingParams params, int draws = 4000) {
    std::set<TokenId> ids;
    for (int i = 0; i < draws; ++i) {
      params.seed = static_cast<uint64_t>(i);
      ids.insert(draw(logits, params).id);
    }
    return ids;
  }

  static std::vector<float> random_logits(int32_t size, uint32_t seed, float spread = 3.f) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal(0.f, spread);
    std::vector<float> logits(static_cast<size_t>(size));
    for (float& x : logits) x = normal(rng);
    return logits;
  }

  kernels::Ops ops_ = kernels::make_ops(isa::kNone);
  SamplerScratch scratch_;
};

/// The filters written down plainly, in double: ids kept, in order.
std::vector<TokenId> kept_reference(const std::vector<float>& logits, const SamplingParams& params) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  const double best = logits[order[0]];
  double total = 0;
  for (const float x : logits) total += std::exp((x - best) / params.temperature);
  std::vector<TokenId> kept;
  double cumulative = 0;
  for (const TokenId id : order) {
    if (params.top_k > 0 && kept.size() == static_cast<size_t>(params.top_k)) break;
    const double weight = std::exp((logits[id] - best) / params.temperature);
    if (weight < params.min_p || logits[id] == -kInfinity) break;
    kept.push_back(id);
    cumulative += weight / total;
    if (params.top_p < 1 && cumulative >= params.top_p) break;
  }
  return kept;
}

/// Argmax of logit/T + noise in double over the kept ids, with the noise of noise.h: what sample() must choose.
TokenId choice_reference(const std::vector<float>& logits, const SamplingParams& params, int32_t position) {
  TokenId chosen = kNoToken;
  double best = -std::numeric_limits<double>::infinity();
  for (const TokenId id : kept_reference(logits, params)) {
    const uint32_t word = noise_words({params.seed, position, 0}, id / 4)[static_cast<size_t>(id % 4)];
    const double score = logits[id] / static_cast<double>(params.temperature) - std::log(-std::log1p(-variate(word)));
    if (score > best) {
      best = score;
      chosen = id;
    }
  }
  return chosen;
}

// Goal: noise never reaches 0 or 1 and is right to f32 accuracy in both tails.
// Method: the extreme words, and 100,000 others against double.
TEST(Noise, IsFiniteAndAccurate) {
  EXPECT_EQ(variate(0), kVariateMin);
  EXPECT_LT(variate(0xFFFFFFFFu), 1.f);
  for (const uint32_t word : {0u, 1u, 0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFEu, 0xFFFFFFFFu})
    EXPECT_TRUE(std::isfinite(gumbel(variate(word)))) << word;
  std::mt19937 rng(20261129);
  for (int i = 0; i < 100000; ++i) {
    const float v = variate(rng() >> (rng() % 32));
    ASSERT_GE(exponential(v), v);
    ASSERT_NEAR(gumbel(v), -std::log(-std::log1p(-static_cast<double>(v))), 1e-4) << v;
  }
}

// Goal: draws follow softmax(logits / T). Method: chi-square over 24 tokens and 60,000 fixed seeds at three
// temperatures; 23 degrees of freedom exceed 49.7 with probability 0.001.
TEST_F(SamplerTest, DrawsFollowTheSoftmax) {
  const std::vector<float> logits = random_logits(24, 5, 1.f);
  for (const float temperature : {0.7f, 1.f, 1.8f}) {
    SamplingParams params{.temperature = temperature};
    constexpr int kDraws = 60000;
    std::vector<int> counts(logits.size(), 0);
    for (int i = 0; i < kDraws; ++i) {
      params.seed = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15ull;
      ++counts[static_cast<size_t>(draw(logits, params).id)];
    }
    double total = 0, chi_square = 0;
    for (const float x : logits) total += std::exp(x / temperature);
    for (size_t i = 0; i < logits.size(); ++i) {
      const double expected = kDraws * std::exp(logits[i] / temperature) / total;
      chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    EXPECT_LT(chi_square, 49.7) << temperature;
  }
}

// Goal: draws at successive positions of one seed are independent of each other and uniform for equal logits.
TEST_F(SamplerTest, PositionsOfOneSeedAreIndependent) {
  const std::vector<float> logits(8, 0.f);
  std::vector<int> pairs(64, 0);
  std::vector<TokenId> history;
  TokenId last = 0;
  constexpr int kDraws = 32000;
  for (int i = 0; i < kDraws; ++i) {
    history.push_back(1);
    const TokenId id = draw(logits, {.seed = 42}, history, 0).id;
    ++pairs[static_cast<size_t>(last * 8 + id)];
    last = id;
  }
  double chi_square = 0;
  for (const int count : pairs) chi_square += std::pow(count - kDraws / 64.0, 2) / (kDraws / 64.0);
  EXPECT_LT(chi_square, 103.4);  // 63 degrees of freedom, probability 0.001
}

// Goal: every combination of filters keeps what their definitions say and draws by Gumbel-max.
// Method: the reference above in double, over random logits, with ties, at several temperatures; a choice may differ
// only where two scores are closer than f32 resolves, which these seeds never hit.
TEST_F(SamplerTest, FiltersEqualThePlainReference) {
  std::mt19937 rng(77);
  for (int i = 0; i < 3000; ++i) {
    std::vector<float> logits = random_logits(1 + static_cast<int32_t>(rng() % 700), rng(), 2.f);
    for (float& x : logits) {
      if (rng() % 3 == 0) x = std::round(x);  // ties
      if (rng() % 50 == 0) x = -kInfinity;
    }
    logits[rng() % logits.size()] = 1.f;
    SamplingParams params;
    params.temperature = std::array{0.3f, 1.f, 2.5f}[rng() % 3];
    params.top_k = std::array{0, 2, 5, 40, 1000}[rng() % 5];
    params.top_p = std::array{1.f, 0.97f, 0.803f, 0.2f}[rng() % 4];
    params.min_p = std::array{0.f, 0.f, 0.051f, 0.4f}[rng() % 4];
    params.seed = rng();
    ASSERT_EQ(draw(logits, params).id, choice_reference(logits, params, 3))
        << i << " T=" << params.temperature << " k=" << params.top_k << " p=" << params.top_p << " m=" << params.min_p;
  }
}

// Goal: leaving candidates out early changes no choice at the size of a real vocabulary, peaked or flat.
TEST_F(SamplerTest, LargeVocabulariesEqualThePlainReference) {
  for (uint32_t i = 0; i < 12; ++i) {
    const std::vector<float> logits = random_logits(50003, i, std::array{0.f, 0.5f, 3.f}[i % 3]);
    SamplingParams params{.temperature = std::array{1.f, 0.8f}[i % 2], .seed = i};
    ASSERT_EQ(draw(logits, params).id, choice_reference(logits, params, 3)) << i;
    params.top_p = 0.95f;
    ASSERT_EQ(draw(logits, params).id, choice_reference(logits, params, 3)) << i;
  }
}

// Goal: case P01: tiny temperatures and top_p pick the best token and never meet NaN.
TEST_F(SamplerTest, TinyTemperatureAndTopP) {
  const std::vector<float> logits = {10.f, 9.f, -1e4f};
  for (const float temperature : {1e-7f, 1e-4f, 1e-30f, 1e-45f, 0.f})
    for (const float top_p : {1e-9f, 0.f, 1.f})
      for (uint64_t seed = 0; seed < 50; ++seed)
        EXPECT_EQ(draw(logits, {.temperature = temperature, .top_p = top_p, .seed = seed}).id, 0);
  EXPECT_EQ(reachable({1.f, 1.f, 0.f}, {.top_p = 0.f}, 100), std::set<TokenId>{0});
  EXPECT_EQ(reachable({3.f, -3e38f, 3e38f}, {.temperature = 1e-3f}, 100), std::set<TokenId>{2});
  EXPECT_EQ(reachable({1.f, 5.f}, {.temperature = 1e30f}, 200), (std::set<TokenId>{0, 1}));
}

// Goal: case P03: temperature 0 with any filter, and top_k 1 at any temperature, give the lowest id of the best.
TEST_F(SamplerTest, GreedyIsOneThing) {
  for (const auto& logits : {std::vector<float>{1, 7, 3, 7, 7}, std::vector<float>{0, 0, 0}, std::vector<float>{-5}}) {
    const auto best = static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    for (uint64_t seed = 0; seed < 20; ++seed) {
      for (const SamplingParams& params : {SamplingParams{.temperature = 0.f},
                                           {.temperature = 0.f, .top_p = 0.f},
                                           {.temperature = 0.f, .top_k = 7},
                                           {.temperature = 0.f, .min_p = 0.9f},
                                           {.temperature = 1.f, .top_k = 1},
                                           {.temperature = 5.f, .top_k = 1},
                                           {.temperature = 1.f, .top_p = 0.f}}) {
        SamplingParams seeded = params;
        seeded.seed = seed;
        EXPECT_EQ(draw(logits, seeded).id, best);
      }
    }
  }
}

// Goal: ties at the edge of top_k go to the lower ids.
TEST_F(SamplerTest, TopKCutsTiesById) {
  EXPECT_EQ(reachable({2, 1, 2, 2, 2}, {.top_k = 3}), (std::set<TokenId>{0, 2, 3}));
  EXPECT_EQ(reachable({1, 1, 1, 1}, {.top_k = 2}), (std::set<TokenId>{0, 1}));
}

// Goal: min_p is relative to the best token: exactly half its probability stays, a little less goes.
TEST_F(SamplerTest, MinPIsRelativeToTheBest) {
  const float half = -0.69314712f;  // a little more than half
  EXPECT_EQ(reachable({0.f, half, half - 0.001f, -3.f}, {.min_p = 0.5f}), (std::set<TokenId>{0, 1}));
  EXPECT_EQ(reachable({0.f, half, half - 0.001f, -3.f}, {.min_p = 1.f}), (std::set<TokenId>{0}));
  EXPECT_EQ(reachable({0.f, half, half - 0.001f, -3.f}, {.top_k = 3, .min_p = 0.5f}), (std::set<TokenId>{0, 1}));
  EXPECT_EQ(reachable({0.f, half, 0.f, -3.f}, {.top_k = 3, .min_p = 1.f}), (std::set<TokenId>{0, 2}));
}

// Goal: penalties and bias follow their definitions; case P07: the whole of prompt and output counts, each id once for
// repetition, and only the output for the other two.
TEST_F(SamplerTest, PenaltiesFollowTheirDefinitions) {
  const std::vector<float> logits = {4.f, -1.f, 3.f, 2.f, 0.5f};
  const std::vector<TokenId> history = {0, 1, 1, /* output */ 2, 2, 3};
  const SamplingParams params{.temperature = 0.f,
                              .repetition_penalty = 2.f,
                              .presence_penalty = 0.25f,
                              .frequency_penalty = 0.5f,
                              .logit_bias = {{4, 0.125f}, {0, 1.f}}};
  std::vector<float> work = logits;
  const auto token = sample(work, params, {history, 3, 0}, ops_, scratch_);
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(work, (std::vector<float>{(4.f + 1.f) / 2.f, -2.f, 1.5f - 1.f - 0.25f, 1.f - 0.5f - 0.25f, 0.625f}));
  EXPECT_EQ(token.value().id, 0);

  // A long history: the first and the last token count alike, and nothing stays behind in the scratch.
  std::vector<TokenId> long_history(1000, 1);
  long_history.front() = 0;
  long_history.back() = 2;
  EXPECT_EQ(draw(logits, {.temperature = 0.f, .repetition_penalty = 50.f}, long_history, 1000).id, 3);
  EXPECT_EQ(draw(logits, {.temperature = 0.f}, long_history, 1000).id, 0);
}

// Goal: suppressed ids cannot come before min_tokens, even when they are the whole rest of the distribution.
TEST_F(SamplerTest, MinTokensMasksEndings) {
  SamplingParams params{.temperature = 0.f, .suppressed_until_min_tokens = {1, 3}, .min_tokens = 2};
  const std::vector<float> logits = {0.f, 9.f, 1.f, 8.f};
  EXPECT_EQ(draw(logits, params, {5, 5}, 2).id, 2);
  EXPECT_EQ(draw(logits, params, {5, 5, 0}, 2).id, 2);
  EXPECT_EQ(draw(logits, params, {5, 5, 0, 0}, 2).id, 1);
  params.temperature = 1.f;
  params.top_k = 3;
  EXPECT_EQ(reachable(logits, params, 500), (std::set<TokenId>{0, 2}));
}

// Goal: only ids of the mask are chosen, also where it is shorter than the vocabulary; min_tokens gives way where the
// mask leaves nothing else; an empty mask's error is the caller's to tell.
TEST_F(SamplerTest, AMaskLeavesWhatItAllows) {
  const std::vector<float> logits = random_logits(200, 4);
  const std::vector<uint64_t> allowed = {uint64_t{1} << 3 | uint64_t{1} << 63, uint64_t{1} << 7};
  const std::vector<TokenId> history = {1, 2, 3};
  const auto drawn = [&](const SamplingParams& params, std::span<const uint64_t> mask) {
    std::vector<float> work = logits;
    const auto token = sample(work, params, {history, 3, 0, mask}, ops_, scratch_);
    return token.ok() ? token.value().id : kNoToken;
  };
  std::set<TokenId> ids;
  for (uint64_t seed = 0; seed < 500; ++seed) ids.insert(drawn({.temperature = 3.f, .seed = seed}, allowed));
  EXPECT_EQ(ids, (std::set<TokenId>{3, 63, 71}));
  const std::vector<TokenId> ends = {63, 71, 199};
  EXPECT_EQ(drawn({.temperature = 0.f, .suppressed_until_min_tokens = ends, .min_tokens = 2}, allowed), 3);
  const std::vector<uint64_t> only_end = {0, uint64_t{1} << 7};
  EXPECT_EQ(drawn({.temperature = 0.f, .suppressed_until_min_tokens = ends, .min_tokens = 2}, only_end), 71);
  EXPECT_EQ(drawn({.temperature = 0.f}, std::vector<uint64_t>{0}), kNoToken);
}

// Goal: logprobs are those of the untouched distribution, whatever bias, penalty, temperature or filter did.
TEST_F(SamplerTest, LogprobsAreRaw) {
  const std::vector<float> logits = random_logits(300, 9);
  double total = 0;
  for (const float x : logits) total += std::exp(static_cast<double>(x));
  SamplingParams params{.temperature = 0.5f, .top_k = 3, .logit_bias = {{17, 50.f}}, .logprobs = 5};
  const SampledToken token = draw(logits, params);
  EXPECT_EQ(token.id, 17);
  EXPECT_NEAR(token.logprob, logits[17] - std::log(total), 1e-5);
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  ASSERT_EQ(token.top.size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(token.top[i].id, order[i]);
    EXPECT_NEAR(token.top[i].logprob, logits[order[i]] - std::log(total), 1e-5);
  }
  params.logprobs = 0;
  EXPECT_TRUE(draw(logits, params).top.empty());
  EXPECT_EQ(draw(logits, params).logprob, token.logprob);
}

// Goal: score() gives the bits that sample() reports, ties in `top` go to the lower id, more than V is cut.
TEST_F(SamplerTest, ScoresEqualSampledLogprobs) {
  const std::vector<float> logits = random_logits(300, 9);
  const SampledToken token = draw(logits, {.temperature = 0.f, .logprobs = 20});
  const std::vector<TokenId> ids = {token.id, 299, 0, token.id};
  const auto scores = score(logits, ids, 20, ops_, scratch_);
  ASSERT_TRUE(scores.ok());
  EXPECT_EQ(scores.value().of_ids[0], token.logprob);
  EXPECT_EQ(scores.value().of_ids[3], token.logprob);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(scores.value().top[i].id, token.top[i].id);
    EXPECT_EQ(scores.value().top[i].logprob, token.top[i].logprob);
  }
  const auto tied = score(std::vector<float>{1, 2, 2, 1}, {}, 100, ops_, scratch_);
  ASSERT_TRUE(tied.ok());
  std::vector<TokenId> order;
  for (const TokenLogprob& t : tied.value().top) order.push_back(t.id);
  EXPECT_EQ(order, (std::vector<TokenId>{1, 2, 0, 3}));
}

// Goal: a choice depends on seed, position, sample index and logits, and on nothing else: not on the scratch's past.
TEST_F(SamplerTest, NothingButTheRequestDecides) {
  const std::vector<float> logits = random_logits(1000, 3, 1.f);
  const SamplingParams params{.seed = 7, .logprobs = 3};
  const TokenId first = draw(logits, params).id;
  draw(random_logits(5000, 4), {.top_k = 50, .top_p = 0.5f, .repetition_penalty = 1.2f, .seed = 1});
  EXPECT_EQ(draw(logits, params).id, first);
  EXPECT_EQ(draw(logits, params, {9, 9, 9}).id, first);  // other history, same position, no penalties

  std::set<TokenId> by_position, by_index, by_seed;
  for (int32_t i = 0; i < 40; ++i) {
    by_position.insert(draw(logits, params, std::vector<TokenId>(static_cast<size_t>(i + 1), 1), 1).id);
    by_index.insert(draw(logits, params, {1, 2, 3}, 3, i).id);
    by_seed.insert(draw(logits, {.seed = uint64_t{1} << i}).id);
  }
  EXPECT_GT(by_position.size(), 25u);
  EXPECT_GT(by_index.size(), 25u);
  EXPECT_GT(by_seed.size(), 25u);
}

// Goal: damaged logits and impossible requests are this sequence's error, never a token.
TEST_F(SamplerTest, RefusesWhatCannotBeSampled) {
  const auto fails = [&](std::vector<float> logits, const SamplingParams& params) {
    const auto token = sample(logits, params, {{}, 0, 0}, ops_, scratch_);
    return !token.ok() && token.error().code == Code::kInternal;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float temperature : {0.f, 1.f}) {
    EXPECT_TRUE(fails({1.f, nan, 2.f}, {.temperature = temperature}));
    EXPECT_TRUE(fails({nan}, {.temperature = temperature}));
    EXPECT_TRUE(fails({1.f, kInfinity}, {.temperature = temperature}));
    EXPECT_TRUE(fails({-kInfinity, -kInfinity}, {.temperature = temperature}));
    EXPECT_TRUE(fails({1.f, 2.f}, {.temperature = temperature, .logit_bias = {{2, 1.f}}}));
    EXPECT_TRUE(fails({1.f, 2.f}, {.temperature = temperature, .logit_bias = {{-1, 1.f}}}));
    EXPECT_TRUE(fails({1.f}, {.temperature = temperature, .suppressed_until_min_tokens = {0}, .min_tokens = 1}));
  }
  EXPECT_FALSE(score(std::vector<float>{1.f, nan}, {}, 1, ops_, scratch_).ok());
  EXPECT_FALSE(score(std::vector<float>{1.f}, std::vector<TokenId>{1}, 1, ops_, scratch_).ok());
}

// Goal: every ISA level chooses the same tokens with the same logprob bits.
TEST_F(SamplerTest, EveryIsaGivesTheSameBits) {
  for (const uint32_t level : {isa::kLevelAvx2, isa::kLevelAvx512}) {
    if (!isa::covers(isa::detected(), level)) {
      std::printf("skipped: this CPU lacks %s\n", isa::level_name(level));
      continue;
    }
    const kernels::Ops other = kernels::make_ops(level);
    for (uint32_t i = 0; i < 60; ++i) {
      const std::vector<float> logits = random_logits(4097 + static_cast<int32_t>(i), i);
      const SamplingParams params{
          .temperature = 0.9f, .top_k = i % 2 ? 40 : 0, .top_p = i % 3 ? 0.9f : 1.f, .seed = i, .logprobs = 4};
      std::vector<float> a = logits, b = logits;
      const auto x = sample(a, params, {{}, 0, 0}, ops_, scratch_), y = sample(b, params, {{}, 0, 0}, other, scratch_);
      ASSERT_TRUE(x.ok() && y.ok());
      ASSERT_EQ(x.value().id, y.value().id);
      ASSERT_EQ(x.value().logprob, y.value().logprob);
      for (size_t t = 0; t < 4; ++t) ASSERT_EQ(x.value().top[t].logprob, y.value().top[t].logprob);
    }
  }
}

}  // namespace
}  // namespace pagoda::sampling
