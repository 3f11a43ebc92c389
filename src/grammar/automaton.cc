#include "grammar/automaton.h"

namespace pagoda::grammar {

std::array<int32_t, 256>* Automaton::row(Rows& rows, int32_t index) {
  const auto at = static_cast<size_t>(index);
  if (at >= rows.size()) rows.resize(at + 1 + at / 2);
  if (!rows[at]) {
    if (!budget_.spend(static_cast<int64_t>(sizeof(*rows[at])) + 16)) return nullptr;
    rows[at] = std::make_unique<std::array<int32_t, 256>>();
    rows[at]->fill(kUnknown);
  }
  return rows[at].get();
}

StateId Automaton::step(StateId from, uint8_t byte) {
  std::array<int32_t, 256>* known = from < 0 ? nullptr : row(rows_, from);
  if (known == nullptr) return kDead;
  StateId& to = (*known)[byte];
  if (to == kUnknown) {
    const StateId computed = compute_step(from, byte);
    if (budget_.over()) return kDead;
    to = computed;
  }
  return to;
}

int32_t Automaton::step_inside(int32_t inside, uint8_t byte) {
  std::array<int32_t, 256>* known = inside < 0 ? nullptr : row(inside_rows_, inside);
  if (known == nullptr) return kDead;
  int32_t& to = (*known)[byte];
  if (to == kUnknown) {
    const int32_t computed = compute_step_inside(inside, byte);
    if (budget_.over()) return kDead;
    to = computed;
  }
  return to;
}

}  // namespace pagoda::grammar
