#include "grammar/schema_locations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "grammar/uri.h"

namespace pagoda::grammar {
namespace {

using Type = JsonValue::Type;

constexpr std::array kOneSchema = {"additionalItems",
                                   "additionalProperties",
                                   "contains",
                                   "contentSchema",
                                   "else",
                                   "if",
                                   "items",
                                   "not",
                                   "propertyNames",
                                   "then",
                                   "unevaluatedItems",
                                   "unevaluatedProperties"};
constexpr std::array kListOfSchemas = {"allOf", "anyOf", "items", "oneOf", "prefixItems"};
constexpr std::array kMapOfSchemas = {
    "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"};

Draft draft_of(const JsonValue& document) {
  const JsonValue* schema = document.find("$schema");
  if (schema == nullptr || !schema->is(Type::kString)) return Draft::k2020;
  const auto names = [&](std::string_view part) { return schema->text.find(part) != std::string::npos; };
  if (names("draft-03") || names("draft-04")) return Draft::k4;
  if (names("draft-06")) return Draft::k6;
  if (names("draft-07")) return Draft::k7;
  return names("2019-09") ? Draft::k2019 : Draft::k2020;
}

}  // namespace

SchemaLocations::SchemaLocations(const JsonValue& document) : draft_(draft_of(document)) {
  resources_.push_back({"", {&document, ""}});
  walk(document, "", 0);
  by_uri_.try_emplace("", 0);
}

void SchemaLocations::walk(const JsonValue& schema, const std::string& path, size_t resource) {
  if (!schema.is(Type::kObject)) return;
  const JsonValue* ref = schema.find("$ref");
  const bool only_ref = draft_ <= Draft::k7 && ref != nullptr && ref->is(Type::kString);
  const JsonValue* id = schema.find(draft_ == Draft::k4 ? "id" : "$id");
  if (id != nullptr && id->is(Type::kString) && !only_ref) {
    if (id->text.starts_with("#")) {  // drafts 4 to 7 name anchors like this
      anchors_.try_emplace(resources_[resource].uri + id->text, Place{&schema, path});
    } else if (path.empty()) {
      resources_[0].uri = resolve_uri("", id->text);
      by_uri_[resources_[0].uri] = 0;
    } else {
      const std::string uri = resolve_uri(resources_[resource].uri, id->text);
      resources_.push_back({uri, {&schema, path}});
      resource = resources_.size() - 1;
      by_uri_.try_emplace(uri, resource);
    }
  }
  resource_of_[&schema] = resource;
  for (const char* keyword : {"$anchor", "$dynamicAnchor"})
    if (const JsonValue* anchor = schema.find(keyword); anchor != nullptr && anchor->is(Type::kString)) {
      anchors_.try_emplace(resources_[resource].uri + "#" + anchor->text, Place{&schema, path});
      if (keyword[1] == 'd') ++dynamic_anchors_[anchor->text];
    }
  walk_children(schema, path, resource);
}

void SchemaLocations::walk_children(const JsonValue& schema, const std::string& path, size_t resource) {
  for (const auto& [name, value] : schema.members) {
    const auto is_in = [&name](const auto& list) {
      return std::any_of(list.begin(), list.end(), [&](const char* n) { return name == n; });
    };
    const std::string below = path + "/" + pointer_token(name);
    if (is_in(kOneSchema)) walk(value, below, resource);
    if (is_in(kListOfSchemas))
      for (size_t i = 0; i < value.items.size(); ++i) walk(value.items[i], fmt::format("{}/{}", below, i), resource);
    if (is_in(kMapOfSchemas))
      for (const auto& [key, part] : value.members) walk(part, below + "/" + pointer_token(key), resource);
  }
}

Result<SchemaLocations::Place> SchemaLocations::follow_pointer(Place place, std::string_view pointer) const {
  while (!pointer.empty()) {
    pointer.remove_prefix(1);  // the slash
    const size_t end = std::min(pointer.find('/'), pointer.size());
    std::string token;
    for (size_t i = 0; i < end; ++i) {
      if (pointer[i] == '~' && i + 1 < end && (pointer[i + 1] == '0' || pointer[i + 1] == '1'))
        token += pointer[++i] == '0' ? '~' : '/';
      else
        token += pointer[i];
    }
    pointer.remove_prefix(end);
    const JsonValue* next = place.value->find(token);
    if (place.value->is(Type::kArray) && !token.empty() && token.size() < 8 &&
        std::all_of(token.begin(), token.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      const auto index = static_cast<size_t>(std::stoi(token));
      if (index < place.value->items.size()) next = &place.value->items[index];
    }
    if (next == nullptr)
      return Error{Code::kInvalidRequest, fmt::format("nothing at {}/{}", place.path, pointer_token(token))};
    place = {next, place.path + "/" + pointer_token(token)};
  }
  return place;
}

Result<SchemaLocations::Place> SchemaLocations::resolve(const JsonValue& from, std::string_view reference) const {
  const size_t hash = reference.find('#');
  const auto home = resource_of_.find(&from);
  const Resource& base = resources_[home == resource_of_.end() ? 0 : home->second];
  const std::string uri = resolve_uri(base.uri, reference.substr(0, hash));
  const std::string fragment = hash == std::string_view::npos ? "" : percent_decoded(reference.substr(hash + 1));
  const auto found = uri == base.uri ? by_uri_.end() : by_uri_.find(uri);
  if (uri != base.uri && found == by_uri_.end())
    return Error{Code::kUnsupported, fmt::format("a reference to another document: {}", uri)};
  const Resource& target = uri == base.uri ? base : resources_[found->second];
  if (fragment.empty() || fragment.front() == '/') return follow_pointer(target.root, fragment);
  const auto anchor = anchors_.find(target.uri + "#" + fragment);
  if (anchor == anchors_.end()) return Error{Code::kInvalidRequest, fmt::format("no anchor {}", fragment)};
  return anchor->second;
}

Result<SchemaLocations::Place> SchemaLocations::resolve_dynamic(const JsonValue& from,
                                                                std::string_view reference) const {
  PAGODA_TRY(Place place, resolve(from, reference));
  const JsonValue* anchor = place.value->find("$dynamicAnchor");
  const size_t hash = reference.find('#');
  if (anchor == nullptr || hash == std::string_view::npos || anchor->text != reference.substr(hash + 1)) return place;
  if (const auto count = dynamic_anchors_.find(anchor->text); count != dynamic_anchors_.end() && count->second > 1)
    return Error{Code::kUnsupported, "a dynamic reference with several targets"};
  return place;
}

}  // namespace pagoda::grammar
