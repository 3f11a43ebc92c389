#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace pagoda::api {

/// Keeps the order of members: templates see tools and arguments as the client wrote them.
using Json = nlohmann::ordered_json;

/// Bounds on a JSON text, judged by one linear scan before any object is made of it, so that a hostile body costs no
/// more memory than a few times these numbers and no quadratic time in the ordered objects.
struct JsonLimits {
  int32_t depth_max = 64;             // nested arrays and objects
  int32_t object_members_max = 1024;  // of one object
  int32_t members_max = 65536;        // of all objects together
  int32_t containers_max = 65536;     // arrays and objects
  int32_t strings_max = 196608;       // keys and values
  int32_t elements_max = 1 << 20;     // of all arrays together: long prompts come as token ids
};

/// A JSON text as a document. Errors (kInvalidRequest, with the byte): not UTF-8, not JSON, over a limit, a duplicate
/// key.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

/// One value of a document and its path ("messages[2].content"). Every read is checked and every error names the path,
/// the value and what was expected; nlohmann's get<T>() is used nowhere else.
class JsonField {
 public:
  /// The document itself; it must outlive the field.
  explicit JsonField(const Json& document) : value_(&document) {}

  /// False when absent or null: clients send null for what they do not set.
  bool present() const { return value_ != nullptr && !value_->is_null(); }
  bool is_string() const { return present() && value_->is_string(); }
  bool is_array() const { return present() && value_->is_array(); }
  bool is_object() const { return present() && value_->is_object(); }
  bool is_number() const { return present() && value_->is_number(); }
  bool is_true() const { return present() && value_->is_boolean() && *value_->get_ptr<const bool*>(); }
  const std::string& path() const { return path_; }
  const Json& json() const;  // present() is the caller's promise

  /// A member; absent if this is no object or has none of that name.
  JsonField get(std::string_view name) const;
  /// An array element; 0 <= i < size().
  JsonField at(size_t i) const;
  /// Elements of an array or members of an object, 0 for anything else.
  size_t size() const;

  Result<std::string> string() const;
  Result<bool> boolean() const;
  Result<int64_t> integer(int64_t low, int64_t high) const;
  Result<double> number(double low, double high) const;
  /// An array of at most `count_max` integers in [low, high].
  Result<std::vector<int32_t>> integers(int32_t low, int32_t high, size_t count_max) const;
  /// Fails unless this is an array of at most `count_max` elements.
  Status array(size_t count_max) const;
  Status object() const;

  // The same with a default for an absent or null value.
  Result<bool> boolean_or(bool fallback) const;
  Result<int64_t> integer_or(int64_t fallback, int64_t low, int64_t high) const;
  Result<double> number_or(double fallback, double low, double high) const;

  /// "PATH is VALUE, SAYS" with a long value shortened.
  Error error(std::string_view says) const;

 private:
  JsonField(const Json* value, std::string path) : value_(value), path_(std::move(path)) {}

  const Json* value_;
  std::string path_{};
};

}  // namespace pagoda::api
