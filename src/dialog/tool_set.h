#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace pagoda::dialog {

using Json = nlohmann::ordered_json;

/// The tools a request offers, by name, for reading what the model makes of them.
class ToolSet {
 public:
  ToolSet() = default;
  /// OpenAI's array: [{"type": "function", "function": {"name", "parameters"}}]; what has no name is left out.
  explicit ToolSet(const Json& tools);

  bool empty() const { return parameters_.empty(); }
  bool has(std::string_view name) const { return parameters_.find(name) != parameters_.end(); }
  /// Some tool's name begins with `text`.
  bool has_prefix(std::string_view text) const;

  /// A value that stands in the answer as bare text. Where the schema asks for a string it is one; else it is what it
  /// says as JSON, and a string if it is no JSON.
  Json value(std::string_view tool, const std::string& key, const std::string& text) const;

 private:
  std::map<std::string, Json, std::less<>> parameters_{};  // by name: the schema's `properties`
};

/// JSON text as it goes to clients; invalid UTF-8 becomes U+FFFD.
inline std::string json_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace pagoda::dialog
