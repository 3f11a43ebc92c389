#include "dialog/call_match.h"

#include <algorithm>

#include "dialog/json_scanner.h"
#include "dialog/literals.h"

namespace pagoda::dialog {
namespace {

constexpr size_t kHeaderBytesMax = 256;                // a name with its id and what stands between
constexpr std::string_view kNamespace = "functions.";  // how some models spell a name

Match whole_call(CallHead& head, std::string_view name, const Json& arguments, const Cursor& cursor) {
  head.whole = true;
  head.name = std::string(name);
  head.arguments = json_text(arguments);
  head.bytes = cursor.at;
  return Match::kYes;
}

// --- JSON objects ---

/// A string without escapes.
Match plain_string(Cursor& cursor, std::string_view& text) {
  cursor.skip_space();
  PAGODA_MATCH(cursor.literal("\""));
  const size_t end = cursor.text.find_first_of("\"\\\n", cursor.at);
  if (end == std::string_view::npos) return Match::kMore;
  if (cursor.text[end] != '"') return Match::kNo;
  text = cursor.text.substr(cursor.at, end - cursor.at);
  cursor.at = end + 1;
  return Match::kYes;
}

bool is_name_key(std::string_view key) { return key == "name" || key == "tool_name"; }
bool is_arguments_key(std::string_view key) { return key == "arguments" || key == "parameters"; }

Match punctuation(Cursor& cursor, std::string_view want) {
  cursor.skip_space();
  return cursor.ended() ? Match::kMore : cursor.literal(want);
}

/// {"name": NAME, "arguments": { -- with the members in this order, which lets the arguments stream.
Match ordered_object(const ToolSet& tools, Cursor cursor, CallHead& head) {
  std::string_view key, name;
  PAGODA_MATCH(punctuation(cursor, "{"));
  head.object_at = cursor.at - 1;
  PAGODA_MATCH(plain_string(cursor, key));
  if (!is_name_key(key)) return Match::kNo;
  PAGODA_MATCH(punctuation(cursor, ":"));
  PAGODA_MATCH(plain_string(cursor, name));
  if (!tools.has(name)) return Match::kNo;
  PAGODA_MATCH(punctuation(cursor, ","));
  PAGODA_MATCH(plain_string(cursor, key));
  if (!is_arguments_key(key)) return Match::kNo;
  PAGODA_MATCH(punctuation(cursor, ":"));
  PAGODA_MATCH(punctuation(cursor, "{"));
  head.name = std::string(name);
  head.bytes = cursor.at - 1;
  return Match::kYes;
}

/// Steps over one JSON value.
Match scan_value(Cursor& cursor) {
  JsonScanner scanner;
  for (; !cursor.ended(); ++cursor.at) {
    if (!scanner.feed(cursor.peek())) return Match::kNo;
    if (!scanner.done()) continue;
    ++cursor.at;
    return Match::kYes;
  }
  return Match::kMore;
}

/// The arguments of a call read whole: an object, or a string that holds one. Discarded if neither.
Json arguments_object(const Json& value) {
  if (value.is_object()) return value;
  if (value.is_null()) return Json::object();
  if (const auto* text = value.get_ptr<const Json::string_t*>()) {
    Json inner = Json::parse(*text, nullptr, false);
    if (inner.is_object()) return inner;
  }
  return Json(Json::value_t::discarded);
}

/// The members of a call object in any order: name and arguments, perhaps within "function".
Match object_call(const Json& object, const ToolSet& tools, const Cursor& cursor, CallHead& head) {
  const auto function = object.find("function");
  const Json& holder = function != object.end() && function->is_object() ? *function : object;
  std::string name;
  Json arguments = Json::object();
  for (const auto& item : holder.items()) {
    const auto* text = item.value().get_ptr<const Json::string_t*>();
    if (is_name_key(item.key()) && text != nullptr) name = *text;
    if (is_arguments_key(item.key())) arguments = arguments_object(item.value());
  }
  if (!tools.has(name) || arguments.is_discarded()) return Match::kNo;
  return whole_call(head, name, arguments, cursor);
}

Match match_json(const ToolSet& tools, Cursor cursor, CallHead& head) {
  if (const Match ordered = ordered_object(tools, cursor, head); ordered != Match::kNo) return ordered;
  PAGODA_MATCH(cursor.ended() || cursor.peek() != '{' ? Match::kNo : Match::kYes);
  const size_t from = cursor.at;
  PAGODA_MATCH(scan_value(cursor));
  const Json object = Json::parse(cursor.text.substr(from, cursor.at - from), nullptr, false);
  return object.is_object() ? object_call(object, tools, cursor, head) : Match::kNo;
}

/// {NAME: {
Match match_keyed(const ToolSet& tools, Cursor cursor, CallHead& head) {
  std::string_view name;
  PAGODA_MATCH(punctuation(cursor, "{"));
  head.object_at = cursor.at - 1;
  PAGODA_MATCH(plain_string(cursor, name));
  if (!tools.has(name)) return Match::kNo;
  PAGODA_MATCH(punctuation(cursor, ":"));
  PAGODA_MATCH(punctuation(cursor, "{"));
  head.name = std::string(name);
  head.bytes = cursor.at - 1;
  return Match::kYes;
}

// --- a name, then JSON ---

std::string_view without_prefix(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

/// Splits a header like "get_weather", "functions.get_weather:0" or "get_weather[CALL_ID]x".
std::string_view name_of_header(std::string_view header, std::string& id) {
  constexpr std::string_view kCallId = "[CALL_ID]";
  if (const size_t at = header.find(kCallId); at != std::string_view::npos) {
    id = std::string(header.substr(at + kCallId.size()));
  } else if (header.starts_with(kNamespace) && header.find(':') != std::string_view::npos) {
    id = std::string(header);
  }
  Cursor cursor{without_prefix(header, kNamespace)};
  cursor.skip_space();
  return read_name(cursor);
}

Match match_named(const CallFormat& format, const ToolSet& tools, Cursor cursor, CallHead& head) {
  PAGODA_MATCH(cursor.literal(format.call_open));
  std::string_view header;
  const std::string_view begun = cursor.rest();
  if (const Match found = cursor.until(format.name_end, header); found != Match::kYes) {
    if (begun.size() > kHeaderBytesMax) return Match::kNo;
    Cursor name{without_prefix(begun, kNamespace)};
    const std::string_view text = read_name(name);
    if (!name.ended()) return tools.has(text) ? Match::kMore : Match::kNo;
    return tools.has_prefix(text) || kNamespace.starts_with(begun) ? Match::kMore : Match::kNo;
  }
  if (header.size() > kHeaderBytesMax) return Match::kNo;
  const std::string_view name = name_of_header(header, head.id);
  if (!tools.has(name)) return Match::kNo;
  cursor.skip_space();
  if (cursor.ended()) return Match::kMore;
  if (cursor.peek() != '{') return Match::kNo;
  head.name = std::string(name);
  head.bytes = head.object_at = cursor.at;
  return Match::kYes;
}

// --- tags ---

/// The line breaks that templates put around a value.
std::string_view trim_line_ends(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

/// A name at the end of an opening tag: NAME> or NAME">, with attributes before the ">".
Match tag_name(Cursor& cursor, std::string_view& name, std::string_view& attributes) {
  std::string_view inside;
  PAGODA_MATCH(cursor.until(">", inside));
  const size_t end = inside.find('"');
  name = inside.substr(0, end);
  attributes = end == std::string_view::npos ? std::string_view() : inside.substr(end + 1);
  return name.empty() || name.size() > kHeaderBytesMax ? Match::kNo : Match::kYes;
}

Match match_parameters(const CallFormat& format, const ToolSet& tools, Cursor cursor, CallHead& head) {
  std::string_view name, key, attributes, text;
  cursor.skip_space();
  PAGODA_MATCH(cursor.literal(format.call_open));
  PAGODA_MATCH(tag_name(cursor, name, attributes));
  if (!tools.has(name)) return Match::kNo;
  Json arguments = Json::object();
  while (true) {
    cursor.skip_space();
    const Match closed = cursor.literal(format.call_close);
    if (closed == Match::kYes) return whole_call(head, name, arguments, cursor);
    const Match opened = cursor.literal(format.argument_open);
    if (opened != Match::kYes) return closed == Match::kMore ? closed : opened;
    PAGODA_MATCH(tag_name(cursor, key, attributes));
    PAGODA_MATCH(cursor.until(format.argument_close, text));
    const std::string value(trim_line_ends(text));
    const bool is_text = attributes.find("string=\"true\"") != std::string_view::npos;
    arguments[std::string(key)] = is_text ? Json(value) : tools.value(name, std::string(key), value);
  }
}

Match match_pairs(const CallFormat& format, const ToolSet& tools, Cursor cursor, CallHead& head) {
  cursor.skip_space();
  const std::string_view name = read_name(cursor);
  if (cursor.ended()) return tools.has_prefix(name) ? Match::kMore : Match::kNo;
  if (!tools.has(name)) return Match::kNo;
  Json arguments = Json::object();
  while (true) {
    cursor.skip_space();
    Cursor ahead = cursor;
    const Match closed = ahead.literal(format.close);
    if (closed == Match::kYes) return whole_call(head, name, arguments, cursor);
    const Match opened = cursor.literal("<arg_key>");
    if (opened != Match::kYes) return closed == Match::kMore ? closed : opened;
    std::string_view key, text;
    PAGODA_MATCH(cursor.until("</arg_key>", key));
    cursor.skip_space();
    PAGODA_MATCH(cursor.literal("<arg_value>"));
    PAGODA_MATCH(cursor.until("</arg_value>", text));
    arguments[std::string(key)] = tools.value(name, std::string(key), std::string(text));
  }
}

// --- languages ---

Match match_pythonic(const ToolSet& tools, Cursor cursor, CallHead& head) {
  cursor.skip_space();
  const std::string_view name = read_name(cursor);
  if (cursor.ended()) return tools.has_prefix(name) ? Match::kMore : Match::kNo;
  if (!tools.has(name)) return Match::kNo;
  PAGODA_MATCH(cursor.literal("("));
  Json arguments = Json::object();
  while (true) {
    cursor.skip_space();
    if (cursor.ended()) return Match::kMore;
    if (cursor.peek() == ')') break;
    const std::string_view key = read_name(cursor);
    Json value;
    PAGODA_MATCH(punctuation(cursor, "="));
    PAGODA_MATCH(read_python(cursor, value));
    arguments[std::string(key)] = std::move(value);
    cursor.skip_space();
    if (cursor.ended()) return Match::kMore;
    if (cursor.peek() != ')') PAGODA_MATCH(cursor.literal(","));
  }
  ++cursor.at;
  return whole_call(head, name, arguments, cursor);
}

Match match_gemma(const ToolSet& tools, Cursor cursor, CallHead& head) {
  cursor.skip_space();
  PAGODA_MATCH(cursor.literal("call:"));
  const std::string_view name = read_name(cursor);
  if (cursor.ended()) return tools.has_prefix(name) ? Match::kMore : Match::kNo;
  if (!tools.has(name) || cursor.peek() != '{') return Match::kNo;
  Json arguments;
  PAGODA_MATCH(read_gemma(cursor, arguments));
  return whole_call(head, name, arguments, cursor);
}

}  // namespace

Match match_call(const CallFormat& format, const ToolSet& tools, std::string_view text, CallHead& head) {
  Cursor cursor{text};
  cursor.skip_space();
  if (cursor.ended()) return Match::kMore;
  switch (format.syntax) {
    case CallSyntax::kNone:
      return Match::kNo;
    case CallSyntax::kJson:
      return match_json(tools, cursor, head);
    case CallSyntax::kKeyedJson:
      return match_keyed(tools, cursor, head);
    case CallSyntax::kNamedJson:
      return match_named(format, tools, cursor, head);
    case CallSyntax::kParameters:
      return match_parameters(format, tools, cursor, head);
    case CallSyntax::kPairs:
      return match_pairs(format, tools, cursor, head);
    case CallSyntax::kPythonic:
      return match_pythonic(tools, cursor, head);
    case CallSyntax::kGemma:
      return match_gemma(tools, cursor, head);
  }
  return Match::kNo;
}

}  // namespace pagoda::dialog
