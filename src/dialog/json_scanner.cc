#include "dialog/json_scanner.h"

namespace pagoda::dialog {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

/// The parts of a number: -? int frac? exp?, each with at least one digit, int without leading zeros.
bool is_number(std::string_view text) {
  size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const size_t from = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at - from;
  };
  const size_t first = at;
  const size_t whole = digits();
  if (whole == 0 || (whole > 1 && text[first] == '0')) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

}  // namespace

bool JsonScanner::begin_value(char c) {
  if (c == '{' || c == '[') {
    if (open_.size() >= kDepthMax) return false;
    open_.push_back(c);
    state_ = c == '{' ? State::kKeyOrClose : State::kValueOrClose;
    return true;
  }
  if (c == '"') {
    in_key_ = false;
    state_ = State::kString;
    return true;
  }
  if (c == '-' || is_digit(c)) {
    number_.assign(1, c);
    state_ = State::kNumber;
    return true;
  }
  for (const std::string_view literal : {"true", "false", "null"}) {
    if (c != literal[0]) continue;
    literal_ = literal.substr(1);
    state_ = State::kLiteral;
    return true;
  }
  return false;
}

bool JsonScanner::close(char c) {
  if (open_.empty() || open_.back() != (c == '}' ? '{' : '[')) return false;
  open_.pop_back();
  end_value();
  return true;
}

bool JsonScanner::feed_string(char c) {
  if (static_cast<unsigned char>(c) < 0x20) return false;
  if (c == '\\') state_ = State::kEscape;
  if (c != '"') return true;
  if (in_key_) {
    state_ = State::kColon;
  } else {
    end_value();
  }
  return true;
}

bool JsonScanner::feed_number(char c) {
  if (is_digit(c) || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-') {
    number_.push_back(c);
    return number_.size() < 1024;
  }
  if (!is_number(number_)) return false;
  end_value();
  return !done() && feed(c);
}

bool JsonScanner::feed(char c) {
  switch (state_) {
    case State::kString:
      return feed_string(c);
    case State::kEscape:
      if (c == 'u') {
        hex_left_ = 4;
        state_ = State::kHex;
        return true;
      }
      state_ = State::kString;
      return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
    case State::kHex:
      if (--hex_left_ == 0) state_ = State::kString;
      return is_hex(c);
    case State::kLiteral:
      if (c != literal_[0]) return false;
      literal_.remove_prefix(1);
      if (literal_.empty()) end_value();
      return true;
    case State::kNumber:
      return feed_number(c);
    default:
      break;
  }
  if (is_space(c)) return true;
  switch (state_) {
    case State::kValue:
      return begin_value(c);
    case State::kValueOrClose:
      return c == ']' ? close(c) : begin_value(c);
    case State::kKeyOrClose:
      if (c == '}') return close(c);
      [[fallthrough]];
    case State::kKey:
      in_key_ = true;
      state_ = State::kString;
      return c == '"';
    case State::kColon:
      state_ = State::kValue;
      return c == ':';
    case State::kCommaOrClose:
      if (c != ',') return close(c);
      state_ = open_.back() == '{' ? State::kKey : State::kValue;
      return true;
    default:
      return false;
  }
}

}  // namespace pagoda::dialog
