#include "api/json_field.h"

#include <fmt/format.h>

#include <cmath>

#include "core/utf8.h"

namespace pagoda::api {
namespace {

Error bad_body(const std::string& says) { return Error{Code::kInvalidRequest, "the request body " + says}; }

/// Walks the structural characters of a JSON text. Whether it is JSON at all is the parser's business.
class Scan {
 public:
  explicit Scan(const JsonLimits& limits) : limits_(limits) {}

  Status run(std::string_view text) {
    bool in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (in_string) {
        if (c == '\\') ++i;
        if (c == '"') in_string = false;
        continue;
      }
      if (c == '"') {
        in_string = true;
        if (++strings_total_ > limits_.strings_max) return bad_body(too_many("strings", limits_.strings_max, i));
      }
      if (const Status status = structural(c); !status.ok()) {
        return bad_body(fmt::format("{} (byte {})", status.error().message, i));
      }
    }
    return ok_status();
  }

  /// Members written in each object, in the order of their opening braces.
  const std::vector<int32_t>& members() const { return members_; }

 private:
  Status structural(char c) {
    if (c == '{' || c == '[') {
      open_.push_back(c == '{' ? static_cast<int32_t>(members_.size()) : kArray);
      if (c == '{') members_.push_back(0);
      if (std::ssize(open_) > limits_.depth_max) return over("nests arrays and objects", limits_.depth_max, "levels");
      if (++containers_total_ > limits_.containers_max) {
        return over("has", limits_.containers_max, "arrays and objects");
      }
    } else if (c == '}' || c == ']') {
      if (!open_.empty()) open_.pop_back();
    } else if (c == ':' && !open_.empty() && open_.back() != kArray) {
      if (++members_[static_cast<size_t>(open_.back())] > limits_.object_members_max) {
        return over("has an object with", limits_.object_members_max, "members");
      }
      if (++members_total_ > limits_.members_max)
        return over("has objects with", limits_.members_max, "members in all");
    } else if (c == ',' && !open_.empty() && open_.back() == kArray) {
      if (++elements_total_ >= limits_.elements_max) {
        return over("has arrays with", limits_.elements_max, "elements in all");
      }
    }
    return ok_status();
  }

  static Error over(std::string_view what, int32_t limit, std::string_view of) {
    return Error{Code::kInvalidRequest, fmt::format("{} more than {} {}", what, limit, of)};
  }

  static std::string too_many(std::string_view what, int32_t limit, size_t byte) {
    return fmt::format("has more than {} {} (byte {})", limit, what, byte);
  }

  static constexpr int32_t kArray = -1;
  const JsonLimits& limits_;
  std::vector<int32_t> open_{};  // kArray, or the object's index in members_
  std::vector<int32_t> members_{};
  int32_t members_total_ = 0;
  int32_t containers_total_ = 0;
  int32_t strings_total_ = 0;
  int32_t elements_total_ = 0;
};

/// Path of the first object that holds fewer members than were written in it, i.e. had a key twice; "" if none.
/// The depth is bounded by JsonLimits::depth_max.
std::string find_duplicate(const Json& value, const std::vector<int32_t>& written, size_t& object, std::string path) {
  if (value.is_object()) {
    if (object < written.size() && std::ssize(value) != written[object]) return path.empty() ? "the document" : path;
    ++object;
    for (const auto& item : value.items()) {
      if (!item.value().is_structured()) continue;
      std::string found =
          find_duplicate(item.value(), written, object, path.empty() ? item.key() : path + "." + item.key());
      if (!found.empty()) return found;
    }
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      if (!value[i].is_structured()) continue;
      std::string found = find_duplicate(value[i], written, object, fmt::format("{}[{}]", path, i));
      if (!found.empty()) return found;
    }
  }
  return {};
}

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.empty()) return bad_body("is empty, a JSON object is required");
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos) {
    return bad_body(fmt::format("is not valid UTF-8 (byte {})", bad));
  }
  Scan scan(limits);
  PAGODA_TRY_STATUS(scan.run(text));
  Json document;
  try {
    document = Json::parse(text);
  } catch (const Json::parse_error& error) {
    return bad_body(fmt::format("is not valid JSON (byte {})", error.byte));
  } catch (const Json::exception&) {  // a number outside the range of a double
    return bad_body("is not valid JSON: it holds a number that no double can hold");
  }
  size_t object = 0;
  if (const std::string path = find_duplicate(document, scan.members(), object, ""); !path.empty()) {
    return bad_body(fmt::format("has the same key twice in {}", path));
  }
  return document;
}

