#include "grammar/value_cases.h"

#include <fmt/format.h>

#include <algorithm>

namespace pagoda::grammar {

Error schema_error(const std::string& path, std::string_view what, Code code) {
  return Error{code, fmt::format("schema: {} at {}", what, path.empty() ? "the root" : path),
               path.empty() ? "/" : path};
}

namespace {

constexpr size_t kCasesMax = 4096;
constexpr int64_t kWorkBytes = 400;

template <class T>
void add_all(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

CaseStep of_literals(std::vector<Literal> literals) {
  CaseStep step;
  step.literals = std::move(literals);
  return step;
}

CaseStep of_required(const std::string& name) {
  CaseStep step;
  step.facts.required.push_back(name);
  return step;
}

CaseStep of_absent(const std::string& name) {
  CaseStep step;
  step.facts.members.emplace_back(name, kNever);
  return step;
}

CaseStep of_counts(int64_t min, int64_t max) {
  CaseStep step;
  step.facts.min = min;
  step.facts.max = max;
  return step;
}

}  // namespace

struct CaseExpander::Work {
  ValueCase facts{};
  std::vector<Literal> open{};
  std::vector<Literal> done{};
  std::vector<std::vector<CaseStep>> choices{};
};

void CaseExpander::fail(const SchemaNode& node, const char* keyword, std::string_view what, Code code) {
  if (!error_) error_ = schema_error(node.path + "/" + keyword, what, code);
}

bool CaseExpander::impossible(Literal literal) const {
  const SchemaNode& node = schema_.node(node_of(literal));
  if (node.constant) return *node.constant == negative(literal);
  return !negative(literal) && (node.types & type_) == 0;
}

bool CaseExpander::apply(Work& work, const CaseStep& step) {
  ValueCase& facts = work.facts;
  add_all(facts.groups, step.facts.groups);
  facts.min = std::max(facts.min, step.facts.min);
  facts.max = std::min(facts.max, step.facts.max);
  add_all(facts.members, step.facts.members);
  add_all(facts.names, step.facts.names);
  add_all(facts.witnesses, step.facts.witnesses);
  add_all(facts.elements, step.facts.elements);
  add_all(facts.contains, step.facts.contains);
  facts.unique = facts.unique || step.facts.unique;
  for (const std::string& name : step.facts.required)
    if (std::find(facts.required.begin(), facts.required.end(), name) == facts.required.end())
      facts.required.push_back(name);
  add_all(work.open, step.literals);
  add_all(work.choices, step.choices);
  if (facts.min > facts.max) return false;
  return std::none_of(facts.members.begin(), facts.members.end(), [&](const auto& member) {
    return member.second == kNever &&
           std::find(facts.required.begin(), facts.required.end(), member.first) != facts.required.end();
  });
}

bool CaseExpander::settle(Work& work) {
  while (!work.open.empty()) {
    const Literal literal = work.open.back();
    work.open.pop_back();
    const auto has = [&work](Literal l) { return std::find(work.done.begin(), work.done.end(), l) != work.done.end(); };
    if (has(literal)) continue;
    if (has(opposite(literal))) return false;
    work.done.push_back(literal);
    CaseStep step;
    if (!describe(literal, step) || error_ || !apply(work, step)) return false;
  }
  return true;
}

Result<std::vector<ValueCase>> CaseExpander::expand(const std::vector<Literal>& literals, Types type) {
  type_ = type;
  error_.reset();
  std::vector<ValueCase> out;
  std::vector<Work> stack(1);
  stack[0].open.assign(literals.rbegin(), literals.rend());
  const std::string& path = schema_.node(node_of(literals.empty() ? kAlways : literals[0])).path;
  while (!stack.empty() && !error_) {
    Work work = std::move(stack.back());
    stack.pop_back();
    if (!budget_.spend(kWorkBytes) || out.size() > kCasesMax)
      return schema_error(path, "too many combinations of alternatives", Code::kTooLarge);
    if (!settle(work)) continue;
    if (work.choices.empty()) {
      out.push_back(std::move(work.facts));
      continue;
    }
    const auto fewest = std::min_element(work.choices.begin(), work.choices.end(),
                                         [](const auto& a, const auto& b) { return a.size() < b.size(); });
    const std::vector<CaseStep> ways = std::move(*fewest);
    work.choices.erase(fewest);
    for (auto way = ways.rbegin(); way != ways.rend(); ++way) {
      Work next = work;
      if (apply(next, *way)) stack.push_back(std::move(next));
    }
  }
  if (error_) return *error_;
  return out;
}

bool CaseExpander::describe(Literal literal, CaseStep& out) {
  const NodeId id = node_of(literal);
  if (const auto constant = schema_.node(id).constant) return *constant != negative(literal);
  return negative(literal) ? describe_negative(id, out) : describe_positive(id, out);
}

bool CaseExpander::describe_positive(NodeId id, CaseStep& out) {
  const SchemaNode node = schema_.node(id);  // a copy: constant() may move the nodes
  if ((node.types & type_) == 0) return false;
  if (node.values) {
    std::vector<CaseStep> ways;
    for (const JsonValue* value : *node.values)
      if (type_of(*value) == type_) ways.push_back(of_literals({that(schema_.constant(value))}));
    if (ways.empty()) return false;
    out.choices.push_back(std::move(ways));
  }
  for (const NodeId part : node.all_of) out.literals.push_back(that(part));
  if (node.ref != kNoNode) out.literals.push_back(that(node.ref));
  if (node.negated != kNoNode) out.literals.push_back(not_that(node.negated));
  if (!node.any_of.empty()) {
    std::vector<CaseStep> ways;
    bool always = false;
    for (const NodeId part : node.any_of) {
      if (!impossible(that(part))) ways.push_back(of_literals({that(part)}));
      always = always || impossible(not_that(part));
    }
    if (ways.empty()) return false;
    if (!always) out.choices.push_back(std::move(ways));
  }
  if (!node.one_of.empty() && !describe_one_of(node, out)) return false;
  if (node.condition != kNoNode && (node.then_node != kNoNode || node.else_node != kNoNode)) {
    CaseStep yes = of_literals({that(node.condition)}), no = of_literals({not_that(node.condition)});
    if (node.then_node != kNoNode) yes.literals.push_back(that(node.then_node));
    if (node.else_node != kNoNode) no.literals.push_back(that(node.else_node));
    out.choices.push_back({std::move(yes), std::move(no)});
  }
  type_ == kObject ? describe_object(node, id, out) : describe_array(node, id, out);
  return true;
}

bool CaseExpander::describe_one_of(const SchemaNode& node, CaseStep& out) {
  std::vector<CaseStep> ways;
  for (size_t i = 0; i < node.one_of.size(); ++i) {
    if (impossible(that(node.one_of[i]))) continue;
    CaseStep way = of_literals({that(node.one_of[i])});
    for (size_t j = 0; j < node.one_of.size(); ++j)
      if (j != i && !impossible(that(node.one_of[j])) && !disjoint_(node.one_of[i], node.one_of[j], type_))
        way.literals.push_back(not_that(node.one_of[j]));
    ways.push_back(std::move(way));
  }
  if (ways.empty()) return false;
  out.choices.push_back(std::move(ways));
  return true;
}

void CaseExpander::describe_object(const SchemaNode& node, NodeId id, CaseStep& out) {
  if (!node.properties.empty() || !node.patterns.empty() || node.additional != kNoNode) out.facts.groups.push_back(id);
  out.facts.required = node.required;
  out.facts.min = node.min_properties;
  out.facts.max = node.max_properties;
  if (node.names != kNoNode) out.facts.names.push_back(that(node.names));
  for (const auto& [name, needed] : node.dependent_required) {
    CaseStep present = of_required(name);
    add_all(present.facts.required, needed);
    out.choices.push_back({of_absent(name), std::move(present)});
  }
  for (const auto& [name, part] : node.dependent_schemas) {
    CaseStep present = of_required(name);
    present.literals.push_back(that(part));
    out.choices.push_back({of_absent(name), std::move(present)});
  }
}

void CaseExpander::describe_array(const SchemaNode& node, NodeId id, CaseStep& out) {
  if (!node.prefix.empty() || node.items != kNoNode) out.facts.groups.push_back(id);
  out.facts.min = node.min_items;
  out.facts.max = node.max_items;
  out.facts.unique = node.unique_items;
  if (node.contains != kNoNode && (node.min_contains > 0 || node.max_contains != INT64_MAX))
    out.facts.contains.push_back({that(node.contains), node.min_contains, node.max_contains, 0});
}

// --- what is the case where a schema does not hold ---

bool CaseExpander::describe_negative(NodeId id, CaseStep& out) {
  const SchemaNode node = schema_.node(id);
  if ((node.types & type_) == 0) return true;
  std::vector<CaseStep> ways;
  if (node.values) {
    CaseStep other;
    for (const JsonValue* value : *node.values)
      if (type_of(*value) == type_) other.literals.push_back(not_that(schema_.constant(value)));
    if (other.literals.empty()) return true;
    ways.push_back(std::move(other));
  }
  oppose_general(node, ways);
  type_ == kObject ? oppose_object(node, id, ways) : oppose_array(node, ways);
  std::erase_if(ways, [this](const CaseStep& way) {
    return std::any_of(way.literals.begin(), way.literals.end(), [this](Literal l) { return impossible(l); });
  });
  if (ways.empty()) return false;
  out.choices.push_back(std::move(ways));
  return true;
}

void CaseExpander::oppose_general(const SchemaNode& node, std::vector<CaseStep>& ways) {
  for (const NodeId part : node.all_of) ways.push_back(of_literals({not_that(part)}));
  if (node.ref != kNoNode) ways.push_back(of_literals({not_that(node.ref)}));
  if (node.negated != kNoNode) ways.push_back(of_literals({that(node.negated)}));
  for (const auto* list : {&node.any_of, &node.one_of}) {
    if (list->empty()) continue;
    CaseStep none;
    for (const NodeId part : *list) none.literals.push_back(not_that(part));
    ways.push_back(std::move(none));
  }
  for (size_t i = 0; i < node.one_of.size(); ++i)
    for (size_t j = i + 1; j < node.one_of.size(); ++j)
      if (!disjoint_(node.one_of[i], node.one_of[j], type_))
        ways.push_back(of_literals({that(node.one_of[i]), that(node.one_of[j])}));
  if (node.condition != kNoNode) {
    if (node.then_node != kNoNode) ways.push_back(of_literals({that(node.condition), not_that(node.then_node)}));
    if (node.else_node != kNoNode) ways.push_back(of_literals({not_that(node.condition), not_that(node.else_node)}));
  }
}

void CaseExpander::oppose_object(const SchemaNode& node, NodeId id, std::vector<CaseStep>& ways) {
  const auto never = [this](Literal literal) {
    const auto constant = schema_.node(node_of(literal)).constant;
    return constant && *constant == negative(literal);
  };
  for (const auto& [name, part] : node.properties) {
    if (never(not_that(part))) continue;
    CaseStep way = of_required(name);
    way.facts.members.emplace_back(name, not_that(part));
    ways.push_back(std::move(way));
  }
  const auto add_witness = [&](Witness witness) {
    if (never(witness.value)) return;
    CaseStep way;
    way.facts.witnesses.push_back(witness);
    ways.push_back(std::move(way));
  };
  for (const auto& [pattern, part] : node.patterns) add_witness({Witness::Kind::kPattern, id, pattern, not_that(part)});
  if (node.additional != kNoNode) add_witness({Witness::Kind::kAdditional, id, -1, not_that(node.additional)});
  if (node.names != kNoNode) add_witness({Witness::Kind::kName, id, -1, kAlways});
  for (const std::string& name : node.required) ways.push_back(of_absent(name));
  if (node.min_properties > 0) ways.push_back(of_counts(0, node.min_properties - 1));
  if (node.max_properties != INT64_MAX) ways.push_back(of_counts(node.max_properties + 1, INT64_MAX));
  for (const auto& [name, needed] : node.dependent_required)
    for (const std::string& other : needed) {
      CaseStep way = of_required(name);
      way.facts.members.emplace_back(other, kNever);
      ways.push_back(std::move(way));
    }
  for (const auto& [name, part] : node.dependent_schemas) {
    CaseStep way = of_required(name);
    way.literals.push_back(not_that(part));
    ways.push_back(std::move(way));
  }
}

void CaseExpander::oppose_array(const SchemaNode& node, std::vector<CaseStep>& ways) {
  const auto add_contains = [&](Contains contains) {
    CaseStep way;
    way.facts.contains.push_back(contains);
    ways.push_back(std::move(way));
  };
  for (size_t i = 0; i < node.prefix.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    CaseStep way = of_counts(index + 1, INT64_MAX);
    way.facts.elements.emplace_back(index, not_that(node.prefix[i]));
    if (node.prefix[i] != kTrueNode) ways.push_back(std::move(way));
  }
  if (node.items != kNoNode && node.items != kTrueNode)
    add_contains({not_that(node.items), 1, INT64_MAX, static_cast<int64_t>(node.prefix.size())});
  if (node.contains != kNoNode) {
    if (node.min_contains > 0) add_contains({that(node.contains), 0, node.min_contains - 1, 0});
    if (node.max_contains != INT64_MAX) add_contains({that(node.contains), node.max_contains + 1, INT64_MAX, 0});
  }
  if (node.min_items > 0) ways.push_back(of_counts(0, node.min_items - 1));
  if (node.max_items != INT64_MAX) ways.push_back(of_counts(node.max_items + 1, INT64_MAX));
  if (node.unique_items) fail(node, "uniqueItems", "the opposite of uniqueItems cannot be checked", Code::kUnsupported);
}

}  // namespace pagoda::grammar
