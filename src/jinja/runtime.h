#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "jinja/callable.h"
#include "jinja/template.h"
#include "jinja/value.h"

namespace pagoda::jinja {

constexpr int32_t kNestingMax = 200;  // containers in containers: what walks values recursively stays shallow

Error failed(std::string message);              // kInvalidRequest
Error undefined_error(const Value& undefined);  // a use of an undefined value

/// One rendering's budget, the makers of its values, and what builtins need of the interpreter.
class Runtime {
 public:
  Runtime(const Environment& environment, const Budget& budget, int64_t today_unix_s);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Environment& environment() const { return environment_; }
  int64_t today_unix_s() const { return today_unix_s_; }
  bool autoescape = false;  // Jinja's eval context

  // ---- budget ----
  /// Counts evaluated nodes or produced elements. Error: steps or memory are used up.
  Status step(int64_t count = 1);
  /// Enters a nesting level of expressions, blocks or calls; every success is paired with leave().
  Status enter();
  void leave() { --depth_; }
  Account& account() { return account_; }
  /// Refuses a result of `bytes` before it is made, for operations whose result is larger than their operands.
  Status reserve(int64_t bytes);

  // ---- makers: charged to this rendering; exceeding memory is reported by the next step() ----
  Value str(Str s, bool markup = false);
  Value str(std::string bytes, bool from_input = false) { return str(Str(std::move(bytes), from_input)); }
  Value list(std::vector<Value> items, ListKind kind = ListKind::kList);
  Value tuple(std::vector<Value> items) { return list(std::move(items), ListKind::kTuple); }
  /// What a Python generator would have yielded; it can be read once, and `failure` comes after its last item.
  Value iterator(std::vector<Value> items, const char* type = "generator", std::optional<Error> failure = {});
  Value range(int64_t start, int64_t stop, int64_t step, int64_t count);
  Value dict(std::shared_ptr<DictObject> object);
  Value name_space(std::shared_ptr<DictObject> object);
  Value undefined_name(std::string_view name);
  Value undefined_attribute(const Value& object, const Value& name);
  Value undefined_hint(std::string message);
  template <class T>
  Value callable(std::shared_ptr<T> object) {
    charge(*object, sizeof(T));
    return Value::of(Kind::kCallable, std::move(object));
  }
  void charge(Object& object, int64_t bytes);
  /// Objects that may be part of a cycle; they are emptied when the rendering ends.
  void keep(std::shared_ptr<Object> object) { kept_.push_back(std::move(object)); }

  // ---- access ----
  /// object.name and object[key], as the sandbox does them: never an error by themselves, undefined if there is none.
  Result<Value> get_attribute(const Value& object, const Value& name);
  Result<Value> get_item(const Value& object, const Value& key);
  Result<Value> get_slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  /// len(); error for what has none.
  Result<int64_t> length(const Value& value);
  /// All items of an iterable, an iterator being used up.
  Result<std::vector<Value>> to_vector(const Value& iterable);
  Result<Value> call(const Value& callee, Args args);
  Result<bool> truth(const Value& value);

 private:
  Result<Value> find_attribute(const Value& object, std::string_view name);  // missing if there is none
  Result<Value> find_item(const Value& object, const Value& key);            // missing if there is none

  const Environment& environment_;
  const Budget& budget_;
  int64_t today_unix_s_;
  Account account_;
  int64_t steps_ = 0;
  int32_t depth_ = 0;
  bool nesting_exceeded_ = false;
  std::vector<std::shared_ptr<Object>> kept_;
};

/// Reads an iterable item by item. Sequences stay alive while it does.
class Cursor {
 public:
  /// Error: the value is not iterable.
  static Result<Cursor> over(Runtime& rt, const Value& iterable);
  /// False at the end. Error: the iterator fails there, or the budget is used up.
  Result<bool> next(Value& out);

 private:
  Cursor(Runtime& rt, Value iterable) : rt_(&rt), iterable_(std::move(iterable)) {}
  Runtime* rt_;
  Value iterable_;
  size_t at_ = 0;
};

/// Builds a string under the memory budget: past it, bytes are dropped and the next step() reports it.
class Builder {
 public:
  explicit Builder(Runtime& rt) : account_(rt.account()) {}
  void add(std::string_view bytes, bool from_input = false) {
    if (room(bytes.size())) str_.append(bytes, from_input);
  }
  void add(const Str& str) {
    if (room(str.size())) str_.append(str);
  }
  void add(const Str& str, size_t begin, size_t count) {
    if (room(count)) str_.append(str, begin, count);
  }
  const Str& str() const { return str_; }
  Str take() { return std::move(str_); }

 private:
  bool room(size_t bytes) {
    if (account_.room(static_cast<int64_t>(str_.size() + bytes))) return true;
    account_.exceeded = true;
    return false;
  }
  Account& account_;
  Str str_;
};

}  // namespace pagoda::jinja
