#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "grammar/lexeme.h"

namespace pagoda::grammar {

/// Reads the text of a JSON string (after the opening quote) and feeds a lexeme with the value's bytes.
struct JsonStringStep {
  enum class Kind : uint8_t { kRefused, kOn, kQuote };
  Kind kind = Kind::kRefused;
  int32_t state = 0;   // of the lexeme
  int32_t escape = 0;  // inside an escape sequence; 0 = not
};

/// `tidy`: escapes only of what needs one. One byte. `live(state)`: some string that begins with what led to `state` is
/// right. With kQuote the caller decides whether the string may end. `fed` gets the value's bytes that the byte
/// completed.
JsonStringStep step_json_string(Lexeme& lexeme, const std::function<bool(int32_t)>& live, int32_t state, int32_t escape,
                                uint8_t byte, bool tidy, std::string& fed);

}  // namespace pagoda::grammar
