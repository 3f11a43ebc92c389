#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/budget.h"
#include "grammar/schema.h"

namespace pagoda::grammar {

/// A schema (2 * node) or its opposite (2 * node + 1).
using Literal = int32_t;
inline Literal that(NodeId node) { return 2 * node; }
inline Literal not_that(NodeId node) { return 2 * node + 1; }
inline Literal opposite(Literal literal) { return literal ^ 1; }
inline NodeId node_of(Literal literal) { return literal / 2; }
inline bool negative(Literal literal) { return (literal & 1) != 0; }
inline constexpr Literal kNever = 2 * kFalseNode;
inline constexpr Literal kAlways = 2 * kTrueNode;

/// Some member whose name is of a kind must have a value that satisfies `value`.
struct Witness {
  enum class Kind : uint8_t { kPattern, kAdditional, kName };
  Kind kind;
  NodeId node;  // kAdditional: what neither its properties nor its patterns name. kName: no name as its `names` wants
  int32_t pattern;  // kPattern
  Literal value;
};

/// From item `from` on, min..max of them satisfy `value`.
struct Contains {
  Literal value;
  int64_t min, max, from;
};

/// What an object or an array must fulfil at the same time: no "or" is left. Of objects, min and max count members.
struct ValueCase {
  std::vector<NodeId> groups{};  // nodes whose properties, patterns, additional (or prefix, items) hold
  int64_t min = 0, max = INT64_MAX;
  std::vector<std::pair<std::string, Literal>> members{};  // the member of that name satisfies it, if it is there
  std::vector<std::string> required{};
  std::vector<Literal> names{};  // every name satisfies the schema
  std::vector<Witness> witnesses{};
  std::vector<std::pair<int64_t, Literal>> elements{};  // by index, if it is there
  std::vector<Contains> contains{};
  bool unique = false;
};

/// A step towards cases: facts, further literals, and choices of which one each must hold.
struct CaseStep {
  ValueCase facts{};
  std::vector<Literal> literals{};
  std::vector<std::vector<CaseStep>> choices{};
};

/// Rewrites what a value must satisfy as a list of cases, one of which it must fulfil (the disjunctive normal form).
class CaseExpander {
 public:
  /// `disjoint(a, b, type)`: no value of the type satisfies both; spares writing out what oneOf excludes anyway.
  using Disjoint = std::function<bool(NodeId, NodeId, Types)>;
  CaseExpander(Schema& schema, Budget& budget, Disjoint disjoint)
      : schema_(schema), budget_(budget), disjoint_(std::move(disjoint)) {}

  /// `type` is kArray or kObject. Errors: kUnsupported, kTooLarge, with a node's path in `param`.
  Result<std::vector<ValueCase>> expand(const std::vector<Literal>& literals, Types type);

 private:
  struct Work;
  bool settle(Work& work);  // false: a contradiction, or an error
  bool apply(Work& work, const CaseStep& step);
  bool describe(Literal literal, CaseStep& out);  // false: never true for this type
  bool describe_positive(NodeId id, CaseStep& out);
  void describe_object(const SchemaNode& node, NodeId id, CaseStep& out);
  void describe_array(const SchemaNode& node, NodeId id, CaseStep& out);
  bool describe_one_of(const SchemaNode& node, CaseStep& out);
  bool describe_negative(NodeId id, CaseStep& out);
  void oppose_general(const SchemaNode& node, std::vector<CaseStep>& ways);
  void oppose_object(const SchemaNode& node, NodeId id, std::vector<CaseStep>& ways);
  void oppose_array(const SchemaNode& node, std::vector<CaseStep>& ways);
  bool impossible(Literal literal) const;
  void fail(const SchemaNode& node, const char* keyword, std::string_view what, Code code);

  Schema& schema_;
  Budget& budget_;
  Disjoint disjoint_;
  Types type_ = kObject;
  std::optional<Error> error_;
};

Error schema_error(const std::string& path, std::string_view what, Code code);

}  // namespace pagoda::grammar
