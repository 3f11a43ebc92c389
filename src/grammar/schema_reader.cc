#include "grammar/schema_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace pagoda::grammar {
namespace {

using Type = JsonValue::Type;

constexpr int32_t kNodesMax = 200'000;

Error wrong(const std::string& path, std::string_view what, Code code = Code::kInvalidRequest) {
  return Error{code, fmt::format("schema: {} at {}", what, path.empty() ? "the root" : path),
               path.empty() ? "/" : path};
}

}  // namespace

Status SchemaReader::read(const Value& document) {
  PAGODA_TRY(out_.root_, node_of(document, ""));
  while (!pending_.empty()) {
    const Pending next = std::move(pending_.front());
    pending_.pop_front();
    PAGODA_TRY(SchemaNode node, read_node(*next.value, next.path));
    out_.nodes_[static_cast<size_t>(next.id)] = std::move(node);
    if (out_.size() > kNodesMax) return wrong(next.path, "too many schemas", Code::kTooLarge);
  }
  PAGODA_TRY_STATUS(refuse_cycles());
  return rewrite_unevaluated(out_);
}

Result<NodeId> SchemaReader::node_of(const Value& value, const std::string& path) {
  if (value.is(Type::kBoolean)) return value.boolean ? kTrueNode : kFalseNode;
  if (!value.is(Type::kObject)) return wrong(path, "a schema must be an object, true or false");
  const auto [known, fresh] = known_.try_emplace(&value, out_.size());
  if (fresh) {
    out_.add({.path = path});
    pending_.push_back({known->second, &value, path});
  }
  return known->second;
}

Result<SchemaNode> SchemaReader::read_node(const Value& schema, const std::string& path) {
  SchemaNode node{.path = path};
  PAGODA_TRY_STATUS(read_references(schema, node));
  if (node.ref != kNoNode && locations_.draft() <= Draft::k7) return node;  // these drafts ignore what is beside $ref
  PAGODA_TRY_STATUS(read_general(schema, node));
  PAGODA_TRY_STATUS(read_numbers(schema, node));
  PAGODA_TRY_STATUS(read_strings(schema, node));
  PAGODA_TRY_STATUS(read_format(schema, node));
  PAGODA_TRY_STATUS(read_arrays(schema, node));
  PAGODA_TRY_STATUS(read_objects(schema, node));
  PAGODA_TRY_STATUS(read_dependencies(schema, node));
  PAGODA_TRY_STATUS(read_applicators(schema, node));
  return node;
}

Status SchemaReader::read_references(const Value& schema, SchemaNode& node) {
  for (const char* keyword : {"$ref", "$dynamicRef", "$recursiveRef"}) {
    const Value* ref = schema.find(keyword);
    if (ref == nullptr) continue;
    const std::string path = node.path + "/" + keyword;
    if (!ref->is(Type::kString)) return wrong(path, "a reference must be a string");
    if (keyword[1] == 'r' && keyword[4] == 'u' && locations_.several_resources())
      return wrong(path, "$recursiveRef in a document of several resources", Code::kUnsupported);
    const auto place =
        keyword[1] == 'd' ? locations_.resolve_dynamic(schema, ref->text) : locations_.resolve(schema, ref->text);
    if (!place.ok()) return wrong(path, place.error().message, place.error().code);
    PAGODA_TRY(const NodeId target, node_of(*place.value().value, place.value().path));
    if (node.ref == kNoNode)
      node.ref = target;
    else
      node.all_of.push_back(target);
  }
  return ok_status();
}

Status SchemaReader::type_list(const Value& value, SchemaNode& node) {
  constexpr std::array<std::pair<std::string_view, Types>, 6> kNames = {{{"null", kNull},
                                                                         {"boolean", kBoolean},
                                                                         {"number", kNumber},
                                                                         {"string", kString},
                                                                         {"array", kArray},
                                                                         {"object", kObject}}};
  const std::string path = node.path + "/type";
  Types types = 0;
  bool integers = false;
  const auto add = [&](const Value& name) -> Status {
    if (!name.is(Type::kString)) return wrong(path, "a type must be a string");
    if (name.text == "integer") return integers = true, ok_status();
    for (const auto& [known, bit] : kNames)
      if (name.text == known) return types |= bit, ok_status();
    return wrong(path, fmt::format("no type {}", name.text));
  };
  if (value.is(Type::kArray)) {
    for (const Value& name : value.items) PAGODA_TRY_STATUS(add(name));
  } else {
    PAGODA_TRY_STATUS(add(value));
  }
  if (integers && (types & kNumber) == 0) {
    types |= kNumber;
    node.only_integers = true;
  }
  node.types = types;
  return ok_status();
}

