#include "grammar/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>

#include "grammar/interner.h"
#include "grammar/nfa.h"

namespace pagoda::grammar {
namespace {

constexpr size_t kRuleThreadsMax = 4096;  // ways to read one text at the same time

/// All ways to read the text so far at once: a thread is a state of the graph and a stack of where to go on after the
/// rules it is inside of. Stacks are shared, and a call in last place leaves nothing on them.
class RulesAutomaton final : public Automaton {
 public:
  using Automaton::Automaton;

  Status build(const std::vector<Rule>& rules, int32_t root) {
    for (const Rule& rule : rules) {
      const int32_t start = nfa_.add();
      starts_.push_back(start);
      ends_.push_back(nfa_.append(*rule.body, start, budget_));
      if (budget_.over()) return too_large(rule);
    }
    is_end_.assign(nfa_.states.size(), false);
    for (const int32_t end : ends_) is_end_[static_cast<size_t>(end)] = true;
    root_ = root;
    mark_nullable();
    PAGODA_TRY_STATUS(refuse_left_recursion(rules));
    mark_useful();
    const Rule& first = rules[static_cast<size_t>(root)];
    if (budget_.over()) return too_large(first);
    if (!useful_[static_cast<size_t>(starts_[static_cast<size_t>(root)])])
      return Error{Code::kInvalidRequest, fmt::format("grammar: {} matches no text at {}", first.name, first.position),
                   first.position};
    return ok_status();
  }

  StateId start() override {
    begin_set();
    add_thread(starts_[static_cast<size_t>(root_)], kBottom);
    return end_set();
  }

  bool accepting(StateId state) const override {
    const auto threads = states_.at(state);
    return threads.size() >= 2 && threads[0] == kDone;  // sorted: the finished thread comes first
  }

 protected:
  StateId compute_step(StateId from, uint8_t byte) override {
    begin_set();
    const auto view = states_.at(from);
    const std::vector<int32_t> threads(view.begin(), view.end());  // interning may move them
    for (size_t i = 0; i < threads.size(); i += 2) {
      if (threads[i] == kDone) continue;
      for (const Nfa::Edge& edge : nfa_.at(threads[i]).edges)
        if (byte >= edge.first && byte <= edge.last) add_thread(edge.to, threads[i + 1]);
    }
    return end_set();
  }

 private:
  static constexpr int32_t kDone = -1;    // as a state: the root rule is over
  static constexpr int32_t kBottom = -1;  // as a stack: inside the root rule

  static Error too_large(const Rule& rule) {
    return Error{Code::kTooLarge,
                 fmt::format("grammar: the automaton outgrows its budget at {}",
                             rule.position.empty() ? "offset 0" : rule.position),
                 rule.position.empty() ? "offset 0" : rule.position};
  }

  // Where a rule's beginning leads without a byte: its own end, and the rules called there.
  struct Reach {
    bool end = false;
    std::vector<int32_t> calls;
  };
  Reach reach_from_start(size_t rule) {
    Reach out;
    std::vector<int32_t> open{starts_[rule]}, seen{starts_[rule]};
    std::vector<bool>& marked = marked_;
    marked[static_cast<size_t>(starts_[rule])] = true;
    const auto visit = [&](int32_t state) {
      if (marked[static_cast<size_t>(state)]) return;
      marked[static_cast<size_t>(state)] = true;
      open.push_back(state);
      seen.push_back(state);
    };
    while (!open.empty()) {
      const int32_t state = open.back();
      open.pop_back();
      if (state == ends_[rule]) out.end = true;
      const Nfa::State& s = nfa_.at(state);
      for (const int32_t to : s.free) visit(to);
      if (s.call >= 0) {
        out.calls.push_back(s.call);
        if (nullable_[static_cast<size_t>(s.call)]) visit(s.after);
      }
    }
    for (const int32_t state : seen) marked[static_cast<size_t>(state)] = false;
    return out;
  }

  void mark_nullable() {
    nullable_.assign(starts_.size(), false);
    marked_.assign(nfa_.states.size(), false);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t rule = 0; rule < starts_.size() && budget_.spend(1); ++rule)
        if (!nullable_[rule] && reach_from_start(rule).end) nullable_[rule] = changed = true;
    }
  }

  Status refuse_left_recursion(const std::vector<Rule>& rules) {
    std::vector<std::vector<int32_t>> calls;
    for (size_t rule = 0; rule < rules.size(); ++rule) calls.push_back(reach_from_start(rule).calls);
    enum : uint8_t { kNew, kOpen, kClosed };
    std::vector<uint8_t> mark(rules.size(), kNew);
    std::vector<std::pair<size_t, size_t>> path;  // rule, next of its calls
    for (size_t first = 0; first < rules.size(); ++first) {
      if (mark[first] != kNew) continue;
      path.emplace_back(first, 0);
      mark[first] = kOpen;
      while (!path.empty()) {
        auto& [rule, next] = path.back();
        if (next == calls[rule].size()) {
          mark[rule] = kClosed;
          path.pop_back();
          continue;
        }
        const auto callee = static_cast<size_t>(calls[rule][next++]);
        if (mark[callee] == kOpen)
          return Error{Code::kInvalidRequest,
                       fmt::format("grammar: rule {} calls itself before it reads anything (left recursion) at {}",
                                   rules[callee].name, rules[callee].position),
                       rules[callee].position};
        if (mark[callee] == kNew) {
          mark[callee] = kOpen;
          path.emplace_back(callee, 0);
        }
      }
    }
    return ok_status();
  }

