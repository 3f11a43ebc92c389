#include "dialog/tool_set.h"

#include <algorithm>

namespace pagoda::dialog {
namespace {

bool is_string_type(const Json& type) { return type.is_string() && type == "string"; }

/// The schema takes strings and nothing that a bare text could also mean.
bool wants_string(const Json& schema) {
  if (!schema.is_object()) return false;
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (!type->is_array()) return is_string_type(*type);
    return !type->empty() &&
           std::all_of(type->begin(), type->end(), [](const Json& t) { return is_string_type(t) || t == "null"; });
  }
  const auto choices = schema.find("enum");
  return choices != schema.end() && choices->is_array() && !choices->empty() &&
         std::all_of(choices->begin(), choices->end(), [](const Json& one) { return one.is_string(); });
}

}  // namespace

ToolSet::ToolSet(const Json& tools) {
  if (!tools.is_array()) return;
  for (const Json& tool : tools) {
    if (!tool.is_object()) continue;
    const auto function = tool.find("function");
    const Json& inner = function != tool.end() && function->is_object() ? *function : tool;
    const auto name = inner.find("name");
    if (name == inner.end() || !name->is_string()) continue;
    Json properties = Json::object();
    const auto parameters = inner.find("parameters");
    if (parameters != inner.end() && parameters->is_object()) {
      const auto found = parameters->find("properties");
      if (found != parameters->end() && found->is_object()) properties = *found;
    }
    parameters_[*name->get_ptr<const Json::string_t*>()] = std::move(properties);
  }
}

bool ToolSet::has_prefix(std::string_view text) const {
  const auto found = parameters_.lower_bound(text);
  return found != parameters_.end() && std::string_view(found->first).starts_with(text);
}

Json ToolSet::value(std::string_view tool, const std::string& key, const std::string& text) const {
  const auto properties = parameters_.find(tool);
  if (properties != parameters_.end()) {
    const auto schema = properties->second.find(key);
    if (schema != properties->second.end() && wants_string(*schema)) return text;
  }
  Json parsed = Json::parse(text, nullptr, false);
  return parsed.is_discarded() ? Json(text) : parsed;
}

}  // namespace pagoda::dialog
