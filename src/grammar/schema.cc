#include "grammar/schema.h"

#include <fmt/format.h>

#include "grammar/schema_reader.h"

namespace pagoda::grammar {

Types type_of(const JsonValue& value) {
  switch (value.type) {
    case JsonValue::Type::kNull:
      return kNull;
    case JsonValue::Type::kBoolean:
      return kBoolean;
    case JsonValue::Type::kNumber:
      return kNumber;
    case JsonValue::Type::kString:
      return kString;
    case JsonValue::Type::kArray:
      return kArray;
    case JsonValue::Type::kObject:
      return kObject;
  }
  return 0;
}

Result<std::unique_ptr<Schema>> Schema::parse(std::string_view text) {
  auto schema = std::make_unique<Schema>();
  auto document = parse_json_tree(text);
  if (!document.ok()) {
    Error error = document.error();
    error.message = "schema: " + error.message;
    return error;
  }
  schema->document_ = std::make_unique<JsonValue>(std::move(document).take());
  schema->add({.path = "", .constant = false});
  schema->add({.path = "", .constant = true});
  PAGODA_TRY_STATUS(SchemaReader(*schema, *schema->document_).read(*schema->document_));
  return schema;
}

NodeId Schema::add(SchemaNode node) {
  nodes_.push_back(std::move(node));
  return size() - 1;
}

NodeId Schema::constant(JsonValue value) {
  own_values_.push_back(std::make_unique<JsonValue>(std::move(value)));
  return constant(own_values_.back().get());
}

NodeId Schema::constant(const JsonValue* value) {
  if (const auto known = constants_.find(value); known != constants_.end()) return known->second;
  SchemaNode node;
  node.types = type_of(*value);
  if (value->is(JsonValue::Type::kArray)) {
    for (const JsonValue& item : value->items) node.prefix.push_back(constant(&item));
    node.min_items = node.max_items = static_cast<int64_t>(value->items.size());
  } else if (value->is(JsonValue::Type::kObject)) {
    for (const auto& [name, member] : value->members) {
      node.properties.emplace_back(name, constant(&member));
      node.required.push_back(name);
    }
    node.additional = kFalseNode;
  } else {
    node.values = {value};
  }
  const NodeId id = add(std::move(node));
  constants_.emplace(value, id);
  return id;
}

}  // namespace pagoda::grammar
