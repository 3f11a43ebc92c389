#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "jinja/value.h"

namespace pagoda::jinja {

class Runtime;

/// Arguments as written at a call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// Takes the named argument out; missing if it was not given.
  Value take(std::string_view name);
};

struct CallableObject : Object {
  virtual Result<Value> call(Runtime& rt, Args args) = 0;
  virtual std::string repr() const { return "<built-in function>"; }
  virtual const char* python_type() const { return "builtin_function_or_method"; }
  /// object.NAME; missing if there is no such attribute.
  virtual Result<Value> attribute(Runtime&, const Value& /*self*/, std::string_view /*name*/) { return Value(); }
};

/// A filter's, test's, method's or function's arguments after binding: one value a declared parameter, missing if not
/// given.
struct Call {
  const Value& self;        // the filtered or tested value, or the method's object; missing for functions
  std::vector<Value> args;  // as declared
  Args raw;                 // everything, for builtins that declare "*"

  bool has(size_t i) const { return !args[i].is_missing(); }
  bool flag(size_t i) const { return has(i) && truthy(args[i]); }
};

/// A row of a dispatch table.
struct Builtin {
  std::string_view name;
  std::string_view parameters;  // blank-separated names in order, or "*" for any
  size_t required;              // how many of them must be given
  Result<Value> (*fn)(Runtime& rt, Call& call);
};

/// Binds `args` to the builtin's parameters and calls it. Errors: kInvalidRequest for too many, unknown or absent
/// arguments.
Result<Value> call_builtin(Runtime& rt, const Builtin& builtin, const Value& self, Args args);

/// Each table ends where its function's lookup ends; null for an unknown name.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_global(std::string_view name);
/// Methods of str, dict and the sequences; null if the type has none of that name.
const Builtin* find_method(const Value& self, std::string_view name);

/// A method looked up on a value and not called yet, or a global function (self missing).
Value bind_method(Runtime& rt, const Value& self, const Builtin& builtin);

}  // namespace pagoda::jinja
