#include "jinja/environment_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace pagoda::jinja {
namespace {

using Json = nlohmann::ordered_json;

Error wrong(const char* key, const char* wanted) {
  return Error{Code::kInvalidRequest, fmt::format("env.{} must be {}", key, wanted), key};
}

Status read_flag(const Json& json, const char* key, bool& out) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return ok_status();
  if (const auto* flag = found->get_ptr<const Json::boolean_t*>()) {
    out = *flag;
  } else if (!found->is_string()) {  // jinja2 also takes a function for autoescape, which a row can only name
    return wrong(key, "a boolean");
  }
  return ok_status();
}

Status read_text(const Json& json, const char* key, std::string& out, bool optional) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return ok_status();
  const auto* text = found->get_ptr<const Json::string_t*>();
  if (text == nullptr || (text->empty() && !optional)) return wrong(key, "a string that is not empty");
  out = *text;
  return ok_status();
}

Status read_undefined(const Json& json, Undefined& out) {
  std::string name;
  PAGODA_TRY_STATUS(read_text(json, "undefined", name, true));
  if (name == "StrictUndefined") out = Undefined::kStrict;
  if (name == "ChainableUndefined") out = Undefined::kChainable;
  if (name == "DebugUndefined") out = Undefined::kDebug;
  return ok_status();
}

}  // namespace

Result<Environment> environment_from_json(const Json& json) {
  if (!json.is_object()) return Error{Code::kInvalidRequest, "env must be an object", "env"};
  Environment out = Environment::plain();
  PAGODA_TRY_STATUS(read_flag(json, "trim_blocks", out.trim_blocks));
  PAGODA_TRY_STATUS(read_flag(json, "lstrip_blocks", out.lstrip_blocks));
  PAGODA_TRY_STATUS(read_flag(json, "keep_trailing_newline", out.keep_trailing_newline));
  PAGODA_TRY_STATUS(read_flag(json, "autoescape", out.autoescape));
  PAGODA_TRY_STATUS(read_undefined(json, out.undefined));
  PAGODA_TRY_STATUS(read_text(json, "newline_sequence", out.newline_sequence, false));
  if (out.newline_sequence != "\n" && out.newline_sequence != "\r\n" && out.newline_sequence != "\r")
    return wrong("newline_sequence", "\\n, \\r\\n or \\r");
  PAGODA_TRY_STATUS(read_text(json, "block_start_string", out.block_start, false));
  PAGODA_TRY_STATUS(read_text(json, "block_end_string", out.block_end, false));
  PAGODA_TRY_STATUS(read_text(json, "variable_start_string", out.variable_start, false));
  PAGODA_TRY_STATUS(read_text(json, "variable_end_string", out.variable_end, false));
  PAGODA_TRY_STATUS(read_text(json, "comment_start_string", out.comment_start, false));
  PAGODA_TRY_STATUS(read_text(json, "comment_end_string", out.comment_end, false));
  PAGODA_TRY_STATUS(read_text(json, "line_statement_prefix", out.line_statement_prefix, true));
  PAGODA_TRY_STATUS(read_text(json, "line_comment_prefix", out.line_comment_prefix, true));
  return out;
}

}  // namespace pagoda::jinja
