// Goal: the search finds what a plain one finds: all candidates of every step, all ends kept, no early way out. Method:
// a model that is a hash of the text, logprobs on a coarse grid so that ties are frequent, all widths, penalties and
// lengths; end ids that come often, seldom, never.
#include "sampling/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/vector_math/vector_math.h"

namespace pagoda::sampling {
namespace {

using Text = std::vector<TokenId>;

struct HashModel {
  uint64_t seed;
  int32_t vocab;

  std::vector<TokenLogprob> likeliest(const Text& text, int32_t count) const {
    uint64_t hash = seed * 0x9E3779B97F4A7C15ull + 1;
    for (const TokenId id : text) hash = (hash ^ static_cast<uint64_t>(id + 1)) * 0xBF58476D1CE4E5B9ull;
    std::vector<TokenLogprob> all;
    for (TokenId id = 0; id < vocab; ++id) {
      uint64_t own = (hash ^ static_cast<uint64_t>(id)) * 0x94D049BB133111EBull;
      own ^= own >> 31;
      all.push_back({id, -0.25f * static_cast<float>(own % 24)});
    }
    std::sort(all.begin(), all.end(), [](const TokenLogprob& a, const TokenLogprob& b) {
      return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
    });
    all.resize(std::min(all.size(), static_cast<size_t>(count)));
    return all;
  }
};

struct Plain {
  Text text{};
  double sum = 0, score = 0;
};

/// Everything written down, sorted at the end.
std::vector<Plain> plain_search(const HashModel& model, BeamParams params, int32_t prompt, int32_t most, TokenId end) {
  const auto score = [&](double sum, size_t tokens) {
    const double length = static_cast<double>(prompt) + static_cast<double>(tokens);
    const double penalty = static_cast<double>(params.length_penalty);  // 0 and 1 exactly: ties of scores are frequent
    return sum / (penalty == 0 ? 1 : penalty == 1 ? length : kernels::pow_f64(length, penalty));
  };
  std::vector<Plain> live(1), ended;
  for (int32_t step = 0; step < most && !live.empty(); ++step) {
    if (params.early_stopping && static_cast<int32_t>(ended.size()) >= params.width) break;
    struct Row {
      Plain plain;
      size_t parent;
    };
    std::vector<Row> rows;
    for (size_t parent = 0; parent < live.size(); ++parent) {
      for (const TokenLogprob& token : model.likeliest(live[parent].text, 2 * params.width)) {
        Plain child = live[parent];
        child.text.push_back(token.id);
        child.sum += static_cast<double>(token.logprob);
        if (token.id == end) {
          child.score = score(child.sum, child.text.size() - 1);
          ended.push_back(child);
        } else {
          rows.push_back({child, parent});
        }
      }
    }
    std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      if (a.plain.sum != b.plain.sum) return a.plain.sum > b.plain.sum;
      if (a.plain.text.back() != b.plain.text.back()) return a.plain.text.back() < b.plain.text.back();
      return a.parent < b.parent;
    });
    live.clear();
    for (size_t i = 0; i < std::min(rows.size(), static_cast<size_t>(params.width)); ++i) live.push_back(rows[i].plain);
  }
  for (Plain& beam : live) {
    beam.score = score(beam.sum, beam.text.size());
    ended.push_back(beam);
  }
  std::stable_sort(ended.begin(), ended.end(), [](const Plain& a, const Plain& b) { return a.score > b.score; });
  return ended;
}

Text ids_of(const Beam& beam) {
  Text text;
  for (const SampledToken& token : beam.tokens) text.push_back(token.id);
  return text;
}

TEST(BeamSearch, FindsWhatAPlainSearchFinds) {
  int64_t compared = 0, stopped_early = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const HashModel model{seed, seed % 5 == 0 ? 3 : 12};
    const BeamParams params{.width = 1 + static_cast<int32_t>(seed % 5),
                            .length_penalty = std::array{1.f, 0.f, 2.f, 0.6f, -1.f}[seed / 5 % 5],
                            .early_stopping = seed % 7 == 0};
    const int32_t answers = 1 + static_cast<int32_t>(seed % static_cast<uint64_t>(params.width));
    const int32_t prompt = 1 + static_cast<int32_t>(seed % 3) * 10, most = 1 + static_cast<int32_t>(seed % 11);
    const TokenId end = seed % 4 == 0 ? -5 : static_cast<TokenId>(seed % 3);
    BeamSearch search(params, answers, prompt, most, 2, [end](TokenId id) { return id == end; });
    int32_t steps = 0;
    while (!search.over()) {
      std::vector<std::vector<TokenLogprob>> next;
      for (const Beam& beam : search.live()) next.push_back(model.likeliest(ids_of(beam), 2 * params.width));
      const auto born = search.advance(next);
      ASSERT_EQ(born.size(), search.live().size());
      ASSERT_LE(born.size(), static_cast<size_t>(params.width));
      ++steps;
    }
    stopped_early += steps < most && !params.early_stopping;
    const std::vector<Plain> want = plain_search(model, params, prompt, most, end);
    const size_t count = std::min(want.size(), static_cast<size_t>(answers));
    ASSERT_EQ(search.answers().size(), count) << seed;
    for (size_t i = 0; i < count; ++i, ++compared) {
      const Beam& got = search.answers()[i];
      EXPECT_EQ(ids_of(got), want[i].text) << seed << ", answer " << i;
      EXPECT_EQ(got.sum, want[i].sum);
      EXPECT_NEAR(got.score, want[i].score, 1e-9 * std::abs(want[i].score));
      EXPECT_EQ(got.at_end, got.tokens.back().id == end);
      EXPECT_EQ(got.tokens.back().top.size(), std::min<size_t>(2, static_cast<size_t>(model.vocab)));
    }
  }
  EXPECT_GT(compared, 700);
  EXPECT_GT(stopped_early, 20);  // the ways out must be met
}

}  // namespace
}  // namespace pagoda::sampling
