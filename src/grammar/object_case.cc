#include "grammar/object_case.h"

#include <algorithm>

namespace pagoda::grammar {
namespace {

constexpr size_t kFiniteNamesMax = 300;  // names of patterns such as ^[a-f]$ are told apart up to so many
constexpr size_t kFiniteNameBytes = 24;
constexpr size_t kWitnessesMax = 8;

}  // namespace

ObjectCase::ObjectCase(Values& values, ValueCase facts, std::string path)
    : values_(values), facts_(std::move(facts)), path_(std::move(path)) {
  // Equal witnesses come from schemas that are mentioned twice.
  std::vector<Witness> distinct;
  for (const Witness& w : facts_.witnesses)
    if (std::none_of(distinct.begin(), distinct.end(), [&w](const Witness& d) {
          return d.kind == w.kind && d.value == w.value && d.pattern == w.pattern && d.node == w.node;
        }))
      distinct.push_back(w);
  facts_.witnesses = std::move(distinct);
}

void ObjectCase::list_names(std::vector<std::string>& names) {
  for (const NodeId id : facts_.groups)
    for (const auto& [name, part] : values_.schema().node(id).properties) names.push_back(name);
  for (const auto& [name, literal] : facts_.members) names.push_back(name);
  names.insert(names.end(), facts_.required.begin(), facts_.required.end());
  for (const Witness& witness : facts_.witnesses)
    if (witness.kind == Witness::Kind::kAdditional)
      for (const auto& [name, part] : values_.schema().node(witness.node).properties) names.push_back(name);
}

void ObjectCase::make_key(std::vector<std::string> names) {
  names_ = make_names(std::move(names));
  std::vector<ComponentPtr> components{make_utf8(), names_};
  names_component_ = 1;
  pattern_ids_.clear();
  pattern_formulas_.clear();
  witness_formulas_.clear();
  const auto add_pattern = [&](int32_t pattern) {
    if (std::find(pattern_ids_.begin(), pattern_ids_.end(), pattern) != pattern_ids_.end()) return;
    pattern_ids_.push_back(pattern);
    pattern_formulas_.push_back(
        values_.pattern_formula(values_.schema().pattern_ptr(pattern), path_ + "/patternProperties", components));
  };
  const auto add_patterns_of = [&](NodeId id) {
    for (const auto& [pattern, part] : values_.schema().node(id).patterns) add_pattern(pattern);
  };
  for (const NodeId id : facts_.groups) add_patterns_of(id);
  for (const Witness& witness : facts_.witnesses) {
    FormulaPtr formula;
    if (witness.kind == Witness::Kind::kPattern) add_pattern(witness.pattern);
    if (witness.kind == Witness::Kind::kAdditional) add_patterns_of(witness.node);
    if (witness.kind == Witness::Kind::kName)
      formula = values_.formula(not_that(values_.schema().node(witness.node).names), kString, components);
    witness_formulas_.push_back(std::move(formula));
  }
  std::vector<FormulaPtr> parts{make_leaf(0)};
  for (const Literal literal : facts_.names) parts.push_back(values_.formula(literal, kString, components));
  name_formula_ = make_formula(Formula::Kind::kAnd, std::move(parts));
  key_ = std::make_unique<Lexeme>(std::move(components), values_.budget());
  classes_.clear();
  class_of_signature_.clear();
  class_of_key_.clear();
  many_.clear();
  class_of_name_.assign(names_->names().size(), -1);
  for (size_t i = 0; i < class_of_name_.size() && !values_.failed(); ++i) {
    int32_t state = key_->start();
    for (const char c : names_->names()[i]) state = key_->step(state, static_cast<uint8_t>(c));
    class_of_name_[i] = key_->now(state, *name_formula_) ? make_class(state, static_cast<int32_t>(i)) : -1;
  }
}

void ObjectCase::build() {
  if (built_) return;
  built_ = true;
  std::vector<std::string> names;
  list_names(names);
  make_key(names);
  if (values_.failed()) return;
  const bool counts = facts_.min > 1 || facts_.max != INT64_MAX || !facts_.witnesses.empty();
  std::vector<std::string> finite = names_->names();
  if (counts && expand_finite(finite)) make_key(std::move(finite));
  if (facts_.witnesses.size() > kWitnessesMax)
    values_.fail(schema_error(path_, "too many members that must exist somewhere", Code::kUnsupported));
  const bool alike = pattern_formulas_.empty() && name_formula_->kind == Formula::Kind::kLeaf &&
                     std::none_of(witness_formulas_.begin(), witness_formulas_.end(), [](const auto& f) { return f; });
  if (alike)
    make_class(key_->start(), -1);
  else
    visit_labels([](int32_t) { return true; });  // meets every class
  for (int32_t i = 0; i < static_cast<int32_t>(classes_.size()); ++i)
    if (classes_[static_cast<size_t>(i)].named < 0 && classes_[static_cast<size_t>(i)].value >= 0) many_.push_back(i);
  for (const std::string& name : facts_.required) required_.push_back(names_->find(name));
  keeps_names_ = !many_.empty() && (facts_.min > 1 || !facts_.witnesses.empty());
  count_max_ = std::max(facts_.min, facts_.max == INT64_MAX ? 0 : facts_.max + 1);
  Data nothing;
  nothing.seen.assign(names_->names().size(), false);
  bool fresh = false;
  name_sets_.intern({}, fresh);  // 0 = no names
  intern(nothing);
}

// Visits every key state that ends an allowed name not mentioned, until `visit` says no. False if it did, or if there
// are too many.
bool ObjectCase::visit_labels(const std::function<bool(int32_t)>& visit) {
  std::vector<int32_t> open{key_->start()};
  std::vector<bool> seen;
  const auto mark = [&](int32_t state) {
    const auto at = static_cast<size_t>(state);
    if (seen.size() <= at) seen.resize(at + 1 + at / 2, false);
    const bool fresh = !seen[at];
    seen[at] = true;
    return fresh;
  };
  mark(open[0]);
  while (!open.empty() && !values_.failed()) {
    const int32_t state = open.back();
    open.pop_back();
    if (key_->fate(state, *name_formula_) < 0 || key_->fate(state, 0) < 0) continue;
    if (names_->name_at(key_->state_of(state, names_component_)) < 0 && class_at(state) >= 0 && !visit(state))
      return false;
    for (const uint8_t byte : key_->representatives()) {
      const int32_t next = key_->step(state, byte);
      if (mark(next)) open.push_back(next);
    }
    values_.budget().spend(16);
  }
  return !values_.failed();
}

// Where the names that may come besides the mentioned ones are few, they are mentioned too.
bool ObjectCase::expand_finite(std::vector<std::string>& names) {
  struct Visit {
    int32_t state;
    std::string text;
  };
  std::vector<Visit> open{{key_->start(), ""}};
  std::vector<int8_t> known;
  const auto wanted = [this](int32_t s) {
    const int32_t c = class_at(s);
    return c >= 0 && classes_[static_cast<size_t>(c)].named < 0 && classes_[static_cast<size_t>(c)].value >= 0;
  };
  const auto barred = [this](int32_t s) { return key_->fate(s, *name_formula_) < 0; };
  size_t steps = 0;
  while (!open.empty()) {
    const Visit here = std::move(open.back());
    open.pop_back();
    if (wanted(here.state)) names.push_back(here.text);
    if (names.size() > kFiniteNamesMax || here.text.size() > kFiniteNameBytes || ++steps > 20'000) return false;
    for (int32_t byte = 0; byte < 256; ++byte) {
      const int32_t next = key_->step(here.state, static_cast<uint8_t>(byte));
      if (barred(next) || !key_->reaches(next, wanted, barred, known)) continue;
      if (open.size() > kFiniteNamesMax) return false;
      open.push_back({next, here.text + static_cast<char>(byte)});
    }
  }
  return true;
}

ObjectCase::Literals ObjectCase::literals_of(int32_t key, int32_t named) {
  Literals out;
  const std::string* name = named >= 0 ? &names_->names()[static_cast<size_t>(named)] : nullptr;
  const auto matches = [&](int32_t pattern) {
    const auto at = std::find(pattern_ids_.begin(), pattern_ids_.end(), pattern) - pattern_ids_.begin();
    return key_->now(key, *pattern_formulas_[static_cast<size_t>(at)]);
  };
  for (const NodeId id : facts_.groups) {
    const SchemaNode& node = values_.schema().node(id);
    bool known = false;
    if (name != nullptr)
      for (const auto& [property, part] : node.properties)
        if (property == *name) known = true, out.push_back(that(part));
    for (const auto& [pattern, part] : node.patterns)
      if (matches(pattern)) known = true, out.push_back(that(part));
    if (!known && node.additional != kNoNode) out.push_back(that(node.additional));
  }
  if (name != nullptr)
    for (const auto& [member, literal] : facts_.members)
      if (member == *name) out.push_back(literal);
  return out;
}

bool ObjectCase::is_witness(const Witness& witness, size_t index, int32_t key, int32_t named) {
  const auto matches = [&](int32_t pattern) {
    const auto at = std::find(pattern_ids_.begin(), pattern_ids_.end(), pattern) - pattern_ids_.begin();
    return key_->now(key, *pattern_formulas_[static_cast<size_t>(at)]);
  };
  if (witness.kind == Witness::Kind::kName) return key_->now(key, *witness_formulas_[index]);
  if (witness.kind == Witness::Kind::kPattern) return matches(witness.pattern);
  const SchemaNode& node = values_.schema().node(witness.node);
  if (named >= 0)
    for (const auto& [property, part] : node.properties)
      if (property == names_->names()[static_cast<size_t>(named)]) return false;
  return std::none_of(node.patterns.begin(), node.patterns.end(), [&](const auto& p) { return matches(p.first); });
}

int32_t ObjectCase::make_class(int32_t key, int32_t named) {
  std::vector<bool> signature;
  if (named < 0) {
    for (const FormulaPtr& formula : pattern_formulas_) signature.push_back(key_->now(key, *formula));
    for (const FormulaPtr& formula : witness_formulas_) signature.push_back(formula && key_->now(key, *formula));
    if (const auto known = class_of_signature_.find(signature); known != class_of_signature_.end())
      return known->second;
  }
  Class made;
  made.named = named;
  made.value = values_.conjunction(literals_of(key, named));
  if (made.value == values_.conjunction({kNever})) made.value = -1;
  for (size_t i = 0; made.value >= 0 && i < facts_.witnesses.size(); ++i)
    if (is_witness(facts_.witnesses[i], i, key, named))
      made.witnesses.emplace_back(
          i, facts_.witnesses[i].value == kAlways ? -1 : values_.with(made.value, {facts_.witnesses[i].value}));
  values_.budget().spend(128);
  classes_.push_back(std::move(made));
  const auto index = static_cast<int32_t>(classes_.size()) - 1;
  if (named < 0) class_of_signature_.emplace(std::move(signature), index);
  return index;
}

int32_t ObjectCase::class_at(int32_t key) {
  const auto at = static_cast<size_t>(key);
  if (class_of_key_.size() <= at) class_of_key_.resize(at + 1 + at / 2, -2);
  if (class_of_key_[at] != -2) return class_of_key_[at];
  int32_t out = -1;
  if (key_->now(key, *name_formula_)) {
    const int32_t name = names_->name_at(key_->state_of(key, names_component_));
    out = name >= 0 ? class_of_name_[static_cast<size_t>(name)] : make_class(key, -1);
  }
  return class_of_key_[at] = out;
}

}  // namespace pagoda::grammar