Status SchemaReader::read_general(const Value& schema, SchemaNode& node) {
  if (const Value* type = schema.find("type")) PAGODA_TRY_STATUS(type_list(*type, node));
  if (const Value* values = schema.find("enum")) {
    if (!values->is(Type::kArray)) return wrong(node.path + "/enum", "enum must be an array");
    node.values.emplace();
    for (const Value& value : values->items) node.values->push_back(&value);
  }
  if (const Value* value = schema.find("const"); value != nullptr && locations_.draft() != Draft::k4) {
    if (node.values)  // both: what is in both
      std::erase_if(*node.values, [value](const Value* v) { return !same_json(*v, *value); });
    else
      node.values = {value};
  }
  return ok_status();
}

Status SchemaReader::bound(const Value& schema, const char* keyword, const std::string& path,
                           std::optional<Decimal>& out) {
  const Value* value = schema.find(keyword);
  if (value == nullptr || (locations_.draft() == Draft::k4 && value->is(Type::kBoolean))) return ok_status();
  if (!value->is(Type::kNumber)) return wrong(path + "/" + keyword, "a number is needed");
  out = Decimal::parse(value->text);
  if (out->integer_digits() > 400 || out->exponent < -400)
    return wrong(path + "/" + keyword, "a bound beyond 400 digits", Code::kUnsupported);
  return ok_status();
}

Status SchemaReader::read_numbers(const Value& schema, SchemaNode& node) {
  PAGODA_TRY_STATUS(bound(schema, "minimum", node.path, node.minimum));
  PAGODA_TRY_STATUS(bound(schema, "maximum", node.path, node.maximum));
  PAGODA_TRY_STATUS(bound(schema, "exclusiveMinimum", node.path, node.above));
  PAGODA_TRY_STATUS(bound(schema, "exclusiveMaximum", node.path, node.below));
  PAGODA_TRY_STATUS(bound(schema, "multipleOf", node.path, node.multiple_of));
  const auto exclusive = [&schema](const char* keyword) {
    const Value* value = schema.find(keyword);
    return value != nullptr && value->is(Type::kBoolean) && value->boolean;
  };
  if (exclusive("exclusiveMinimum")) std::swap(node.minimum, node.above);
  if (exclusive("exclusiveMaximum")) std::swap(node.maximum, node.below);
  if (node.multiple_of && (node.multiple_of->zero() || node.multiple_of->negative))
    return wrong(node.path + "/multipleOf", "multipleOf must be more than 0");
  return ok_status();
}

Status SchemaReader::count(const Value& schema, const char* keyword, const std::string& path, int64_t& out) {
  const Value* value = schema.find(keyword);
  if (value == nullptr) return ok_status();
  const Decimal number = value->is(Type::kNumber) ? Decimal::parse(value->text) : Decimal{true, "1", 0};
  if (!number.integer() || number.negative) return wrong(path + "/" + keyword, "a count of 0 or more is needed");
  out = number.integer_digits() > 15 ? int64_t{1} << 50 : std::stoll(number.plain());
  return ok_status();
}

Result<int32_t> SchemaReader::pattern_index(const std::string& text, const std::string& path) {
  const auto [known, fresh] = pattern_indices_.try_emplace(text, static_cast<int32_t>(out_.patterns_.size()));
  if (!fresh) return known->second;
  const auto parsed = parse_regex(text);
  if (!parsed.ok()) return wrong(path, parsed.error().message, parsed.error().code);
  out_.patterns_.push_back(parsed.value());
  return known->second;
}

Status SchemaReader::read_strings(const Value& schema, SchemaNode& node) {
  PAGODA_TRY_STATUS(count(schema, "minLength", node.path, node.min_length));
  PAGODA_TRY_STATUS(count(schema, "maxLength", node.path, node.max_length));
  if (const Value* pattern = schema.find("pattern")) {
    const std::string path = node.path + "/pattern";
    if (!pattern->is(Type::kString)) return wrong(path, "a pattern must be a string");
    PAGODA_TRY(const int32_t index, pattern_index(pattern->text, path));
    node.pattern = out_.patterns_[static_cast<size_t>(index)];
  }
  return ok_status();
}

