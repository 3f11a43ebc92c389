#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "jinja/template.h"

namespace pagoda::jinja {

enum class TokenType : uint8_t {
  kData,  // template text, newlines as the environment wants them
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  // text without quotes, escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEof,
};

struct Token {
  TokenType type;
  int32_t line;      // from 1
  std::string text;  // the data, name, string, digits without underscores, or operator
};

/// "line N: message", the form of every parse error.
Error syntax_error(int32_t line, std::string message);

/// Splits a template as jinja2.lexer does, white space control, trim_blocks, lstrip_blocks, raw blocks, comments and
/// line statements included. The last token is kEof. Errors: kInvalidRequest with the line.
Result<std::vector<Token>> tokenize(std::string_view source, const Environment& environment);

}  // namespace pagoda::jinja
