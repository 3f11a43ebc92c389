#include "grammar/scientific.h"

#include <algorithm>
#include <string>

namespace pagoda::grammar {
namespace {

constexpr int32_t kExponentMax = 330;  // of a double, and some
constexpr size_t kFractionDigitsMax = 17;
constexpr size_t kExponentDigitsMax = 4;  // leading zeros too

bool all_digits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool right_with(const Scalar& scalar, const Decimal& mantissa, int32_t exponent) {
  Decimal number = mantissa;
  if (!number.zero()) number.exponent += exponent;
  return scalar.lexeme.holds(number, *scalar.formula);
}

// Some exponent of low..high, with its sign.
bool some_right(const Scalar& scalar, const Decimal& mantissa, bool down, int32_t low, int32_t high) {
  for (int32_t exponent = low; exponent <= std::min(high, kExponentMax); ++exponent)
    if (right_with(scalar, mantissa, down ? -exponent : exponent)) return true;
  return false;
}

bool mantissa_shape(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  if (text.empty()) return true;
  if (!all_digits(text.substr(0, 1))) return false;
  text.remove_prefix(1);
  if (text.empty()) return true;
  return text[0] == '.' && text.size() - 1 <= kFractionDigitsMax && all_digits(text.substr(1));
}

}  // namespace

ScientificAnswer judge_scientific(const Scalar& scalar, std::string_view text, bool plain_live) {
  const size_t e = std::min(text.find('e'), text.find('E'));
  const std::string_view head = text.substr(0, e);
  if (!mantissa_shape(head)) return ScientificAnswer::kNo;
  const bool whole = !head.empty() && head.back() != '-' && head.back() != '.';
  const Decimal mantissa = Decimal::parse(head);
  const auto any_sign = [&] {
    return some_right(scalar, mantissa, false, 0, kExponentMax) || some_right(scalar, mantissa, true, 1, kExponentMax);
  };
  if (e == std::string_view::npos)
    return plain_live || (whole && any_sign()) ? ScientificAnswer::kBegins : ScientificAnswer::kNo;
  if (!whole) return ScientificAnswer::kNo;
  std::string_view tail = text.substr(e + 1);
  if (tail.empty()) return any_sign() ? ScientificAnswer::kBegins : ScientificAnswer::kNo;
  const bool down = tail[0] == '-';
  if (tail[0] == '-' || tail[0] == '+') tail.remove_prefix(1);
  if (tail.size() > kExponentDigitsMax || !all_digits(tail)) return ScientificAnswer::kNo;
  int32_t exponent = 0;
  for (const char digit : tail) exponent = exponent * 10 + (digit - '0');
  if (!tail.empty() && exponent <= kExponentMax && right_with(scalar, mantissa, down ? -exponent : exponent))
    return ScientificAnswer::kRight;
  int32_t span = 1;
  for (size_t more = tail.size(); more < kExponentDigitsMax; ++more) {
    exponent *= 10;
    span *= 10;
    if (some_right(scalar, mantissa, down, exponent, exponent + span - 1)) return ScientificAnswer::kBegins;
  }
  return ScientificAnswer::kNo;
}

}  // namespace pagoda::grammar
