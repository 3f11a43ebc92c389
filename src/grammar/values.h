#pragma once
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "grammar/lexeme.h"
#include "grammar/schema.h"
#include "grammar/value_cases.h"

namespace pagoda::grammar {

/// A set of literals that a value must satisfy together.
using ConjId = int32_t;

/// A string or a number as a whole: its components and when it is right.
struct Scalar {
  Scalar(std::vector<ComponentPtr> components, FormulaPtr wanted, Budget& budget)
      : lexeme(std::move(components), budget), formula(std::move(wanted)) {}
  Lexeme lexeme;
  FormulaPtr formula;
  std::vector<int8_t> known{};  // [states] of live()
  bool exponents = false;       // of numbers: the lexeme reads them

  bool right(int32_t state) const { return lexeme.now(state, *formula); }
  /// Something right begins like this.
  bool live(int32_t state);
};

class ObjectCase;
class ArrayCase;

/// What a value may be, type by type.
struct ValueSpec {
  bool null = false, yes = false, no = false;
  std::unique_ptr<Scalar> string{}, number{};
  std::vector<int32_t> objects{}, arrays{};  // cases, by index into Values; those that nothing satisfies are gone
  bool cases_known = false;
  bool making = false;  // its cases are being worked out: nothing can be said about them yet
};

/// Everything a schema's automaton asks about values. What is asked the first time is worked out then.
class Values {
 public:
  Values(std::unique_ptr<Schema> schema, Budget& budget);
  ~Values();

  /// Works out everything that can follow from the root, so that what is refused is refused now. Errors: see Schema.
  Status prepare();
  ConjId root() { return conjunction({that(schema_->root())}); }

  ConjId conjunction(std::vector<Literal> literals);
  ValueSpec& spec(ConjId id);  // scalars and cases
  bool satisfiable(ConjId id);
  ObjectCase& object(int32_t index) { return *objects_[static_cast<size_t>(index)]; }
  ArrayCase& array(int32_t index) { return *arrays_[static_cast<size_t>(index)]; }
  /// The literals of `id` and `more`.
  ConjId with(ConjId id, const std::vector<Literal>& more);

  // For the cases.
  Schema& schema() { return *schema_; }
  Budget& budget() { return budget_; }
  /// Adds to `components` what decides the schema of a string (or number) and returns how. kString or kNumber.
  FormulaPtr formula(Literal literal, Types type, std::vector<ComponentPtr>& components);
  /// The component that finds a pattern, or nullptr after a failure.
  FormulaPtr pattern_formula(const PatternPtr& pattern, const std::string& path, std::vector<ComponentPtr>& components);
  void fail(Error error);
  bool failed() const { return failure_.has_value() || budget_.over(); }
  const std::optional<Error>& failure() const { return failure_; }
  const std::string& path_of(ConjId id);
  /// False while an answer of satisfiable() may still turn from no to yes.
  bool settled() const { return depth_ == 0; }

 private:
  bool holds(Literal literal, Types type, bool value);
  FormulaPtr node_formula(NodeId id, Types type, std::vector<ComponentPtr>& components);
  FormulaPtr string_facts(const SchemaNode& node, std::vector<ComponentPtr>& components);
  FormulaPtr number_facts(const SchemaNode& node, std::vector<ComponentPtr>& components);
  FormulaPtr values_formula(const SchemaNode& node, Types type, std::vector<ComponentPtr>& components);
  FormulaPtr leaf(ComponentPtr component, std::vector<ComponentPtr>& components);
  std::unique_ptr<Scalar> make_scalar(const std::vector<Literal>& literals, Types type);
  void make_cases(ConjId id, ValueSpec& spec, Types type);
  bool has_case(ValueSpec& spec, Types type);
  bool disjoint(NodeId a, NodeId b, Types type);
  bool satisfiable_as(ConjId id, Types types);

  std::unique_ptr<Schema> schema_;
  Budget& budget_;
  Interner conjunctions_;
  std::vector<std::unique_ptr<ValueSpec>> specs_;  // [conjunctions]
  std::vector<std::unique_ptr<ObjectCase>> objects_;
  std::vector<std::unique_ptr<ArrayCase>> arrays_;
  std::unordered_map<const Pattern*, ComponentPtr> searches_;
  std::map<std::pair<int64_t, int64_t>, ComponentPtr> lengths_;
  std::map<std::tuple<NodeId, NodeId, Types>, bool> disjoint_;
  std::optional<Error> failure_;

  // satisfiable(): depth of what is being worked out; an answer "no" that met one of them is not final.
  std::vector<int8_t> known_;  // [conjunctions] 0 open, 1 yes, -1 no
  std::vector<int32_t> busy_;  // [conjunctions] depth + 1 while worked out
  int32_t depth_ = 0;
  int32_t met_ = INT32_MAX;
};

}  // namespace pagoda::grammar