Status SchemaReader::read_format(const Value& schema, SchemaNode& node) {
  constexpr std::array<std::string_view, 5> kUnchecked = {"idn-email", "idn-hostname", "iri", "iri-reference",
                                                          "uri-template"};
  const Value* format = schema.find("format");
  if (format == nullptr || !format->is(Type::kString)) return ok_status();
  const std::string path = node.path + "/format";
  const bool known =
      format->text == "regex" || std::find(kUnchecked.begin(), kUnchecked.end(), format->text) != kUnchecked.end();
  const auto [cached, fresh] = formats_.try_emplace(format->text, nullptr);
  if (fresh) cached->second = format_pattern(format->text);
  const PatternPtr pattern = cached->second;
  if (!known && !pattern) return ok_status();  // a name that the standard does not know asserts nothing
  if ((node.types & kString) == 0) return ok_status();
  if (schema.find("type") == nullptr && locations_.draft() >= Draft::k2019)
    return wrong(path, "format without type: whether it asserts is left open since 2019-09; add \"type\": \"string\"",
                 Code::kUnsupported);
  if (!pattern) return wrong(path, fmt::format("the format {} cannot be checked", format->text), Code::kUnsupported);
  node.format = pattern;
  return ok_status();
}

Status SchemaReader::one_schema(const Value& schema, const char* keyword, const std::string& path, NodeId& out) {
  const Value* value = schema.find(keyword);
  if (value == nullptr) return ok_status();
  PAGODA_TRY(out, node_of(*value, path + "/" + keyword));
  return ok_status();
}

Status SchemaReader::schema_list(const Value& schema, const char* keyword, const std::string& path,
                                 std::vector<NodeId>& out) {
  const Value* value = schema.find(keyword);
  if (value == nullptr) return ok_status();
  if (!value->is(Type::kArray)) return wrong(path + "/" + keyword, "an array of schemas is needed");
  for (size_t i = 0; i < value->items.size(); ++i) {
    PAGODA_TRY(const NodeId part, node_of(value->items[i], fmt::format("{}/{}/{}", path, keyword, i)));
    out.push_back(part);
  }
  return ok_status();
}

Status SchemaReader::read_arrays(const Value& schema, SchemaNode& node) {
  PAGODA_TRY_STATUS(count(schema, "minItems", node.path, node.min_items));
  PAGODA_TRY_STATUS(count(schema, "maxItems", node.path, node.max_items));
  PAGODA_TRY_STATUS(count(schema, "minContains", node.path, node.min_contains));
  PAGODA_TRY_STATUS(count(schema, "maxContains", node.path, node.max_contains));
  if (locations_.draft() >= Draft::k2020) PAGODA_TRY_STATUS(schema_list(schema, "prefixItems", node.path, node.prefix));
  const Value* items = schema.find("items");
  if (items != nullptr && items->is(Type::kArray)) {
    PAGODA_TRY_STATUS(schema_list(schema, "items", node.path, node.prefix));
    PAGODA_TRY_STATUS(one_schema(schema, "additionalItems", node.path, node.items));
  } else {
    PAGODA_TRY_STATUS(one_schema(schema, "items", node.path, node.items));
  }
  if (locations_.draft() != Draft::k4) PAGODA_TRY_STATUS(one_schema(schema, "contains", node.path, node.contains));
  PAGODA_TRY_STATUS(one_schema(schema, "unevaluatedItems", node.path, node.unevaluated_items));
  if (const Value* unique = schema.find("uniqueItems")) {
    if (!unique->is(Type::kBoolean)) return wrong(node.path + "/uniqueItems", "true or false is needed");
    node.unique_items = unique->boolean;
  }
  return ok_status();
}

Result<std::vector<std::string>> SchemaReader::name_list(const Value& value, const std::string& path) {
  if (!value.is(Type::kArray)) return wrong(path, "an array of names is needed");
  std::vector<std::string> out;
  for (const Value& name : value.items) {
    if (!name.is(Type::kString)) return wrong(path, "a name must be a string");
    if (std::find(out.begin(), out.end(), name.text) == out.end()) out.push_back(name.text);
  }
  return out;
}

Status SchemaReader::read_objects(const Value& schema, SchemaNode& node) {
  PAGODA_TRY_STATUS(count(schema, "minProperties", node.path, node.min_properties));
  PAGODA_TRY_STATUS(count(schema, "maxProperties", node.path, node.max_properties));
  if (const Value* required = schema.find("required")) {
    PAGODA_TRY(node.required, name_list(*required, node.path + "/required"));
  }
  for (const char* keyword : {"properties", "patternProperties"}) {
    const Value* map = schema.find(keyword);
    if (map == nullptr) continue;
    const std::string path = node.path + "/" + keyword;
    if (!map->is(Type::kObject)) return wrong(path, "an object of schemas is needed");
    for (const auto& [name, value] : map->members) {
      const std::string below = path + "/" + pointer_token(name);
      PAGODA_TRY(const NodeId part, node_of(value, below));
      if (keyword[1] == 'r') {
        node.properties.emplace_back(name, part);
      } else {
        PAGODA_TRY(const int32_t index, pattern_index(name, below));
        node.patterns.emplace_back(index, part);
      }
    }
  }
  PAGODA_TRY_STATUS(one_schema(schema, "additionalProperties", node.path, node.additional));
  PAGODA_TRY_STATUS(one_schema(schema, "unevaluatedProperties", node.path, node.unevaluated_properties));
  if (locations_.draft() != Draft::k4) PAGODA_TRY_STATUS(one_schema(schema, "propertyNames", node.path, node.names));
  return ok_status();
}

