#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace pagoda::text {
namespace {

// Goal: text is held back only while it can still become a stop string (case S03).
TEST(StopMatcher, HoldsOnlyWhatCanStillBecomeAStop) {
  StopMatcher matcher({"ZZZZZZZZ"});
  EXPECT_EQ(matcher.push("a").text, "a");
  EXPECT_EQ(matcher.push("b").text, "b");
  EXPECT_EQ(matcher.push("Z").text, "");
  EXPECT_EQ(matcher.push("c").text, "Zc");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, CutsBeforeTheStopAndShowsNothingAfterIt) {
  StopMatcher matcher({"</think>"});
  EXPECT_EQ(matcher.push("x </thi").text, "x ");
  const StopMatcher::Step step = matcher.push("nk> y");
  EXPECT_TRUE(step.stopped);
  EXPECT_EQ(step.text, "");
  EXPECT_EQ(step.matched, "</think>");
  EXPECT_EQ(matcher.push("more").text, "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, IncludesTheStopWhenAsked) {
  StopMatcher matcher({"b"}, true);
  EXPECT_EQ(matcher.push("abc").text, "ab");
}

// Goal: the stop string that ends first wins; of two that end together the longer, so that no part of it is shown.
TEST(StopMatcher, EarliestEndThenLongest) {
  StopMatcher first({"abcd", "bc"});
  EXPECT_EQ(first.push("xabcd").matched, "bc");
  StopMatcher longest({"c", "abc"});
  const StopMatcher::Step step = longest.push("xabc");
  EXPECT_EQ(step.matched, "abc");
  EXPECT_EQ(step.text, "x");
}

TEST(StopMatcher, NoStopsHoldNothing) {
  StopMatcher matcher({"", std::string()});
  EXPECT_EQ(matcher.push("abc").text, "abc");
}

// Goal: however the text is cut, what is shown equals the text up to the first stop, and what is held is never longer
// than the longest suffix that is a proper prefix of a stop. Method: random texts over two letters, brute force beside.
TEST(StopMatcher, EqualsBruteForceAtEveryCut) {
  std::mt19937 rng(7);
  const auto random_text = [&](int size) {
    std::string s;
    for (int i = 0; i < size; ++i) s += "ab"[rng() % 2];
    return s;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> stops;
    for (int i = rng() % 3; i >= 0; --i) stops.push_back(random_text(1 + rng() % 6));
    const std::string text = random_text(rng() % 40);
    size_t end = std::string::npos, size = 0;
    for (const std::string& stop : stops) {
      const size_t at = text.find(stop);
      if (at == std::string::npos) continue;
      if (at + stop.size() < end || (at + stop.size() == end && stop.size() > size))
        end = at + stop.size(), size = stop.size();
    }
    const std::string want = end == std::string::npos ? text : text.substr(0, end - size);

    StopMatcher matcher(stops);
    std::string shown, seen;
    for (size_t at = 0; at < text.size();) {
      const size_t n = std::min<size_t>(1 + rng() % 4, text.size() - at);
      const StopMatcher::Step step = matcher.push(text.substr(at, n));
      shown += step.text;
      at += n;
      if (step.stopped) break;
      seen = text.substr(0, at);
      size_t may_hold = 0;
      for (const std::string& stop : stops)
        for (size_t k = 1; k < stop.size(); ++k)
          if (seen.ends_with(stop.substr(0, k))) may_hold = std::max(may_hold, k);
      EXPECT_EQ(shown.size(), seen.size() - may_hold);
    }
    shown += matcher.finish();
    EXPECT_EQ(shown, want) << text;
  }
}

}  // namespace
}  // namespace pagoda::text
