#include "api/structured_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace pagoda::api {
namespace {

constexpr size_t kSourceBytesMax = 1 << 20;
constexpr size_t kListedChoicesMax = 4096;

using grammar::Source;

struct Found {
  Source source;
  std::string path;
};
using FoundList = std::vector<Found>;

Status add_text(FoundList& found, const JsonField& field, Source::Kind kind) {
  if (!field.present()) return ok_status();
  PAGODA_TRY(std::string text, field.string());
  if (text.empty()) return ok_status();  // what some clients send for "none"
  if (text.size() > kSourceBytesMax) return field.error(fmt::format("at most {} bytes are allowed", kSourceBytesMax));
  found.push_back({{.kind = kind, .text = std::move(text)}, field.path()});
  return ok_status();
}

/// An object, true, false, or JSON as text.
Status add_schema(FoundList& found, const JsonField& field) {
  if (!field.present()) return ok_status();
  if (field.is_string()) return add_text(found, field, Source::Kind::kJsonSchema);
  if (!field.is_object() && !field.json().is_boolean())
    return field.error("a JSON Schema is required: an object, or its text");
  if (field.is_object() && field.json().empty() && field.path() == "json_schema")
    return ok_status();  // llama.cpp's default
  found.push_back({{.kind = Source::Kind::kJsonSchema, .text = field.json().dump()}, field.path()});
  return ok_status();
}

Status add_choices(FoundList& found, const JsonField& field) {
  if (!field.present()) return ok_status();
  PAGODA_TRY_STATUS(field.array(kListedChoicesMax));
  if (field.size() == 0) return field.error("at least one choice is required");
  Source source{.kind = Source::Kind::kChoice};
  for (size_t i = 0; i < field.size(); ++i) {
    PAGODA_TRY(std::string text, field.at(i).string());
    source.choices.push_back(std::move(text));
  }
  found.push_back({std::move(source), field.path()});
  return ok_status();
}

void add_any_object(FoundList& found, const JsonField& field) {
  found.push_back({{.kind = Source::Kind::kJsonSchema, .text = R"({"type":"object"})"}, field.path()});
}

Status add_response_format(FoundList& found, const JsonField& format) {
  if (!format.present()) return ok_status();
  PAGODA_TRY_STATUS(format.object());
  const JsonField type = format.get("type");
  PAGODA_TRY(const std::string name, type.string());
  if (name == "text") return ok_status();
  if (name == "json_object") {
    if (format.get("schema").present()) return add_schema(found, format.get("schema"));  // llama.cpp
    add_any_object(found, format);
    return ok_status();
  }
  if (name == "json_schema") {
    const JsonField wrapper = format.get("json_schema");
    const JsonField schema = wrapper.present() ? wrapper.get("schema") : format.get("schema");
    if (wrapper.present()) PAGODA_TRY_STATUS(wrapper.object());
    if (!schema.present()) return schema.error("a JSON Schema is required");
    return add_schema(found, schema);
  }
  return type.error("\"text\", \"json_object\" or \"json_schema\" is required");
}

Status add_structured_outputs(FoundList& found, const JsonField& field) {
  if (!field.present()) return ok_status();
  PAGODA_TRY_STATUS(field.object());
  const size_t before = found.size();
  PAGODA_TRY_STATUS(add_schema(found, field.get("json")));
  PAGODA_TRY_STATUS(add_text(found, field.get("regex"), Source::Kind::kRegex));
  PAGODA_TRY_STATUS(add_choices(found, field.get("choice")));
  PAGODA_TRY_STATUS(add_text(found, field.get("grammar"), Source::Kind::kGbnf));
  PAGODA_TRY(const bool any_object, field.get("json_object").boolean_or(false));
  if (any_object) add_any_object(found, field.get("json_object"));
  for (const char* name : {"structural_tag", "whitespace_pattern"})
    if (field.get(name).present()) return field.get(name).error("it is not supported by this server");
  PAGODA_TRY(const bool closed, field.get("disable_additional_properties").boolean_or(false));
  if (closed)
    return field.get("disable_additional_properties")
        .error("write additionalProperties: false into the schema instead");
  PAGODA_TRY(const bool compact, field.get("disable_any_whitespace").boolean_or(false));
  if (compact)
    for (size_t i = before; i < found.size(); ++i) found[i].source.layout.blanks_max = 0;
  return ok_status();
}

}  // namespace

Result<std::optional<Source>> read_structured(const JsonField& root) {
  FoundList found;
  PAGODA_TRY_STATUS(add_response_format(found, root.get("response_format")));
  PAGODA_TRY_STATUS(add_structured_outputs(found, root.get("structured_outputs")));
  PAGODA_TRY_STATUS(add_schema(found, root.get("guided_json")));
  PAGODA_TRY_STATUS(add_text(found, root.get("guided_regex"), Source::Kind::kRegex));
  PAGODA_TRY_STATUS(add_choices(found, root.get("guided_choice")));
  PAGODA_TRY_STATUS(add_text(found, root.get("guided_grammar"), Source::Kind::kGbnf));
  PAGODA_TRY_STATUS(add_text(found, root.get("grammar"), Source::Kind::kGbnf));
  PAGODA_TRY_STATUS(add_text(found, root.get("ebnf"), Source::Kind::kGbnf));
  PAGODA_TRY_STATUS(add_text(found, root.get("regex"), Source::Kind::kRegex));
  PAGODA_TRY_STATUS(add_schema(found, root.get("json_schema")));
  for (Found& one : found) one.source.layout.tidy = true;
  if (found.empty()) return std::optional<Source>();
  if (found.size() > 1)
    return Error{
        Code::kInvalidRequest,
        fmt::format("{} and {} both say what the answer must look like: give one", found[0].path, found[1].path),
        found[1].path};
  return std::optional<Source>(std::move(found[0].source));
}

Result<std::optional<Source>> read_ollama_format(const JsonField& format) {
  FoundList found;
  if (format.is_string() && format.json() == "json")
    add_any_object(found, format);
  else if (format.is_string() && format.json() != "")
    return format.error("\"json\" or a JSON Schema is required");
  else
    PAGODA_TRY_STATUS(add_schema(found, format));
  if (found.empty()) return std::optional<Source>();
  found[0].source.layout.tidy = true;
  return std::optional<Source>(std::move(found[0].source));
}

}  // namespace pagoda::api
