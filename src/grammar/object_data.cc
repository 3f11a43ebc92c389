#include <algorithm>
#include <utility>

#include "grammar/object_case.h"

// What is known of an object while its members come.

namespace pagoda::grammar {

int32_t ObjectCase::intern(const Data& data) {
  std::vector<int32_t> key{static_cast<int32_t>(data.members), static_cast<int32_t>(data.witnessed), data.other_names};
  int32_t word = 0;
  for (size_t i = 0; i < data.seen.size(); ++i) {
    if (data.seen[i]) word |= static_cast<int32_t>(1u << (i % 31));
    if (i % 31 == 30 || i + 1 == data.seen.size()) key.push_back(std::exchange(word, 0));
  }
  bool fresh = false;
  const int32_t id = data_ids_.intern(key, fresh);
  if (fresh) {
    values_.budget().spend(Interner::bytes_of(key.size()) + 256);
    datas_.push_back(data);
    viable_.push_back(0);
    live_.emplace_back();
  }
  return id;
}

bool ObjectCase::satisfiable() {
  build();
  return !values_.failed() && viable(begin());
}

void ObjectCase::prepare() {
  build();
  for (const Class& c : std::vector(classes_))
    for (const auto& [witness, value] : c.witnesses)
      if (value >= 0 && c.witnesses.size() > 1)
        for (const auto& [other, other_value] : c.witnesses)
          if (other > witness && other_value >= 0) values_.with(value, {facts_.witnesses[other].value});
}

bool ObjectCase::witness_possible(size_t witness, const Data& data) {
  return std::any_of(classes_.begin(), classes_.end(), [&](const Class& c) {
    if (c.value < 0 || (c.named >= 0 && data.seen[static_cast<size_t>(c.named)])) return false;
    return std::any_of(c.witnesses.begin(), c.witnesses.end(), [&](const auto& w) {
      return w.first == witness && values_.satisfiable(w.second >= 0 ? w.second : c.value);
    });
  });
}

bool ObjectCase::compute_viable(const Data& data) {
  int64_t required_left = 0;
  for (const int32_t name : required_) {
    if (data.seen[static_cast<size_t>(name)]) continue;
    const int32_t c = class_of_name_[static_cast<size_t>(name)];
    if (c < 0 || !allowed(classes_[static_cast<size_t>(c)])) return false;
    ++required_left;
  }
  const bool complete = data.members == count_max_;  // so many or more
  int64_t extra = 0;
  for (size_t i = 0; i < facts_.witnesses.size(); ++i) {
    if ((data.witnessed >> i & 1u) != 0) continue;
    if (!witness_possible(i, data)) return false;
    const bool by_required = std::any_of(required_.begin(), required_.end(), [&](int32_t name) {
      const int32_t c = class_of_name_[static_cast<size_t>(name)];
      if (data.seen[static_cast<size_t>(name)]) return false;
      const auto& list = classes_[static_cast<size_t>(c)].witnesses;
      return std::any_of(list.begin(), list.end(), [i](const auto& w) { return w.first == i; });
    });
    if (!by_required) extra = 1;
  }
  if (facts_.max != INT64_MAX && data.members + required_left + extra > facts_.max) return false;
  if (complete || data.members >= facts_.min) return true;
  if (std::any_of(many_.begin(), many_.end(), [this](int32_t c) { return allowed(classes_[static_cast<size_t>(c)]); }))
    return true;
  int64_t left = 0;
  for (size_t i = 0; i < class_of_name_.size(); ++i)
    if (!data.seen[i] && class_of_name_[i] >= 0 && allowed(classes_[static_cast<size_t>(class_of_name_[i])])) ++left;
  return data.members + left >= facts_.min;
}

bool ObjectCase::viable(int32_t data) {
  const auto at = static_cast<size_t>(data);
  if (viable_[at] != 0) return viable_[at] > 0;
  const Data copy = datas_[at];
  const bool yes = compute_viable(copy);
  // A "no" may be due to a schema whose own answer is still being worked out.
  if (!values_.failed() && (yes || values_.settled())) viable_[at] = yes ? 1 : -1;
  return yes;
}

bool ObjectCase::may_close(int32_t data) {
  const Data& d = data_at(data);
  return d.members >= facts_.min && d.witnessed + 1 == 1u << facts_.witnesses.size() &&
         std::all_of(required_.begin(), required_.end(),
                     [&d](int32_t name) { return d.seen[static_cast<size_t>(name)]; });
}

void ObjectCase::add_ways(int32_t data, const Class& c, int32_t key_text, std::vector<Way>& out) {
  if (c.value < 0) return;
  Data next = data_at(data);
  if (c.named >= 0) {
    if (next.seen[static_cast<size_t>(c.named)]) return;
    next.seen[static_cast<size_t>(c.named)] = true;
  } else if (keeps_names_ && key_text >= 0) {
    const auto view = name_sets_.at(next.other_names);
    std::vector<int32_t> names(view.begin(), view.end());
    const auto place = std::lower_bound(names.begin(), names.end(), key_text);
    if (place != names.end() && *place == key_text) return;
    names.insert(place, key_text);
    bool fresh = false;
    next.other_names = name_sets_.intern(names, fresh);
    if (fresh) values_.budget().spend(Interner::bytes_of(names.size()));
  }
  next.members = std::min(next.members + 1, count_max_);
  // Which of the witnesses that need a value of their own this member is: any subset of them may be.
  std::vector<size_t> open;
  for (const auto& [witness, value] : c.witnesses) {
    if ((next.witnessed >> witness & 1u) != 0) continue;
    if (value < 0)
      next.witnessed |= 1u << witness;
    else
      open.push_back(witness);
  }
  for (uint32_t subset = 0; subset < 1u << open.size(); ++subset) {
    Data guess = next;
    std::vector<Literal> more;
    for (size_t i = 0; i < open.size(); ++i)
      if ((subset >> i & 1u) != 0) {
        guess.witnessed |= 1u << open[i];
        more.push_back(facts_.witnesses[open[i]].value);
      }
    const ConjId value = more.empty() ? c.value : values_.with(c.value, more);
    if (!values_.satisfiable(value)) continue;
    const int32_t id = intern(guess);
    if (viable(id)) out.push_back({id, value});
  }
}

const std::vector<ObjectCase::Way>& ObjectCase::ways(int32_t data, int32_t key, int32_t key_text) {
  static const std::vector<Way> kNone;
  const int32_t index = class_at(key);
  if (index < 0) return kNone;
  // A remembered name makes the answer its own: (data, class) is not enough, so the text takes the class's place.
  const bool remembered = keeps_names_ && key_text >= 0 && classes_[static_cast<size_t>(index)].named < 0;
  const auto [known, fresh] = ways_.try_emplace({data, remembered ? -2 - key_text : index});
  if (fresh) {
    std::vector<Way> made;
    const Class c = classes_[static_cast<size_t>(index)];
    add_ways(data, c, key_text, made);
    values_.budget().spend(96);
    known->second = std::move(made);
  }
  return known->second;
}

bool ObjectCase::key_live(int32_t data, int32_t key) {
  const std::vector<int8_t>& known = live_[static_cast<size_t>(data)];
  if (const auto at = static_cast<size_t>(key); at < known.size() && known[at] != 0) return known[at] > 0;
  if (key_->fate(key, *name_formula_) < 0) return false;
  return key_->reaches(
      key, [&](int32_t s) { return !ways(data, s, -1).empty(); },
      [this](int32_t s) { return key_->fate(s, *name_formula_) < 0; }, live_[static_cast<size_t>(data)]);
}

int32_t ObjectCase::free_key(int32_t data, int32_t key) {
  if (keeps_names_ || key_->fate(key, names_component_) >= 0) return -1;
  std::vector<bool> open;
  for (const int32_t c : many_) {
    const auto [known, fresh] = ways_.try_emplace({data, c});
    if (fresh) add_ways(data, classes_[static_cast<size_t>(c)], -1, known->second);
    open.push_back(!known->second.empty());
  }
  return free_kinds_.try_emplace(std::move(open), static_cast<int32_t>(free_kinds_.size())).first->second;
}

}  // namespace pagoda::grammar
