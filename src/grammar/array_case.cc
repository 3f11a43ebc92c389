#include "grammar/array_case.h"

#include <algorithm>

namespace pagoda::grammar {
namespace {

constexpr int64_t kPositionsMax = 10'000;  // items told apart by their index
constexpr size_t kContainsMax = 6;

}  // namespace

ArrayCase::ArrayCase(Values& values, ValueCase facts, std::string path)
    : values_(values), facts_(std::move(facts)), path_(std::move(path)) {
  std::vector<Contains> distinct;
  for (const Contains& c : facts_.contains) {
    const auto same = std::find_if(distinct.begin(), distinct.end(),
                                   [&c](const Contains& d) { return d.value == c.value && d.from == c.from; });
    if (same == distinct.end()) {
      distinct.push_back(c);
    } else {
      same->min = std::max(same->min, c.min);
      same->max = std::min(same->max, c.max);
    }
  }
  facts_.contains = std::move(distinct);
}

void ArrayCase::build() {
  if (built_) return;
  built_ = true;
  for (const NodeId id : facts_.groups)
    alike_from_ = std::max(alike_from_, static_cast<int64_t>(values_.schema().node(id).prefix.size()));
  for (const auto& [index, literal] : facts_.elements) alike_from_ = std::max(alike_from_, index + 1);
  for (const Contains& c : facts_.contains) alike_from_ = std::max(alike_from_, c.from);
  items_max_ = std::max({alike_from_, facts_.min, facts_.max == INT64_MAX ? 0 : facts_.max});
  int64_t contains_max = 0;
  for (const Contains& c : facts_.contains)
    contains_max = std::max({contains_max, c.min, c.max == INT64_MAX ? 0 : c.max});
  if (facts_.contains.size() > kContainsMax || alike_from_ > kPositionsMax || contains_max > kPositionsMax)
    return values_.fail(schema_error(path_, "too much to count in an array", Code::kTooLarge));
  for (int64_t i = 0; i <= alike_from_; ++i) items_.push_back(item(i));
  Data nothing;
  nothing.found.assign(facts_.contains.size(), 0);
  intern(nothing);
}

ConjId ArrayCase::item(int64_t index) {
  std::vector<Literal> out;
  for (const NodeId id : facts_.groups) {
    const SchemaNode& node = values_.schema().node(id);
    if (index < static_cast<int64_t>(node.prefix.size()))
      out.push_back(that(node.prefix[static_cast<size_t>(index)]));
    else if (node.items != kNoNode)
      out.push_back(that(node.items));
  }
  for (const auto& [at, literal] : facts_.elements)
    if (at == index) out.push_back(literal);
  return values_.conjunction(std::move(out));
}

int32_t ArrayCase::intern(const Data& data) {
  std::vector<int32_t> key{static_cast<int32_t>(data.items)};
  key.insert(key.end(), data.found.begin(), data.found.end());
  key.insert(key.end(), data.values.begin(), data.values.end());
  bool fresh = false;
  const int32_t id = data_ids_.intern(key, fresh);
  if (fresh) {
    values_.budget().spend(Interner::bytes_of(key.size()) + 160);
    datas_.push_back(data);
    viable_.push_back(0);
  }
  return id;
}

int32_t ArrayCase::begin() {
  build();
  return 0;
}

bool ArrayCase::satisfiable() {
  build();
  return !values_.failed() && viable(0);
}

void ArrayCase::prepare() {
  build();
  for (const ConjId item : items_) {
    for (const Contains& c : facts_.contains) {
      values_.with(item, {c.value});
      if (c.max != INT64_MAX) values_.with(item, {opposite(c.value)});
    }
    if (!facts_.unique || facts_.max <= 1 || !values_.satisfiable(item)) continue;
    const ValueSpec& spec = values_.spec(item);
    if (!spec.objects.empty() || !spec.arrays.empty())
      values_.fail(schema_error(path_ + "/uniqueItems", "uniqueItems of arrays or objects cannot be checked",
                                Code::kUnsupported));
  }
}

bool ArrayCase::findable(size_t contains, int64_t from_index) {
  const Contains& c = facts_.contains[contains];
  for (int64_t i = std::min(std::max(from_index, c.from), alike_from_); i <= alike_from_; ++i) {
    if (i >= facts_.max) return false;
    const ConjId base = items_[static_cast<size_t>(i)];
    if (values_.satisfiable(values_.with(base, {c.value}))) return true;
    if (!values_.satisfiable(base)) return false;  // no item there, none behind it
  }
  return false;
}

bool ArrayCase::compute_viable(const Data& data) {
  if (data.items > facts_.max) return false;
  int64_t needed = std::max<int64_t>(0, facts_.min - data.items);
  for (size_t i = 0; i < facts_.contains.size(); ++i) {
    const Contains& c = facts_.contains[i];
    if (data.found[i] > c.max) return false;
    const int64_t missing = c.min - data.found[i];
    if (missing <= 0) continue;
    needed = std::max(needed, missing + std::max<int64_t>(0, c.from - data.items));
    if (!findable(i, data.items)) return false;
  }
  if (facts_.max != INT64_MAX && data.items + needed > facts_.max) return false;
  const int64_t last = data.items + needed;  // all before it must be possible
  for (int64_t i = data.items; i < last && i <= alike_from_; ++i)
    if (!values_.satisfiable(items_[static_cast<size_t>(i)])) return false;
  if (last > data.items && data.items > alike_from_) return values_.satisfiable(items_.back());
  return true;
}

bool ArrayCase::viable(int32_t data) {
  const auto at = static_cast<size_t>(data);
  if (viable_[at] != 0) return viable_[at] > 0;
  const Data copy = datas_[at];
  const bool yes = compute_viable(copy);
  if (!values_.failed() && (yes || values_.settled())) viable_[at] = yes ? 1 : -1;
  return yes;
}

bool ArrayCase::may_close(int32_t data) {
  const Data& d = datas_[static_cast<size_t>(data)];
  if (d.items < facts_.min) return false;
  for (size_t i = 0; i < facts_.contains.size(); ++i)
    if (d.found[i] < facts_.contains[i].min) return false;
  return true;
}

// For each contains whose number matters the item is guessed to be one of those or not.
void ArrayCase::add_ways(const Data& data, std::vector<Way>& out) {
  ConjId base = items_[static_cast<size_t>(std::min(data.items, alike_from_))];
  if (facts_.unique) {
    std::vector<Literal> others;
    for (const NodeId value : data.values) others.push_back(not_that(value));
    base = values_.with(base, others);
  }
  std::vector<size_t> open;
  for (size_t i = 0; i < facts_.contains.size(); ++i) {
    const Contains& c = facts_.contains[i];
    if (data.items >= c.from && (c.max != INT64_MAX || data.found[i] < c.min)) open.push_back(i);
  }
  for (uint32_t subset = 0; subset < 1u << open.size(); ++subset) {
    Data next = data;
    next.items = std::min(next.items + 1, std::max(items_max_, facts_.max == INT64_MAX ? 0 : facts_.max + 1));
    std::vector<Literal> more;
    for (size_t i = 0; i < open.size(); ++i) {
      const Contains& c = facts_.contains[open[i]];
      if ((subset >> i & 1u) != 0) {
        more.push_back(c.value);
        ++next.found[open[i]];
      } else if (c.max != INT64_MAX) {
        more.push_back(opposite(c.value));
      }
    }
    const ConjId value = values_.with(base, more);
    if (!values_.satisfiable(value)) continue;
    const int32_t id = intern(next);
    if (viable(id)) out.push_back({id, value});
  }
}

const std::vector<ArrayCase::Way>& ArrayCase::ways(int32_t data) {
  const auto [known, fresh] = ways_.try_emplace(data);
  if (fresh) {
    std::vector<Way> made;
    const Data copy = datas_[static_cast<size_t>(data)];
    add_ways(copy, made);
    values_.budget().spend(96);
    known->second = std::move(made);
  }
  return known->second;
}

int32_t ArrayCase::remember(int32_t data, NodeId value) {
  Data next = datas_[static_cast<size_t>(data)];
  next.values.insert(std::lower_bound(next.values.begin(), next.values.end(), value), value);
  return intern(next);
}

}  // namespace pagoda::grammar
