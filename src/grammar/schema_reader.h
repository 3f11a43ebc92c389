#pragma once
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/schema.h"
#include "grammar/schema_locations.h"

namespace pagoda::grammar {

/// Reads a document's schemas, the root and what it refers to, into a Schema.
class SchemaReader {
 public:
  SchemaReader(Schema& out, const JsonValue& document) : out_(out), locations_(document) {}
  Status read(const JsonValue& document);

 private:
  using Value = JsonValue;
  Result<NodeId> node_of(const Value& value, const std::string& path);
  Result<SchemaNode> read_node(const Value& schema, const std::string& path);
  Status read_general(const Value& schema, SchemaNode& node);
  Status read_references(const Value& schema, SchemaNode& node);
  Status read_numbers(const Value& schema, SchemaNode& node);
  Status read_strings(const Value& schema, SchemaNode& node);
  Status read_format(const Value& schema, SchemaNode& node);
  Status read_arrays(const Value& schema, SchemaNode& node);
  Status read_objects(const Value& schema, SchemaNode& node);
  Status read_dependencies(const Value& schema, SchemaNode& node);
  Status read_applicators(const Value& schema, SchemaNode& node);

  Status type_list(const Value& value, SchemaNode& node);
  Status schema_list(const Value& schema, const char* keyword, const std::string& path, std::vector<NodeId>& out);
  Status one_schema(const Value& schema, const char* keyword, const std::string& path, NodeId& out);
  Status count(const Value& schema, const char* keyword, const std::string& path, int64_t& out);
  Status bound(const Value& schema, const char* keyword, const std::string& path, std::optional<Decimal>& out);
  Result<std::vector<std::string>> name_list(const Value& value, const std::string& path);
  Result<int32_t> pattern_index(const std::string& text, const std::string& path);
  Status refuse_cycles();
  Status refuse_cycles_from(NodeId first);
  std::vector<NodeId> in_place(NodeId id) const;

  Schema& out_;
  SchemaLocations locations_;
  struct Pending {
    NodeId id;
    const Value* value;
    std::string path;
  };
  std::deque<Pending> pending_;
  std::unordered_map<const Value*, NodeId> known_;
  std::unordered_map<std::string, int32_t> pattern_indices_;
  std::unordered_map<std::string, PatternPtr> formats_;
  enum : uint8_t { kNew, kOpen, kClosed };
  std::vector<uint8_t> mark_;  // [nodes] of the search for cycles
};

/// Turns unevaluatedProperties and unevaluatedItems into plain keywords, in every node.
Status rewrite_unevaluated(Schema& schema);

}  // namespace pagoda::grammar
