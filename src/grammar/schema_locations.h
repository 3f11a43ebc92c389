#pragma once
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "grammar/json_tree.h"

namespace pagoda::grammar {

enum class Draft : uint8_t { k4, k6, k7, k2019, k2020 };

/// Where the parts of a schema document are: identifiers, anchors and JSON pointers.
class SchemaLocations {
 public:
  explicit SchemaLocations(const JsonValue& document);

  struct Place {
    const JsonValue* value;
    std::string path;  // from the document's root
  };
  Draft draft() const { return draft_; }
  /// What `reference`, written in `from`, names. The message of an error says what is missing.
  Result<Place> resolve(const JsonValue& from, std::string_view reference) const;
  /// The same for $dynamicRef: kUnsupported where the target would depend on the way that led here.
  Result<Place> resolve_dynamic(const JsonValue& from, std::string_view reference) const;
  /// More than one schema with an identifier of its own.
  bool several_resources() const { return resources_.size() > 1; }

 private:
  struct Resource {
    std::string uri;
    Place root;
  };
  void walk(const JsonValue& schema, const std::string& path, size_t resource);
  void walk_children(const JsonValue& schema, const std::string& path, size_t resource);
  Result<Place> follow_pointer(Place place, std::string_view pointer) const;

  Draft draft_ = Draft::k2020;
  std::vector<Resource> resources_;
  std::unordered_map<const JsonValue*, size_t> resource_of_;
  std::map<std::string, size_t, std::less<>> by_uri_;
  std::map<std::string, Place, std::less<>> anchors_;            // "uri#name"
  std::map<std::string, int32_t, std::less<>> dynamic_anchors_;  // how many of that name
};

}  // namespace pagoda::grammar
