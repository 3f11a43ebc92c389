#include "grammar/decimal.h"

#include <algorithm>

namespace pagoda::grammar {

Decimal Decimal::parse(std::string_view text) {
  Decimal out;
  size_t at = 0;
  if (at < text.size() && text[at] == '-') out.negative = true, ++at;
  bool fraction = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.') {
      fraction = true;
    } else if (c >= '0' && c <= '9') {
      out.digits += c;
      if (fraction) --out.exponent;
    } else {
      break;
    }
  }
  if (at < text.size()) {  // the exponent; one that no sensible number has is cut
    bool down = false;
    int64_t value = 0;
    for (++at; at < text.size(); ++at) {
      if (text[at] == '-') down = true;
      if (text[at] >= '0' && text[at] <= '9') value = std::min<int64_t>(value * 10 + (text[at] - '0'), 1'000'000'000);
    }
    out.exponent += down ? -value : value;
  }
  out.digits.erase(0, std::min(out.digits.find_first_not_of('0'), out.digits.size()));
  while (!out.digits.empty() && out.digits.back() == '0') {
    out.digits.pop_back();
    ++out.exponent;
  }
  if (out.digits.empty()) out = Decimal{};
  return out;
}

std::string Decimal::plain() const {
  if (zero()) return "0";
  std::string out = negative ? "-" : "";
  const int64_t before = integer_digits();
  if (before <= 0) return out + "0." + std::string(static_cast<size_t>(-before), '0') + digits;
  if (exponent >= 0) return out + digits + std::string(static_cast<size_t>(exponent), '0');
  const auto cut = static_cast<size_t>(before);
  return out + digits.substr(0, cut) + "." + digits.substr(cut);
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int sign = a.negative ? -1 : 1;
  if (a.zero() || b.zero()) return a.zero() && b.zero() ? 0 : (a.zero() ? -sign : sign);
  if (a.integer_digits() != b.integer_digits()) return a.integer_digits() < b.integer_digits() ? -sign : sign;
  const size_t length = std::max(a.digits.size(), b.digits.size());
  for (size_t i = 0; i < length; ++i) {
    const char x = i < a.digits.size() ? a.digits[i] : '0', y = i < b.digits.size() ? b.digits[i] : '0';
    if (x != y) return x < y ? -sign : sign;
  }
  return 0;
}

}  // namespace pagoda::grammar
