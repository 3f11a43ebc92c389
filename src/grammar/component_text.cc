#include <algorithm>
#include <array>

#include "grammar/component.h"
#include "grammar/interner.h"
#include "grammar/nfa.h"

namespace pagoda::grammar {
namespace {

class Utf8Component final : public Component {
 public:
  // 0 = wrong, 1 = between characters, 2..4 = so many minus one plain continuations follow; 5.. = special seconds
  int32_t start(Budget&) override { return 1; }
  int32_t step(int32_t s, uint8_t b, Budget&) override {
    const auto in = [b](uint8_t low, uint8_t high) { return b >= low && b <= high; };
    switch (s) {
      case 1:
        if (b < 0x80) return 1;
        if (in(0xC2, 0xDF)) return 2;
        if (b == 0xE0) return 5;
        if (b == 0xED) return 6;
        if (in(0xE1, 0xEF)) return 3;
        if (b == 0xF0) return 7;
        if (in(0xF1, 0xF3)) return 4;
        return b == 0xF4 ? 8 : 0;
      case 2:
        return in(0x80, 0xBF) ? 1 : 0;
      case 3:
        return in(0x80, 0xBF) ? 2 : 0;
      case 4:
        return in(0x80, 0xBF) ? 3 : 0;
      case 5:
        return in(0xA0, 0xBF) ? 2 : 0;
      case 6:
        return in(0x80, 0x9F) ? 2 : 0;
      case 7:
        return in(0x90, 0xBF) ? 3 : 0;
      case 8:
        return in(0x80, 0x8F) ? 3 : 0;
      default:
        return 0;
    }
  }
  bool accepts(int32_t s) const override { return s == 1; }
  int32_t fate(int32_t s) const override { return s == 0 ? -1 : 0; }
  void mark_borders(std::bitset<257>& borders) const override {
    for (const size_t at : {0x80u, 0x90u, 0xA0u, 0xC0u, 0xC2u, 0xE0u, 0xE1u, 0xEDu, 0xEEu, 0xF0u, 0xF1u, 0xF4u, 0xF5u})
      borders.set(at);
  }
};

class LengthComponent final : public Component {
 public:
  LengthComponent(int64_t min, int64_t max) : min_(min), max_(max) {
    const int64_t beyond = max == kNoMax ? min : std::max(min, max + 1);
    last_ = static_cast<int32_t>(std::min<int64_t>(beyond, INT32_MAX / 2));
  }
  int32_t start(Budget&) override { return 0; }
  int32_t step(int32_t s, uint8_t b, Budget&) override { return (b & 0xC0) == 0x80 ? s : std::min(s + 1, last_); }
  bool accepts(int32_t s) const override { return s >= min_ && s <= max_; }
  int32_t fate(int32_t s) const override {
    if (s > max_) return -1;
    return max_ == kNoMax && s >= min_ ? 1 : 0;
  }
  void mark_borders(std::bitset<257>& borders) const override { borders.set(0x80), borders.set(0xC0); }

 private:
  int64_t min_, max_;
  int32_t last_;  // counts from here on are alike
};

// Subsets of the graph's states, made as they are met (the usual determinisation).
class SearchComponent final : public Component {
 public:
  bool build(const Pattern& pattern, Budget& budget) {
    const int32_t start = nfa_.add();
    accept_ = nfa_.append(pattern, start, budget);
    start_ = start;
    mark_.assign(nfa_.states.size(), 0);
    return !budget.over();
  }
  int32_t start(Budget& budget) override {
    open_.push_back(start_);
    return close(/*at_begin=*/true, budget);
  }
  int32_t step(int32_t state, uint8_t byte, Budget& budget) override {
    if (fates_[static_cast<size_t>(state)] != 0) return state;
    const auto view = sets_.at(state);
    for (const int32_t s : view.first(view.size() - 1))
      for (const Nfa::Edge& edge : nfa_.at(s).edges)
        if (byte >= edge.first && byte <= edge.last) open_.push_back(edge.to);
    // A match may begin at every byte: bytes inside a character match no pattern.
    open_.push_back(start_);
    return close(false, budget);
  }
  bool accepts(int32_t state) const override { return accepting_[static_cast<size_t>(state)]; }
  int32_t fate(int32_t state) const override { return fates_[static_cast<size_t>(state)]; }
  void mark_borders(std::bitset<257>& borders) const override {
    for (const Nfa::State& s : nfa_.states)
      for (const Nfa::Edge& edge : s.edges) {
        borders.set(edge.first);
        borders.set(size_t{edge.last} + 1);
      }
  }

