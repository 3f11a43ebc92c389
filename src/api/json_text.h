#pragma once
#include <string>
#include <string_view>

#include "api/json_field.h"

namespace pagoda::api {

/// JSON text; invalid UTF-8 in strings becomes U+FFFD.
inline std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// Writes an object or array as text, member by member: a hundred thousand logprobs as a document tree would take
/// several times the memory of their text.
class JsonText {
 public:
  static JsonText object() { return JsonText('{', '}'); }
  static JsonText array() { return JsonText('[', ']'); }

  void member(std::string_view key, const Json& value) { member_text(key, dump(value)); }
  void member_text(std::string_view key, std::string_view json_text) {
    next();
    text_.append(dump(Json(key))).append(":").append(json_text);
  }
  void element(const Json& value) { element_text(dump(value)); }
  void element_text(std::string_view json_text) {
    next();
    text_.append(json_text);
  }
  std::string done() && { return std::move(text_) + close_; }

 private:
  JsonText(char open, char close) : text_(1, open), close_(close) {}
  void next() {
    if (text_.size() > 1) text_.push_back(',');
  }

  std::string text_;
  char close_;
};

}  // namespace pagoda::api
