#include <algorithm>

#include "grammar/values.h"

namespace pagoda::grammar {
namespace {

using FormulaKind = Formula::Kind;

bool looks_around(const Pattern& pattern) {
  if (pattern.kind == Pattern::Kind::kAhead || pattern.kind == Pattern::Kind::kNotAhead) return true;
  return std::any_of(pattern.parts.begin(), pattern.parts.end(), [](const PatternPtr& p) { return looks_around(*p); });
}

FormulaPtr negated(FormulaPtr formula) { return make_formula(FormulaKind::kNot, {std::move(formula)}); }

}  // namespace

// null, true and false are so few that each is asked about by itself.
bool Values::holds(Literal literal, Types type, bool value) {
  const SchemaNode& node = schema_->node(node_of(literal));
  if (node.constant) return *node.constant != negative(literal);
  const auto sub = [&](NodeId id) { return holds(that(id), type, value); };
  const auto all = [&](const std::vector<NodeId>& ids) { return std::all_of(ids.begin(), ids.end(), sub); };
  bool yes = (node.types & type) != 0;
  if (yes && node.values)
    yes = std::any_of(node.values->begin(), node.values->end(), [&](const JsonValue* v) {
      return type_of(*v) == type && (type == kNull || v->boolean == value);
    });
  yes = yes && all(node.all_of) && (node.any_of.empty() || std::any_of(node.any_of.begin(), node.any_of.end(), sub));
  yes = yes && (node.one_of.empty() || std::count_if(node.one_of.begin(), node.one_of.end(), sub) == 1);
  yes = yes && (node.negated == kNoNode || !sub(node.negated)) && (node.ref == kNoNode || sub(node.ref));
  if (yes && node.condition != kNoNode) {
    const NodeId then = sub(node.condition) ? node.then_node : node.else_node;
    yes = then == kNoNode || sub(then);
  }
  return yes != negative(literal);
}

FormulaPtr Values::leaf(ComponentPtr component, std::vector<ComponentPtr>& components) {
  auto found = std::find(components.begin(), components.end(), component);
  if (found == components.end()) found = components.insert(found, std::move(component));
  return make_leaf(static_cast<int32_t>(found - components.begin()));
}

FormulaPtr Values::formula(Literal literal, Types type, std::vector<ComponentPtr>& components) {
  FormulaPtr out = node_formula(node_of(literal), type, components);
  return negative(literal) ? negated(std::move(out)) : out;
}

FormulaPtr Values::node_formula(NodeId id, Types type, std::vector<ComponentPtr>& components) {
  const SchemaNode& node = schema_->node(id);
  if (node.constant) return make_constant(*node.constant);
  if ((node.types & type) == 0) return make_constant(false);
  if (!budget_.spend(64)) return make_constant(false);
  std::vector<FormulaPtr> parts;
  const auto sub = [&](NodeId part) { return node_formula(part, type, components); };
  const auto list = [&](FormulaKind kind, const std::vector<NodeId>& ids) {
    std::vector<FormulaPtr> formulas;
    for (const NodeId part : ids) formulas.push_back(sub(part));
    parts.push_back(make_formula(kind, std::move(formulas)));
  };
  if (node.values) parts.push_back(values_formula(node, type, components));
  parts.push_back(type == kString ? string_facts(node, components) : number_facts(node, components));
  list(FormulaKind::kAnd, node.all_of);
  if (!node.any_of.empty()) list(FormulaKind::kOr, node.any_of);
  if (!node.one_of.empty()) list(FormulaKind::kOne, node.one_of);
  if (node.negated != kNoNode) parts.push_back(negated(sub(node.negated)));
  if (node.ref != kNoNode) parts.push_back(sub(node.ref));
  if (node.condition != kNoNode && (node.then_node != kNoNode || node.else_node != kNoNode)) {
    const FormulaPtr condition = sub(node.condition);
    if (node.then_node != kNoNode)
      parts.push_back(make_formula(FormulaKind::kOr, {negated(condition), sub(node.then_node)}));
    if (node.else_node != kNoNode) parts.push_back(make_formula(FormulaKind::kOr, {condition, sub(node.else_node)}));
  }
  return make_formula(FormulaKind::kAnd, std::move(parts));
}

FormulaPtr Values::values_formula(const SchemaNode& node, Types type, std::vector<ComponentPtr>& components) {
  std::vector<std::string> texts;
  std::vector<FormulaPtr> numbers;
  for (const JsonValue* value : *node.values) {
    if (type_of(*value) != type) continue;
    if (type == kString)
      texts.push_back(value->text);
    else
      numbers.push_back(leaf(make_compare(Relation::kEqual, Decimal::parse(value->text)), components));
  }
  if (type == kNumber) return make_formula(FormulaKind::kOr, std::move(numbers));
  return texts.empty() ? make_constant(false) : leaf(make_names(std::move(texts)), components);
}

FormulaPtr Values::pattern_formula(const PatternPtr& pattern, const std::string& path,
                                   std::vector<ComponentPtr>& components) {
  std::vector<FormulaPtr> parts;
  PatternPtr rest = pattern;
  // ^(?=A)(?!B)C is ^A and not ^B and ^C
  if (pattern->kind == Pattern::Kind::kCat && pattern->parts.size() > 1 &&
      pattern->parts[0]->kind == Pattern::Kind::kBegin) {
    const PatternPtr& begin = pattern->parts[0];
    size_t next = 1;
    for (; next < pattern->parts.size(); ++next) {
      const Pattern& part = *pattern->parts[next];
      if (part.kind != Pattern::Kind::kAhead && part.kind != Pattern::Kind::kNotAhead) break;
      FormulaPtr inner = pattern_formula(make_cat({begin, part.parts[0]}), path, components);
      parts.push_back(part.kind == Pattern::Kind::kAhead ? std::move(inner) : negated(std::move(inner)));
    }
    if (next > 1) {
      std::vector<PatternPtr> left{begin};
      left.insert(left.end(), pattern->parts.begin() + static_cast<std::ptrdiff_t>(next), pattern->parts.end());
      rest = make_cat(std::move(left));
    }
  }
  if (looks_around(*rest)) {
    fail(schema_error(path, "look-ahead other than after a leading ^ cannot be used", Code::kUnsupported));
    return make_constant(false);
  }
  ComponentPtr search;
  const auto known = searches_.find(pattern.get());
  if (known != searches_.end()) {
    search = known->second;
  } else {
    auto made = make_search(*rest, budget_);
    if (!made.ok()) {
      fail(schema_error(path, made.error().message, made.error().code));
      return make_constant(false);
    }
    search = made.value();
    if (rest == pattern) searches_.emplace(pattern.get(), search);
  }
  parts.push_back(leaf(search, components));
  return make_formula(FormulaKind::kAnd, std::move(parts));
}

FormulaPtr Values::string_facts(const SchemaNode& node, std::vector<ComponentPtr>& components) {
  std::vector<FormulaPtr> parts;
  if (node.min_length > 0 || node.max_length != INT64_MAX) {
    ComponentPtr& length = lengths_[{node.min_length, node.max_length}];
    if (!length) length = make_length(node.min_length, node.max_length);
    parts.push_back(leaf(length, components));
  }
  if (node.pattern) parts.push_back(pattern_formula(node.pattern, node.path + "/pattern", components));
  if (node.format) parts.push_back(pattern_formula(node.format, node.path + "/format", components));
  return make_formula(FormulaKind::kAnd, std::move(parts));
}

FormulaPtr Values::number_facts(const SchemaNode& node, std::vector<ComponentPtr>& components) {
  std::vector<FormulaPtr> parts;
  const auto at_most = [&](Relation relation, const Decimal& bound) {
    return leaf(make_compare(relation, bound), components);
  };
  if (node.minimum) parts.push_back(negated(at_most(Relation::kLess, *node.minimum)));
  if (node.maximum) parts.push_back(at_most(Relation::kLessEqual, *node.maximum));
  if (node.above) parts.push_back(negated(at_most(Relation::kLessEqual, *node.above)));
  if (node.below) parts.push_back(at_most(Relation::kLess, *node.below));
  const auto multiple = [&](const Decimal& step, const char* keyword) {
    auto made = make_multiple(step);
    if (made.ok()) return leaf(made.value(), components);
    fail(schema_error(node.path + "/" + keyword, made.error().message, made.error().code));
    return make_constant(false);
  };
  if (node.only_integers) parts.push_back(multiple(Decimal::of(1), "type"));
  if (node.multiple_of) parts.push_back(multiple(*node.multiple_of, "multipleOf"));
  return make_formula(FormulaKind::kAnd, std::move(parts));
}

std::unique_ptr<Scalar> Values::make_scalar(const std::vector<Literal>& literals, Types type) {
  std::vector<ComponentPtr> components;
  std::vector<FormulaPtr> parts;
  for (const Literal literal : literals) parts.push_back(formula(literal, type, components));
  FormulaPtr whole = make_formula(Formula::Kind::kAnd, std::move(parts));
  if (whole->kind == Formula::Kind::kFalse || failed()) return nullptr;
  const bool free = whole->kind == Formula::Kind::kTrue;
  if (free) components.clear();
  FormulaPtr text = leaf(type == kString ? make_utf8() : make_number_text(/*exponents=*/free), components);
  auto scalar =
      std::make_unique<Scalar>(std::move(components), make_formula(Formula::Kind::kAnd, {text, whole}), budget_);
  scalar->exponents = free;
  return scalar->live(scalar->lexeme.start()) ? std::move(scalar) : nullptr;
}

}  // namespace pagoda::grammar
