#pragma once
#include <cstdint>
#include <vector>

#include "grammar/budget.h"
#include "grammar/pattern.h"

namespace pagoda::grammar {

/// Patterns as a graph over the bytes of UTF-8 (Thompson's construction). Rules are entered by calls.
struct Nfa {
  struct Edge {
    uint8_t first;
    uint8_t last;
    int32_t to;
  };
  struct State {
    std::vector<Edge> edges{};
    std::vector<int32_t> free{};  // taken without a byte
    int32_t call = -1;            // rule to go through before `after`
    int32_t after = -1;
    int32_t begin = -1;  // target, if nothing has been read yet
    int32_t end = -1;    // target, if nothing will be read any more
  };
  std::vector<State> states{};

  int32_t add();
  State& at(int32_t state) { return states[static_cast<size_t>(state)]; }
  const State& at(int32_t state) const { return states[static_cast<size_t>(state)]; }

  /// Adds `pattern` after `from` and returns where it ends. Counted repetition is written out: what does not fit
  /// the budget makes it over() and the result meaningless. Look-ahead must be gone.
  int32_t append(const Pattern& pattern, int32_t from, Budget& budget);

 private:
  int32_t append_class(const CodeSet& set, int32_t from, Budget& budget);
  int32_t append_repeat(const Pattern& pattern, int32_t from, Budget& budget);
};

}  // namespace pagoda::grammar