 private:
  int32_t close(bool at_begin, Budget& budget) {
    ++round_;
    std::vector<int32_t> kept, ends;
    bool found = false;
    const auto flow = [&](bool at_end) {
      while (!open_.empty()) {
        const int32_t s = open_.back();
        open_.pop_back();
        if (mark_[static_cast<size_t>(s)] == round_) continue;
        mark_[static_cast<size_t>(s)] = round_;
        if (s == accept_) found = true;
        const Nfa::State& state = nfa_.at(s);
        if (!at_end && (!state.edges.empty() || state.end >= 0)) kept.push_back(s);
        for (const int32_t to : state.free) open_.push_back(to);
        if (state.begin >= 0 && at_begin) open_.push_back(state.begin);
        if (state.end >= 0) ends.push_back(state.end);
      }
    };
    flow(false);
    if (found) kept = {-1};  // whatever follows, it was found
    bool now = found;
    if (!found) {
      while (!ends.empty() && !found) {
        open_ = std::move(ends);
        ends.clear();
        flow(true);
      }
      now = found;
    }
    std::sort(kept.begin(), kept.end());
    kept.push_back(now ? 1 : 0);
    bool fresh = false;
    const int32_t id = sets_.intern(kept, fresh);
    if (fresh) {
      budget.spend(Interner::bytes_of(kept.size()));
      accepting_.push_back(now);
      fates_.push_back(kept.front() == -1 ? 1 : kept.size() == 1 && !now ? -1 : 0);
    }
    return id;
  }

  Nfa nfa_;
  int32_t start_ = 0, accept_ = 0;
  Interner sets_;  // states with a way on, sorted, then whether the string may end here
  std::vector<bool> accepting_;
  std::vector<int32_t> fates_;
  std::vector<int32_t> open_;
  std::vector<uint32_t> mark_;
  uint32_t round_ = 0;
};

}  // namespace

ComponentPtr make_utf8() { return std::make_shared<Utf8Component>(); }

ComponentPtr make_length(int64_t min, int64_t max) { return std::make_shared<LengthComponent>(min, max); }

Result<ComponentPtr> make_search(const Pattern& pattern, Budget& budget) {
  auto made = std::make_shared<SearchComponent>();
  if (!made->build(pattern, budget)) return Error{Code::kTooLarge, "the pattern's automaton outgrows its budget"};
  return ComponentPtr(std::move(made));
}

NamesComponent::NamesComponent(std::vector<std::string> sorted) : names_(std::move(sorted)) {
  const auto count = static_cast<int32_t>(names_.size());
  nodes_.push_back({0, 0, 0});
  nodes_.push_back({0, count, 0});
  for (int32_t node = 1; node < static_cast<int32_t>(nodes_.size()); ++node) split(node);
}

void NamesComponent::split(int32_t node) {
  const auto [first, last, depth] = [&] {
    const Node& n = nodes_[static_cast<size_t>(node)];
    return std::array{n.first, n.last, n.depth};
  }();
  const auto name = [this](int32_t i) -> const std::string& { return names_[static_cast<size_t>(i)]; };
  const auto at = static_cast<size_t>(depth);
  int32_t begin = first;
  if (begin < last && name(begin).size() == at) nodes_[static_cast<size_t>(node)].name = begin++;
  while (begin < last) {
    int32_t end = begin + 1;
    while (end < last && name(end)[at] == name(begin)[at]) ++end;
    const auto child = static_cast<int32_t>(nodes_.size());
    nodes_.push_back({begin, end, depth + 1});
    nodes_[static_cast<size_t>(node)].children.emplace_back(static_cast<uint8_t>(name(begin)[at]), child);
    begin = end;
  }
}

int32_t NamesComponent::step(int32_t state, uint8_t byte, Budget&) {
  for (const auto& [label, child] : nodes_[static_cast<size_t>(state)].children)
    if (label == byte) return child;
  return 0;
}

void NamesComponent::mark_borders(std::bitset<257>& borders) const {
  for (const Node& node : nodes_)
    for (const auto& [label, child] : node.children) borders.set(label), borders.set(size_t{label} + 1);
}

int32_t NamesComponent::find(std::string_view name) const {
  const auto found = std::lower_bound(names_.begin(), names_.end(), name);
  return found != names_.end() && *found == name ? static_cast<int32_t>(found - names_.begin()) : -1;
}

std::shared_ptr<NamesComponent> make_names(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return std::make_shared<NamesComponent>(std::move(names));
}

}  // namespace pagoda::grammar