Status SchemaReader::read_dependencies(const Value& schema, SchemaNode& node) {
  for (const char* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const Value* map = schema.find(keyword);
    if (map == nullptr) continue;
    const std::string path = node.path + "/" + keyword;
    if (!map->is(Type::kObject)) return wrong(path, "an object is needed");
    for (const auto& [name, value] : map->members) {
      const std::string below = path + "/" + pointer_token(name);
      if (keyword[9] == 'R' || (keyword[9] == 'i' && value.is(Type::kArray))) {
        PAGODA_TRY(std::vector<std::string> names, name_list(value, below));
        node.dependent_required.emplace_back(name, std::move(names));
      } else {
        PAGODA_TRY(const NodeId part, node_of(value, below));
        node.dependent_schemas.emplace_back(name, part);
      }
    }
  }
  return ok_status();
}

Status SchemaReader::read_applicators(const Value& schema, SchemaNode& node) {
  PAGODA_TRY_STATUS(schema_list(schema, "allOf", node.path, node.all_of));
  PAGODA_TRY_STATUS(schema_list(schema, "anyOf", node.path, node.any_of));
  PAGODA_TRY_STATUS(schema_list(schema, "oneOf", node.path, node.one_of));
  for (const char* keyword : {"anyOf", "oneOf"})
    if (const Value* list = schema.find(keyword); list != nullptr && list->items.empty())
      return wrong(node.path + "/" + keyword, "at least one schema is needed");
  PAGODA_TRY_STATUS(one_schema(schema, "not", node.path, node.negated));
  if (locations_.draft() >= Draft::k7) {
    PAGODA_TRY_STATUS(one_schema(schema, "if", node.path, node.condition));
    PAGODA_TRY_STATUS(one_schema(schema, "then", node.path, node.then_node));
    PAGODA_TRY_STATUS(one_schema(schema, "else", node.path, node.else_node));
  }
  return ok_status();
}

std::vector<NodeId> SchemaReader::in_place(NodeId id) const {
  const SchemaNode& node = out_.node(id);
  std::vector<NodeId> parts;
  for (const auto* list : {&node.all_of, &node.any_of, &node.one_of})
    parts.insert(parts.end(), list->begin(), list->end());
  for (const NodeId part : {node.negated, node.condition, node.then_node, node.else_node, node.ref})
    if (part != kNoNode) parts.push_back(part);
  for (const auto& [name, part] : node.dependent_schemas) parts.push_back(part);
  return parts;
}

Status SchemaReader::refuse_cycles_from(NodeId first) {
  struct Visit {
    NodeId id;
    std::vector<NodeId> parts;
    size_t next = 0;
  };
  std::vector<Visit> path;
  path.push_back({first, in_place(first)});
  mark_[static_cast<size_t>(first)] = kOpen;
  while (!path.empty()) {
    Visit& here = path.back();
    if (here.next == here.parts.size()) {
      mark_[static_cast<size_t>(here.id)] = kClosed;
      path.pop_back();
      continue;
    }
    const NodeId part = here.parts[here.next++];
    uint8_t& mark = mark_[static_cast<size_t>(part)];
    if (mark == kOpen) return wrong(out_.node(part).path, "a schema that refers to itself for the same value");
    if (mark == kClosed) continue;
    mark = kOpen;
    path.push_back({part, in_place(part)});
    if (path.size() > 2000) return wrong(out_.node(part).path, "references nested too deeply", Code::kTooLarge);
  }
  return ok_status();
}

Status SchemaReader::refuse_cycles() {
  mark_.assign(static_cast<size_t>(out_.size()), kNew);
  for (NodeId id = 0; id < out_.size(); ++id)
    if (mark_[static_cast<size_t>(id)] == kNew) PAGODA_TRY_STATUS(refuse_cycles_from(id));
  return ok_status();
}

}  // namespace pagoda::grammar
