#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace pagoda::dialog {

/// Checks a JSON value (RFC 8259) character by character, as a model writes it: where it ends, and the first character
/// that cannot belong to it. Holds no text, only the open brackets.
class JsonScanner {
 public:
  static constexpr size_t kDepthMax = 64;

  /// False if no JSON value begins with what was fed and `c`. Must not be called once done().
  bool feed(char c);
  /// The value is complete. A number at the top level never is: nothing tells that no digit follows.
  bool done() const { return state_ == State::kDone; }
  /// Arrays and objects open.
  size_t depth() const { return open_.size(); }

 private:
  enum class State {
    kValue,         // a value must begin
    kValueOrClose,  // after '['
    kKeyOrClose,    // after '{'
    kKey,           // after ',' in an object
    kColon,
    kCommaOrClose,
    kString,
    kEscape,
    kHex,
    kLiteral,
    kNumber,
    kDone,
  };
  bool begin_value(char c);
  bool close(char c);
  bool feed_string(char c);
  bool feed_number(char c);
  void end_value() { state_ = open_.empty() ? State::kDone : State::kCommaOrClose; }

  State state_ = State::kValue;
  std::string open_{};          // '{' and '['
  bool in_key_ = false;         // the string being read is a member's name
  int32_t hex_left_ = 0;        // digits of \uXXXX to come
  std::string_view literal_{};  // what is to come of true, false, null
  std::string number_{};        // as written so far
};

}  // namespace pagoda::dialog
