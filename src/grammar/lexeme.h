#pragma once
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "grammar/component.h"
#include "grammar/interner.h"

namespace pagoda::grammar {

/// Several components side by side: a state is one state of each. Made as met.
class Lexeme {
 public:
  Lexeme(std::vector<ComponentPtr> components, Budget& budget);

  int32_t start() const { return start_; }
  int32_t step(int32_t state, uint8_t byte);
  int32_t state_of(int32_t state, size_t component) const { return states_.at(state)[component]; }
  bool accepts(int32_t state, size_t component) const {
    return components_[component]->accepts(state_of(state, component));
  }
  int32_t fate(int32_t state, size_t component) const {
    return components_[component]->fate(state_of(state, component));
  }
  /// 1 or -1 where the formula's value can no longer change, else 0. `now`: its value if the text ended here.
  int32_t fate(int32_t state, const Formula& formula) const;
  bool now(int32_t state, const Formula& formula) const;
  /// The formula's value for a number as a whole.
  bool holds(const Decimal& number, const Formula& formula) const;
  /// A byte of each kind that the components tell apart, in order.
  const std::vector<uint8_t>& representatives() const { return representatives_; }
  uint8_t kind_of(uint8_t byte) const { return kinds_[byte]; }

  /// Whether some text from `state` on (perhaps none) leads to a state that `wanted`, through states not `barred`.
  /// `known` remembers, by state: 0 unknown, 1 yes, -1 no. False when the budget is spent.
  bool reaches(int32_t state, const std::function<bool(int32_t)>& wanted, const std::function<bool(int32_t)>& barred,
               std::vector<int8_t>& known);

 private:
  std::vector<ComponentPtr> components_;
  Budget& budget_;
  std::array<uint8_t, 256> kinds_{};
  std::vector<uint8_t> representatives_;
  Interner states_;
  std::vector<int32_t> next_;  // [states, kinds], -1 = not yet known
  int32_t start_ = 0;
  int32_t intern(const std::vector<int32_t>& key);
};

/// The byte sequences of the code points first..last, as products of byte ranges.
struct ByteRanges {
  std::array<uint8_t, 4> first{};
  std::array<uint8_t, 4> last{};
  int32_t length = 0;
};
void utf8_ranges(uint32_t first, uint32_t last, std::vector<ByteRanges>& out);

}  // namespace pagoda::grammar
