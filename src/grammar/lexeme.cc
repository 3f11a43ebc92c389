#include "grammar/lexeme.h"

#include <algorithm>

namespace pagoda::grammar {

Lexeme::Lexeme(std::vector<ComponentPtr> components, Budget& budget)
    : components_(std::move(components)), budget_(budget) {
  std::bitset<257> borders;
  for (const ComponentPtr& component : components_) component->mark_borders(borders);
  borders.set(0);
  uint8_t kind = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (borders.test(byte)) {
      representatives_.push_back(static_cast<uint8_t>(byte));
      kind = static_cast<uint8_t>(representatives_.size() - 1);
    }
    kinds_[byte] = kind;
  }
  std::vector<int32_t> key;
  for (const ComponentPtr& component : components_) key.push_back(component->start(budget_));
  start_ = intern(key);
}

int32_t Lexeme::intern(const std::vector<int32_t>& key) {
  bool fresh = false;
  const int32_t id = states_.intern(key, fresh);
  if (fresh) {
    budget_.spend(Interner::bytes_of(key.size()) + static_cast<int64_t>(4 * representatives_.size()));
    next_.resize(next_.size() + representatives_.size(), -1);
  }
  return id;
}

int32_t Lexeme::step(int32_t state, uint8_t byte) {
  const size_t slot = static_cast<size_t>(state) * representatives_.size() + kinds_[byte];
  if (next_[slot] >= 0) return next_[slot];
  const auto view = states_.at(state);
  std::vector<int32_t> key(view.begin(), view.end());
  for (size_t i = 0; i < key.size(); ++i) key[i] = components_[i]->step(key[i], byte, budget_);
  return next_[slot] = intern(key);
}

namespace {

// Answers of a formula's parts are 1 (yes), -1 (no), 0 (open).
template <class Leaf>
int32_t answer(const Formula& formula, const Leaf& leaf) {
  switch (formula.kind) {
    case Formula::Kind::kFalse:
      return -1;
    case Formula::Kind::kTrue:
      return 1;
    case Formula::Kind::kLeaf:
      return leaf(static_cast<size_t>(formula.leaf));
    case Formula::Kind::kNot:
      return -answer(*formula.parts[0], leaf);
    case Formula::Kind::kAnd:
    case Formula::Kind::kOr: {
      const int32_t strong = formula.kind == Formula::Kind::kAnd ? -1 : 1;
      int32_t all = -strong;
      for (const FormulaPtr& part : formula.parts) {
        const int32_t one = answer(*part, leaf);
        if (one == strong) return strong;
        if (one == 0) all = 0;
      }
      return all;
    }
    case Formula::Kind::kOne: {
      int32_t yes = 0, open = 0;
      for (const FormulaPtr& part : formula.parts) {
        const int32_t one = answer(*part, leaf);
        if (one == 1 && ++yes > 1) return -1;
        if (one == 0) ++open;
      }
      return open > 0 ? 0 : yes == 1 ? 1 : -1;
    }
  }
  return 0;
}

}  // namespace

int32_t Lexeme::fate(int32_t state, const Formula& formula) const {
  return answer(formula, [&](size_t component) { return fate(state, component); });
}

bool Lexeme::now(int32_t state, const Formula& formula) const {
  return answer(formula, [&](size_t component) { return accepts(state, component) ? 1 : -1; }) == 1;
}

bool Lexeme::holds(const Decimal& number, const Formula& formula) const {
  return answer(formula, [&](size_t component) { return components_[component]->holds(number) ? 1 : -1; }) == 1;
}

bool Lexeme::reaches(int32_t state, const std::function<bool(int32_t)>& wanted,
                     const std::function<bool(int32_t)>& barred, std::vector<int8_t>& known) {
  const auto mark = [&known](int32_t s) -> int8_t& {
    const auto at = static_cast<size_t>(s);
    if (known.size() <= at) known.resize(at + 1 + at / 2, 0);
    return known[at];
  };
  if (mark(state) != 0) return mark(state) > 0;
  struct Visit {
    int32_t state;
    size_t next_kind;
  };
  std::vector<Visit> path{{state, 0}};
  std::vector<int32_t> seen{state};  // on the path or left behind: "no" unless the search succeeds
  mark(state) = -1;
  bool found = wanted(state);
  while (!found && !path.empty() && !budget_.over()) {
    Visit& here = path.back();
    if (here.next_kind == representatives_.size()) {
      path.pop_back();
      continue;
    }
    const int32_t to = step(here.state, representatives_[representatives_.size() - 1 - here.next_kind++]);
    const int8_t mark_to = mark(to);
    if (mark_to > 0) {
      found = true;
      break;
    }
    if (mark_to < 0) continue;
    mark(to) = -1;
    seen.push_back(to);
    budget_.spend(1);
    if (barred(to)) continue;
    path.push_back({to, 0});
    found = wanted(to);
  }
  if (budget_.over()) {
    for (const int32_t s : seen) mark(s) = 0;
    return false;
  }
  if (!found) return false;
  // Only what lies on the path is known to reach; the rest was left behind before the end was found, and may lead
  // back into the path.
  for (const int32_t s : seen) mark(s) = 0;
  for (const Visit& visit : path) mark(visit.state) = 1;
  return true;
}

}  // namespace pagoda::grammar
