#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace pagoda::grammar {

/// An exact decimal number: (-1)^negative * digits * 10^exponent. `digits` has no leading and no trailing zero; zero
/// has none at all and is not negative.
struct Decimal {
  bool negative = false;
  std::string digits{};
  int64_t exponent = 0;

  /// `text` is a JSON number.
  static Decimal parse(std::string_view text);
  static Decimal of(int64_t value) { return parse(std::to_string(value)); }
  bool zero() const { return digits.empty(); }
  bool integer() const { return exponent >= 0; }
  /// Digits before the point; 0 or negative for numbers below 1.
  int64_t integer_digits() const { return static_cast<int64_t>(digits.size()) + exponent; }
  /// "-12.5", "1000", "0": without exponent. Only for numbers of bearable length.
  std::string plain() const;
  friend bool operator==(const Decimal&, const Decimal&) = default;
};

/// < 0, 0, > 0
int compare(const Decimal& a, const Decimal& b);

}  // namespace pagoda::grammar
