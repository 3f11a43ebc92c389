#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/result.h"
#include "jinja/str.h"

namespace pagoda::jinja {

enum class Kind : uint8_t {
  kMissing,    // no value at all: an argument that was not given; never seen by a template
  kUndefined,  // Jinja's undefined: prints nothing, fails when used
  kNone,
  kBool,
  kInt,  // 64 bits; what Python would grow beyond them is an error
  kFloat,
  kString,
  kList,  // every sequence, see ListKind
  kDict,
  kNamespace,
  kCallable,  // macros, methods, functions
  kLoop,      // the `loop` variable
  kBlocks,    // the `self` variable
};

/// Live bytes of one rendering. Objects give back what they took when they die; crossing the limit is sticky.
struct Account {
  int64_t used_bytes = 0;
  int64_t limit_bytes = 0;
  bool exceeded = false;

  bool room(int64_t bytes) const { return !exceeded && bytes <= limit_bytes - used_bytes; }
  void take(int64_t bytes) {
    used_bytes += bytes;
    if (used_bytes > limit_bytes) exceeded = true;
  }
};

/// What a Value points to. Bytes are charged to the rendering that made it, if one did.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() {
    if (account != nullptr) account->used_bytes -= charged_bytes;
  }
  /// Lets go of everything it refers to; called when the rendering ends on objects that may be part of a cycle.
  virtual void clear() {}

  Account* account = nullptr;
  int64_t charged_bytes = 0;
  int32_t nesting = 0;  // containers inside containers below this one; bounded where objects are made
};

struct StringObject;
struct ListObject;
struct DictObject;
struct UndefinedObject;
struct CallableObject;
struct LoopObject;

/// A value of the template language with Python's meaning. Cheap to copy: scalars inline, the rest shared and immutable
/// (but for namespaces, loops and iterators, which belong to one rendering).
class Value {
 public:
  Value() = default;
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool b) {
    Value v(Kind::kBool);
    v.int_ = b ? 1 : 0;
    return v;
  }
  static Value integer(int64_t i) {
    Value v(Kind::kInt);
    v.int_ = i;
    return v;
  }
  static Value real(double d) {
    Value v(Kind::kFloat);
    v.float_ = d;
    return v;
  }
  /// A string outside any rendering's account; from_input as in Str.
  static Value string(std::string bytes, bool from_input = false);
  static Value of(Kind kind, std::shared_ptr<Object> object) {
    Value v(kind);
    v.object_ = std::move(object);
    return v;
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_missing() const { return kind_ == Kind::kMissing; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }
  bool is_markup() const;  // a string marked safe for HTML

  /// Each needs the kind it names.
  int64_t as_int() const { return int_; }  // also of a bool: 0 or 1
  double as_float() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_); }
  const Str& as_str() const;
  std::string_view view() const { return as_str().view(); }
  ListObject& list() const;
  const std::vector<Value>& items() const;  // of a list, whatever its ListKind
  DictObject& dict() const;                 // also of a namespace
  const UndefinedObject& undefined() const;
  CallableObject& callable() const;
  LoopObject& loop() const;
  Object* object() const { return object_.get(); }
  int32_t nesting() const { return object_ ? object_->nesting : 0; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Kind kind_ = Kind::kMissing;
  union {
    int64_t int_ = 0;
    double float_;
  };
  std::shared_ptr<Object> object_;
};

struct StringObject final : Object {
  StringObject(Str s, bool is_markup) : str(std::move(s)), markup(is_markup) {}
  Str str;
  bool markup;
};

enum class ListKind : uint8_t { kList, kTuple, kGroup, kRange, kIterator, kKeys, kValues, kItems };

struct ListObject final : Object {
  ListObject(ListKind k, std::vector<Value> v) : kind(k), items(std::move(v)) {}
  ListKind kind;
  std::vector<Value> items;
  const char* iterator_type = "generator";  // kIterator: Python's name of its type
  size_t consumed = 0;                      // kIterator: items already handed out; it can be read once
  std::optional<Error> failure;             // kIterator: what happens after the last item
  int64_t range[3] = {0, 0, 1};             // kRange: start, stop, step
};

/// Insertion-ordered. Keys compare as Python's do: 1, 1.0 and true are one key.
struct DictObject final : Object {
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);
  /// Whether it may be a key: scalars and flat tuples of them. (Python takes nested tuples too; their keys could be
  /// exponentially longer than what made them.)
  static bool hashable(const Value& key);
  void clear() override {
    entries.clear();
    index_.clear();
  }

  std::vector<std::pair<Value, Value>> entries;

 private:
  std::unordered_map<std::string, size_t> index_;  // by canonical key; built once there are more than a few entries
};

struct UndefinedObject final : Object {
  std::string message;  // why a use fails: "'x' is undefined"
  std::string debug;    // what DebugUndefined prints between braces
};

/// What Python calls the type, as it appears in error messages: "str", "NoneType", "dict_items" ...
std::string type_name(const Value& value);
/// Jinja's object_type_repr: "None", "dict object", "jinja2.utils.Namespace object".
std::string object_type(const Value& value);

/// Truth of a value; a strict undefined must be handled by the caller.
bool truthy(const Value& value);

}  // namespace pagoda::jinja