  // useful_: states from which their rule's end can be reached, given that the rules called on the way can end.
  void mark_useful() {
    useful_.assign(nfa_.states.size(), false);
    std::vector<std::vector<int32_t>> before(nfa_.states.size());  // states that lead here
    std::vector<std::vector<int32_t>> callers(starts_.size());
    for (size_t i = 0; i < nfa_.states.size(); ++i) {
      const Nfa::State& s = nfa_.states[i];
      for (const Nfa::Edge& edge : s.edges) before[static_cast<size_t>(edge.to)].push_back(static_cast<int32_t>(i));
      for (const int32_t to : s.free) before[static_cast<size_t>(to)].push_back(static_cast<int32_t>(i));
      if (s.call >= 0) {
        before[static_cast<size_t>(s.after)].push_back(static_cast<int32_t>(i));
        callers[static_cast<size_t>(s.call)].push_back(static_cast<int32_t>(i));
      }
    }
    std::vector<int32_t> rule_of_start(nfa_.states.size(), -1);
    for (size_t rule = 0; rule < starts_.size(); ++rule)
      rule_of_start[static_cast<size_t>(starts_[rule])] = static_cast<int32_t>(rule);
    std::vector<int32_t> open;
    const auto mark = [&](int32_t state) {
      const Nfa::State& s = nfa_.at(state);
      if (useful_[static_cast<size_t>(state)]) return;
      const bool through_call = s.call >= 0;  // such a state has no other way on
      if (through_call && !(useful_[static_cast<size_t>(s.after)] &&
                            useful_[static_cast<size_t>(starts_[static_cast<size_t>(s.call)])]))
        return;
      useful_[static_cast<size_t>(state)] = true;
      open.push_back(state);
    };
    for (const int32_t end : ends_) mark(end);
    while (!open.empty()) {
      const auto state = static_cast<size_t>(open.back());
      open.pop_back();
      for (const int32_t previous : before[state]) mark(previous);
      if (rule_of_start[state] >= 0)
        for (const int32_t caller : callers[static_cast<size_t>(rule_of_start[state])]) mark(caller);
    }
  }

  // --- states ---
  void begin_set() {
    kept_.clear();
    visited_.clear();
  }

  // True where nothing is left to do in the rule but to return.
  bool only_returns(int32_t state) const {
    for (int32_t hops = 0; hops < 8; ++hops) {
      if (is_end_[static_cast<size_t>(state)]) return nfa_.at(state).free.empty();
      const Nfa::State& s = nfa_.at(state);
      if (!s.edges.empty() || s.call >= 0 || s.free.size() != 1) return false;
      state = s.free[0];
    }
    return false;
  }

  void add_thread(int32_t first, int32_t first_stack) {
    open_.push_back({first, first_stack});
    while (!open_.empty()) {
      const auto [state, stack] = open_.back();
      open_.pop_back();
      if (!useful_[static_cast<size_t>(state)]) continue;
      if (!visited_.insert(static_cast<int64_t>(state) << 32 | static_cast<uint32_t>(stack)).second) continue;
      if (visited_.size() > 64 * kRuleThreadsMax || kept_.size() > 2 * kRuleThreadsMax) {
        budget_.spend(std::numeric_limits<int64_t>::max() / 4);  // too ambiguous to follow
        open_.clear();
        return;
      }
      const Nfa::State& s = nfa_.at(state);
      if (!s.edges.empty()) kept_.push_back({state, stack});
      for (const int32_t to : s.free) open_.push_back({to, stack});
      if (s.call >= 0) {
        const int32_t callee = starts_[static_cast<size_t>(s.call)];
        if (only_returns(s.after)) {
          open_.push_back({callee, stack});
        } else {
          bool fresh = false;
          const int32_t pushed = stacks_.intern(std::array{s.after, stack}, fresh);
          if (fresh && !budget_.spend(Interner::bytes_of(2))) return open_.clear();
          open_.push_back({callee, pushed});
        }
      }
      if (is_end_[static_cast<size_t>(state)]) {
        if (stack == kBottom) {
          kept_.push_back({kDone, kBottom});
        } else {
          const auto frame = stacks_.at(stack);
          open_.push_back({frame[0], frame[1]});
        }
      }
    }
  }

  StateId end_set() {
    if (kept_.empty() || budget_.over()) return kDead;
    std::sort(kept_.begin(), kept_.end());
    kept_.erase(std::unique(kept_.begin(), kept_.end()), kept_.end());
    key_.clear();
    for (const auto& [state, stack] : kept_) {
      key_.push_back(state);
      key_.push_back(stack);
    }
    bool fresh = false;
    const StateId id = states_.intern(key_, fresh);
    if (fresh && !budget_.spend(Interner::bytes_of(key_.size()))) return kDead;
    return id;
  }

  Nfa nfa_;
  std::vector<int32_t> starts_, ends_;          // [rules]
  std::vector<bool> nullable_;                  // [rules]
  std::vector<bool> is_end_, useful_, marked_;  // [states of nfa_]
  int32_t root_ = 0;
  Interner stacks_;  // {where to go on, the stack below}
  Interner states_;  // {state, stack} of each thread, sorted
  std::vector<std::pair<int32_t, int32_t>> open_, kept_;
  std::unordered_set<int64_t> visited_;
  std::vector<int32_t> key_;
};

}  // namespace

Result<std::unique_ptr<Automaton>> compile_rules(const std::vector<Rule>& rules, int32_t root, const Limits& limits) {
  auto made = std::make_unique<RulesAutomaton>(limits);
  PAGODA_TRY_STATUS(made->build(rules, root));
  made->stop_clock();
  return std::unique_ptr<Automaton>(std::move(made));
}

}  // namespace pagoda::grammar
