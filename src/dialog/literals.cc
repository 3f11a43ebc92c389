#include "dialog/literals.h"

#include <cstdint>

namespace pagoda::dialog {
namespace {

constexpr int32_t kDepthMax = 32;
constexpr std::string_view kGemmaQuote = "<|\"|>";

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == '/';
}

void append_utf8(uint32_t code, std::string& out) {
  const auto byte = [&out](uint32_t b) { out.push_back(static_cast<char>(b)); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

Match read_hex(Cursor& cursor, size_t digits, std::string& out) {
  if (cursor.rest().size() < digits) return Match::kMore;
  uint32_t code = 0;
  for (size_t i = 0; i < digits; ++i) {
    const char c = cursor.text[cursor.at + i];
    const uint32_t digit = c >= '0' && c <= '9'   ? static_cast<uint32_t>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<uint32_t>(c - 'a') + 10
                           : c >= 'A' && c <= 'F' ? static_cast<uint32_t>(c - 'A') + 10
                                                  : 16;
    if (digit == 16) return Match::kNo;
    code = code * 16 + digit;
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return Match::kNo;
  cursor.at += digits;
  append_utf8(code, out);
  return Match::kYes;
}

Match read_escape(Cursor& cursor, std::string& out) {
  if (cursor.ended()) return Match::kMore;
  const char c = cursor.text[cursor.at++];
  switch (c) {
    case 'n':
      out += '\n';
      return Match::kYes;
    case 't':
      out += '\t';
      return Match::kYes;
    case 'r':
      out += '\r';
      return Match::kYes;
    case '\n':
      return Match::kYes;
    case 'x':
      return read_hex(cursor, 2, out);
    case 'u':
      return read_hex(cursor, 4, out);
    case 'U':
      return read_hex(cursor, 8, out);
    default:
      if (c != '\\' && c != '\'' && c != '"' && c != '/') out += '\\';  // Python keeps what it does not know
      out += c;
      return Match::kYes;
  }
}

Match read_quoted(Cursor& cursor, Json& value) {
  const char quote = cursor.text[cursor.at++];
  std::string text;
  while (!cursor.ended()) {
    const char c = cursor.text[cursor.at++];
    if (c == quote) {
      value = std::move(text);
      return Match::kYes;
    }
    if (c == '\\') {
      PAGODA_MATCH(read_escape(cursor, text));
    } else {
      text += c;
    }
  }
  return Match::kMore;
}

/// A number or a word: what stands up to the next character of structure.
Match read_word(Cursor& cursor, Json& value) {
  const size_t end = cursor.text.find_first_of(",)]}:= \n\t", cursor.at);
  if (end == std::string_view::npos) return Match::kMore;
  const std::string_view word = cursor.text.substr(cursor.at, end - cursor.at);
  cursor.at = end;
  if (word == "True" || word == "true") {
    value = true;
  } else if (word == "False" || word == "false") {
    value = false;
  } else if (word == "None" || word == "null") {
    value = nullptr;
  } else {
    value = Json::parse(word, nullptr, false);
    if (!value.is_number()) return Match::kNo;
  }
  return Match::kYes;
}

/// One notation of values; the two differ in strings and keys.
class Reader {
 public:
  Reader(Cursor& cursor, bool gemma) : cursor_(cursor), gemma_(gemma) {}

  Match value(Json& out, int32_t depth) {
    cursor_.skip_space();
    if (cursor_.ended()) return Match::kMore;
    if (depth > kDepthMax) return Match::kNo;
    const char c = cursor_.peek();
    if (c == '[') return list(out, ']', depth);
    if (c == '(' && !gemma_) return list(out, ')', depth);
    if (c == '{') return dictionary(out, depth);
    if (gemma_ && c == '<') return gemma_string(out);
    if (c == '"' || (c == '\'' && !gemma_)) return read_quoted(cursor_, out);
    return read_word(cursor_, out);
  }

 private:
  Match list(Json& out, char close, int32_t depth) {
    ++cursor_.at;
    out = Json::array();
    while (true) {
      cursor_.skip_space();
      if (cursor_.ended()) return Match::kMore;
      if (cursor_.peek() == close) break;
      Json element;
      PAGODA_MATCH(value(element, depth + 1));
      out.push_back(std::move(element));
      PAGODA_MATCH(comma_or(close));
    }
    ++cursor_.at;
    return Match::kYes;
  }

  Match dictionary(Json& out, int32_t depth) {
    ++cursor_.at;
    out = Json::object();
    while (true) {
      cursor_.skip_space();
      if (cursor_.ended()) return Match::kMore;
      if (cursor_.peek() == '}') break;
      Json name, element;
      PAGODA_MATCH(key(name));
      cursor_.skip_space();
      PAGODA_MATCH(cursor_.literal(":"));
      PAGODA_MATCH(value(element, depth + 1));
      out[*name.get_ptr<const Json::string_t*>()] = std::move(element);
      PAGODA_MATCH(comma_or('}'));
    }
    ++cursor_.at;
    return Match::kYes;
  }

  Match key(Json& out) {
    if (cursor_.peek() == '<' && gemma_) return gemma_string(out);
    if (cursor_.peek() == '"' || cursor_.peek() == '\'') return read_quoted(cursor_, out);
    const std::string_view name = read_name(cursor_);
    if (cursor_.ended()) return Match::kMore;
    if (name.empty() || !gemma_) return Match::kNo;
    out = std::string(name);
    return Match::kYes;
  }

  Match gemma_string(Json& out) {
    std::string_view text;
    PAGODA_MATCH(cursor_.literal(kGemmaQuote));
    PAGODA_MATCH(cursor_.until(kGemmaQuote, text));
    out = std::string(text);
    return Match::kYes;
  }

  /// Steps over a comma; `close` stays.
  Match comma_or(char close) {
    cursor_.skip_space();
    if (cursor_.ended()) return Match::kMore;
    if (cursor_.peek() == close) return Match::kYes;
    return cursor_.literal(",");
  }

  Cursor& cursor_;
  const bool gemma_;
};

}  // namespace

Match read_python(Cursor& cursor, Json& value) { return Reader(cursor, false).value(value, 0); }
Match read_gemma(Cursor& cursor, Json& value) { return Reader(cursor, true).value(value, 0); }

std::string_view read_name(Cursor& cursor) {
  const size_t from = cursor.at;
  while (!cursor.ended() && is_name(cursor.peek())) ++cursor.at;
  return cursor.text.substr(from, cursor.at - from);
}

}  // namespace pagoda::dialog
