#include "model/keys.h"

#include <fmt/format.h>

#include <cmath>

namespace pagoda::model {

Result<int32_t> Keys::integer(const char* name, int64_t low, int64_t high) const {
  PAGODA_TRY(const int64_t value, file_.get_int(key(name)));
  return in_range(name, value, low, high);
}

Result<int32_t> Keys::integer_or(const char* name, int64_t fallback, int64_t low, int64_t high) const {
  PAGODA_TRY(const int64_t value, file_.get_int_or(key(name), fallback));
  return in_range(name, value, low, high);
}

Result<std::vector<int32_t>> Keys::per_layer(const char* name, int32_t layers, int64_t high) const {
  PAGODA_TRY(const std::vector<int64_t> values, file_.get_int_list(key(name), layers));
  std::vector<int32_t> out;
  for (const int64_t value : values) {
    PAGODA_TRY(const int32_t v, in_range(name, value, 1, high));
    out.push_back(v);
  }
  return out;
}

Result<double> Keys::positive(const char* name) const {
  PAGODA_TRY(const double value, file_.get_f64(key(name)));
  if (!std::isfinite(value) || value <= 0) return no_number(name, value, "a number above zero");
  return value;
}

Result<double> Keys::positive_or(const char* name, double fallback) const {
  return has(name) ? positive(name) : Result<double>(fallback);
}

Result<double> Keys::number_or(const char* name, double fallback) const {
  PAGODA_TRY(const double value, file_.get_f64_or(key(name), fallback));
  if (!std::isfinite(value)) return no_number(name, value, "a finite number");
  return value;
}

Result<double> Keys::zero_or_more(const char* name, double fallback) const {
  PAGODA_TRY(const double value, number_or(name, fallback));
  if (value < 0) return no_number(name, value, "a number not below zero");
  return value;
}

Result<bool> Keys::flag_or(const char* name, bool fallback) const { return file_.get_bool_or(key(name), fallback); }

Result<std::string_view> Keys::string_or(const char* name, std::string_view fallback) const {
  return file_.get_string_or(key(name), fallback);
}

Result<int32_t> Keys::in_range(const char* name, int64_t value, int64_t low, int64_t high) const {
  if (value < low || value > high)
    return Error{Code::kCorruptFile, fmt::format("{} is {}, allowed are {} to {}", key(name), value, low, high),
                 key(name)};
  return static_cast<int32_t>(value);
}

Error Keys::no_number(const char* name, double value, const char* expected) const {
  return Error{Code::kCorruptFile, fmt::format("{} is {}, it must be {}", key(name), value, expected), key(name)};
}

}  // namespace pagoda::model
