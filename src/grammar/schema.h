#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "grammar/decimal.h"
#include "grammar/json_tree.h"
#include "grammar/pattern.h"

namespace pagoda::grammar {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;
inline constexpr NodeId kFalseNode = 0;  // the schema false
inline constexpr NodeId kTrueNode = 1;

using Types = uint8_t;  // a set of JSON types
inline constexpr Types kNull = 1, kBoolean = 2, kNumber = 4, kString = 8, kArray = 16, kObject = 32, kAllTypes = 63;
Types type_of(const JsonValue& value);

/// One place of a schema, its keywords judged and its references resolved. Counts are cut to int64.
struct SchemaNode {
  std::string path;                // JSON pointer from the document's root
  std::optional<bool> constant{};  // the schemas true and false
  Types types = kAllTypes;
  bool only_integers = false;                             // of the numbers
  std::optional<std::vector<const JsonValue*>> values{};  // enum, const: one of them

  std::optional<Decimal> minimum{}, maximum{}, above{}, below{}, multiple_of{};

  int64_t min_length = 0, max_length = INT64_MAX;
  PatternPtr pattern{};
  PatternPtr format{};

  std::vector<NodeId> prefix{};
  NodeId items = kNoNode;
  NodeId contains = kNoNode;
  int64_t min_contains = 1, max_contains = INT64_MAX;
  int64_t min_items = 0, max_items = INT64_MAX;
  bool unique_items = false;
  NodeId unevaluated_items = kNoNode;

  std::vector<std::pair<std::string, NodeId>> properties{};
  std::vector<std::pair<int32_t, NodeId>> patterns{};  // index for Schema::pattern_ptr()
  NodeId additional = kNoNode;
  NodeId names = kNoNode;
  std::vector<std::string> required{};
  int64_t min_properties = 0, max_properties = INT64_MAX;
  std::vector<std::pair<std::string, std::vector<std::string>>> dependent_required{};
  std::vector<std::pair<std::string, NodeId>> dependent_schemas{};
  NodeId unevaluated_properties = kNoNode;

  std::vector<NodeId> all_of{}, any_of{}, one_of{};
  NodeId negated = kNoNode, condition = kNoNode, then_node = kNoNode, else_node = kNoNode, ref = kNoNode;
};

/// A JSON Schema document with every part reachable from its root judged. Drafts 4 to 2020-12, told by $schema (without
/// it 2020-12; `dependencies`, `definitions`, an array of `items` and draft 4's boolean bounds are understood anyway).
class Schema {
 public:
  /// Errors: `param` is the JSON pointer of the place: kInvalidRequest (wrong type or value, a reference to nowhere or
  /// round in a circle), kUnsupported (a keyword that no automaton here can check exactly), kTooLarge.
  static Result<std::unique_ptr<Schema>> parse(std::string_view text);

  const SchemaNode& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  NodeId root() const { return root_; }
  int32_t size() const { return static_cast<int32_t>(nodes_.size()); }
  const PatternPtr& pattern_ptr(int32_t index) const { return patterns_[static_cast<size_t>(index)]; }
  /// The schema that only `value` (of this document) satisfies.
  NodeId constant(const JsonValue* value);
  /// The same for a value that is kept here.
  NodeId constant(JsonValue value);

 private:
  friend class SchemaReader;
  NodeId add(SchemaNode node);
  std::unique_ptr<JsonValue> document_;
  std::vector<SchemaNode> nodes_;
  std::vector<PatternPtr> patterns_;
  std::vector<std::unique_ptr<JsonValue>> own_values_;
  std::unordered_map<const JsonValue*, NodeId> constants_;
  NodeId root_ = kTrueNode;
};

/// A format's pattern; nullptr where `name` is no format that is checked. An exact, whole-string pattern.
PatternPtr format_pattern(std::string_view name);

}  // namespace pagoda::grammar
