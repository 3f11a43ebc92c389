#include <fmt/format.h>

#include "jinja/callable.h"
#include "jinja/repr.h"
#include "jinja/runtime.h"

namespace pagoda::jinja {
namespace {

// The index of `wanted` among the blank-separated `names`, or their count if it is not there.
size_t parameter_index(std::string_view names, std::string_view wanted, size_t& count) {
  size_t found = SIZE_MAX;
  count = 0;
  while (!names.empty()) {
    const size_t blank = std::min(names.find(' '), names.size());
    if (names.substr(0, blank) == wanted) found = count;
    names.remove_prefix(std::min(blank + 1, names.size()));
    ++count;
  }
  return found;
}

class BoundMethod final : public CallableObject {
 public:
  BoundMethod(Value self, const Builtin& builtin) : self_(std::move(self)), builtin_(builtin) {
    nesting = self_.nesting() + 1;
  }
  Result<Value> call(Runtime& rt, Args args) override { return call_builtin(rt, builtin_, self_, std::move(args)); }
  std::string repr() const override {
    if (self_.is_missing()) return fmt::format("<built-in function {}>", builtin_.name);
    return fmt::format("<built-in method {} of {} object>", builtin_.name, type_name(self_));
  }

 private:
  Value self_;
  const Builtin& builtin_;
};

}  // namespace

Result<Value> call_builtin(Runtime& rt, const Builtin& builtin, const Value& self, Args args) {
  PAGODA_TRY_STATUS(rt.step());
  Call call{self, {}, {}};
  if (builtin.parameters == "*") {
    call.raw = std::move(args);
    return builtin.fn(rt, call);
  }
  size_t count = 0;
  parameter_index(builtin.parameters, "", count);
  if (args.positional.size() > count)
    return failed(
        fmt::format("{}() takes at most {} arguments, {} given", builtin.name, count, args.positional.size()));
  call.args = std::move(args.positional);
  call.args.resize(count);
  for (auto& [name, value] : args.named) {
    const size_t index = parameter_index(builtin.parameters, name, count);
    if (index >= count) return failed(fmt::format("{}() got an unexpected keyword argument '{}'", builtin.name, name));
    if (call.has(index)) return failed(fmt::format("{}() got multiple values for argument '{}'", builtin.name, name));
    call.args[index] = std::move(value);
  }
  for (size_t i = 0; i < builtin.required; ++i)
    if (!call.has(i)) return failed(fmt::format("{}() is missing a required argument", builtin.name));
  return builtin.fn(rt, call);
}

Value bind_method(Runtime& rt, const Value& self, const Builtin& builtin) {
  return rt.callable(std::make_shared<BoundMethod>(self, builtin));
}

}  // namespace pagoda::jinja
