#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "grammar/budget.h"

namespace pagoda::grammar {

/// A state of a grammar's automaton; equal texts lead to equal states.
using StateId = int32_t;
inline constexpr StateId kDead = -1;  // no text of the language begins like this
inline constexpr StateId kLeft = -2;  // only from step_inside(): the string ended

/// A deterministic automaton over bytes whose states are made as they are met. Every state that step() returns can
/// still be completed (JSON Schema: but for what docs/GRAMMAR.md lists). One thread at a time.
class Automaton {
 public:
  explicit Automaton(const Limits& limits) : budget_(limits) {}
  virtual ~Automaton() = default;
  Automaton(const Automaton&) = delete;
  Automaton& operator=(const Automaton&) = delete;

  /// kDead where the language is empty.
  virtual StateId start() = 0;
  StateId step(StateId from, uint8_t byte);
  virtual bool accepting(StateId state) const = 0;

  /// Most states lie inside a JSON string, and how it goes on there does not depend on what lies around it. States with
  /// the same inside() >= 0 allow the same bytes, step for step as step_inside() says, until that returns kLeft.
  virtual int32_t inside([[maybe_unused]] StateId state) const { return kDead; }
  int32_t step_inside(int32_t inside, uint8_t byte);

  /// True: the budget is spent and kDead means nothing any more.
  bool exhausted() const { return budget_.over(); }
  const Budget& budget() const { return budget_; }
  void stop_clock() { budget_.stop_clock(); }

 protected:
  virtual StateId compute_step(StateId from, uint8_t byte) = 0;
  virtual int32_t compute_step_inside([[maybe_unused]] int32_t inside, [[maybe_unused]] uint8_t byte) { return kDead; }
  Budget budget_;

 private:
  static constexpr StateId kUnknown = -3;
  using Rows = std::vector<std::unique_ptr<std::array<int32_t, 256>>>;
  std::array<int32_t, 256>* row(Rows& rows, int32_t index);
  Rows rows_, inside_rows_;
};

}  // namespace pagoda::grammar
