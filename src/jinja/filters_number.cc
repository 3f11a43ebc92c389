// Filters on numbers.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "jinja/filters.h"
#include "jinja/numbers.h"
#include "jinja/operators.h"
#include "jinja/repr.h"
#include "jinja/text_ops.h"

namespace pagoda::jinja {
namespace {

std::string_view stripped(std::string_view text) {
  const auto space = [](char c) { return std::string_view(" \t\n\r\f\v").find(c) != std::string_view::npos; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

// Removes underscores that stand between two digits; false if one stands elsewhere.
bool without_underscores(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
    } else if (i == 0 || i + 1 == text.size() || !std::isalnum(static_cast<unsigned char>(text[i - 1])) ||
               !std::isalnum(static_cast<unsigned char>(text[i + 1]))) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<int64_t> parse_int(std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  text = stripped(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() > 2 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 32);
    const int64_t prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefix != 0 && (base == 0 || base == prefix)) {
      base = prefix;
      text.remove_prefix(text[2] == '_' ? 3 : 2);
    }
  }
  std::string digits;
  if (!without_underscores(text, digits) || digits.empty()) return std::nullopt;
  if (base == 0 && digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos)
    return std::nullopt;
  int64_t value = 0;
  const std::string signed_digits = (negative ? "-" : "") + digits;
  if (!std::isalnum(static_cast<unsigned char>(digits[0]))) return std::nullopt;
  const auto result = std::from_chars(signed_digits.data(), signed_digits.data() + signed_digits.size(), value,
                                      static_cast<int>(base == 0 ? 10 : base));
  if (result.ec != std::errc() || result.ptr != signed_digits.data() + signed_digits.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  text = stripped(text);
  std::string digits;
  if (!without_underscores(text, digits) || digits.empty()) return std::nullopt;
  std::string_view rest = digits;
  if (rest.front() == '+') rest.remove_prefix(1);
  if (rest.empty() || rest.front() == '+' || rest.find_first_of("(xX") != std::string_view::npos) return std::nullopt;
  double value = 0;
  const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (result.ptr != rest.data() + rest.size() || result.ec == std::errc::invalid_argument) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) {
    const bool tiny = rest.find("e-") != std::string_view::npos || rest.find("E-") != std::string_view::npos;
    value = tiny ? 0.0 : rest.front() == '-' ? -HUGE_VAL : HUGE_VAL;
  }
  return value;
}

namespace {

Result<Value> abs_filter(Runtime& rt, Call& call) {
  if (call.self.is_undefined() || !call.self.is_number()) {
    if (call.self.is_undefined()) return undefined_error(call.self);
    return failed("bad operand type for abs(): " + in_quotes(type_name(call.self)));
  }
  if (call.self.is(Kind::kFloat)) return Value::real(std::abs(call.self.as_float()));
  return call.self.as_int() < 0 ? negate(rt, call.self) : Result<Value>(Value::integer(call.self.as_int()));
}

Result<Value> truncated(double number, const Value& otherwise) {
  if (!std::isfinite(number)) return otherwise;
  if (std::abs(number) >= 9.2e18) return failed("an integer result needs more than 64 bits");
  return Value::integer(static_cast<int64_t>(number));
}

Result<Value> int_filter(Runtime&, Call& call) {
  const Value otherwise = call.has(0) ? call.args[0] : Value::integer(0);
  if (call.self.is_undefined()) return undefined_error(call.self);
  if (call.self.is_integral()) return Value::integer(call.self.as_int());
  if (call.self.is_number()) return truncated(call.self.as_float(), otherwise);
  if (!call.self.is_string()) return otherwise;
  const int64_t base = call.has(1) && call.args[1].is_integral() ? call.args[1].as_int() : 10;
  if (const auto number = parse_int(call.self.view(), base)) return Value::integer(*number);
  if (const auto number = parse_float(call.self.view())) return truncated(*number, otherwise);
  return otherwise;
}

Result<Value> float_filter(Runtime&, Call& call) {
  if (call.self.is_undefined()) return undefined_error(call.self);
  if (call.self.is_number()) return Value::real(call.self.as_float());
  if (call.self.is_string())
    if (const auto number = parse_float(call.self.view())) return Value::real(*number);
  return call.has(0) ? call.args[0] : Value::real(0.0);
}

// round(): halves go to the even neighbour, decided on the exact binary value.
double round_common(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::isinf(unit) ? 0.0 : std::nearbyint(value / unit) * unit;
  }
  return parse_float(fmt::format("{:.{}f}", value, digits)).value_or(value);
}

Result<Value> round_int(int64_t value, int64_t digits) {
  if (digits >= 0) return Value::integer(value);
  if (digits < -18) return Value::integer(0);
  int64_t unit = 1;
  for (int64_t i = digits; i < 0; ++i) unit *= 10;
  const int64_t rest = ((value % unit) + unit) % unit;
  const int64_t below = value - rest;
  const bool up = rest > unit / 2 || (rest == unit / 2 && (below / unit) % 2 != 0);
  return Value::integer(up ? below + unit : below);
}

Result<Value> round_filter(Runtime&, Call& call) {
  if (call.self.is_undefined()) return undefined_error(call.self);
  if (!call.self.is_number()) return failed("type " + type_name(call.self) + " doesn't define __round__ method");
  if (call.has(0) && !call.args[0].is_integral())
    return failed(in_quotes(type_name(call.args[0])) + " object cannot be interpreted as an integer");
  const int64_t digits = std::clamp<int64_t>(call.has(0) ? call.args[0].as_int() : 0, -400, 400);
  const std::string_view method = call.has(1) && call.args[1].is_string() ? call.args[1].view() : "common";
  if (method == "common")
    return call.self.is_integral() ? round_int(call.self.as_int(), digits)
                                   : Value::real(round_common(call.self.as_float(), digits));
  if (method != "ceil" && method != "floor") return failed("method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(digits));
  const double scaled = call.self.as_float() * unit;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Result<Value> filesizeformat(Runtime& rt, Call& call) {
  std::optional<double> bytes;
  if (call.self.is_number()) bytes = call.self.as_float();
  if (call.self.is_string()) bytes = parse_float(call.self.view());
  if (!bytes) return failed("could not convert to float: " + short_repr(rt, call.self));
  const bool binary = call.flag(0);
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return rt.str("1 Byte");
  if (*bytes < base) return rt.str(fmt::format("{} Bytes", static_cast<int64_t>(std::max(*bytes, -9e18))));
  double unit = base;
  const std::string_view prefixes = binary ? "KMGTPEZY" : "kMGTPEZY";
  for (size_t i = 0; i < prefixes.size(); ++i) {
    unit *= base;
    if (*bytes < unit || i + 1 == prefixes.size())
      return rt.str(fmt::format("{:.1f} {}{}B", base * *bytes / unit, prefixes[i], binary ? "i" : ""));
  }
  return rt.str("");
}

constexpr Builtin kNumberFilters[] = {
    {"abs", "", 0, abs_filter},
    {"filesizeformat", "binary", 0, filesizeformat},
    {"float", "default", 0, float_filter},
    {"int", "default base", 0, int_filter},
    {"round", "precision method", 0, round_filter},
};

}  // namespace

std::span<const Builtin> number_filters() { return kNumberFilters; }

}  // namespace pagoda::jinja