const Json& JsonField::json() const {
  PAGODA_CHECK(value_ != nullptr);
  return *value_;
}

JsonField JsonField::get(std::string_view name) const {
  std::string path = path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  if (value_ == nullptr || !value_->is_object()) return {nullptr, std::move(path)};
  const auto found = value_->find(std::string(name));
  return {found == value_->end() ? nullptr : &*found, std::move(path)};
}

JsonField JsonField::at(size_t i) const {
  PAGODA_CHECK(is_array() && i < value_->size());
  return {&(*value_)[i], fmt::format("{}[{}]", path_, i)};
}

size_t JsonField::size() const { return value_ != nullptr && value_->is_structured() ? value_->size() : 0; }

Error JsonField::error(std::string_view says) const {
  constexpr size_t kShown = 60;
  std::string shown = "missing";
  if (value_ != nullptr && value_->is_structured()) {
    shown = value_->is_array() ? fmt::format("an array of {}", value_->size()) : "an object";
  } else if (value_ != nullptr && value_->is_string() && value_->get_ref<const std::string&>().size() > kShown) {
    shown = fmt::format("a string of {} bytes", value_->get_ref<const std::string&>().size());
  } else if (value_ != nullptr) {
    shown = value_->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  const std::string name = path_.empty() ? "the request body" : path_;
  return Error{Code::kInvalidRequest, fmt::format("{} is {}, {}", name, shown, says), path_};
}

Result<std::string> JsonField::string() const {
  if (!is_string()) return error("a string is required");
  return value_->get_ref<const std::string&>();
}

Result<bool> JsonField::boolean() const {
  if (!present() || !value_->is_boolean()) return error("true or false is required");
  return value_->get<bool>();
}

Result<int64_t> JsonField::integer(int64_t low, int64_t high) const {
  const auto wanted = [&] { return error(fmt::format("an integer from {} to {} is required", low, high)); };
  if (!present()) return wanted();
  if (value_->is_number_unsigned()) {
    const auto value = value_->get<uint64_t>();
    if (high < 0 || value > static_cast<uint64_t>(high) || (low > 0 && value < static_cast<uint64_t>(low)))
      return wanted();
    return static_cast<int64_t>(value);
  }
  if (value_->is_number_integer()) {
    const auto value = value_->get<int64_t>();
    if (value < low || value > high) return wanted();
    return value;
  }
  if (value_->is_number_float()) {  // 3.0 is what some clients make of 3
    const double value = value_->get<double>();
    constexpr double kExact = 9007199254740992.;  // 2^53
    if (value != std::floor(value) || std::fabs(value) > kExact) return wanted();
    const auto whole = static_cast<int64_t>(value);
    if (whole < low || whole > high) return wanted();
    return whole;
  }
  return wanted();
}

Result<double> JsonField::number(double low, double high) const {
  if (is_number()) {
    const double value = value_->get<double>();
    if (value >= low && value <= high) return value;
  }
  return error(fmt::format("a number from {} to {} is required", low, high));
}

Result<std::vector<int32_t>> JsonField::integers(int32_t low, int32_t high, size_t count_max) const {
  PAGODA_TRY_STATUS(array(count_max));
  std::vector<int32_t> values;
  values.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    const Json& element = (*value_)[i];
    const bool fits = element.is_number_integer() &&
                      (element.is_number_unsigned() ? element.get<uint64_t>() <= static_cast<uint64_t>(high)
                                                    : element.get<int64_t>() >= low) &&
                      element.get<int64_t>() >= low && element.get<int64_t>() <= high;
    if (!fits) return at(i).error(fmt::format("an integer from {} to {} is required", low, high));
    values.push_back(static_cast<int32_t>(element.get<int64_t>()));
  }
  return values;
}

Status JsonField::array(size_t count_max) const {
  if (!is_array()) return error("an array is required");
  if (value_->size() > count_max) return error(fmt::format("at most {} elements are allowed", count_max));
  return ok_status();
}

Status JsonField::object() const {
  if (!is_object()) return error("an object is required");
  return ok_status();
}

Result<bool> JsonField::boolean_or(bool fallback) const {
  if (!present()) return fallback;
  return boolean();
}
Result<int64_t> JsonField::integer_or(int64_t fallback, int64_t low, int64_t high) const {
  if (!present()) return fallback;
  return integer(low, high);
}
Result<double> JsonField::number_or(double fallback, double low, double high) const {
  if (!present()) return fallback;
  return number(low, high);
}

}  // namespace pagoda::api
