// Macros, call blocks and blocks as values. Source: jinja2.runtime.Macro.
#include "jinja/macro.h"

#include <fmt/format.h>

#include "jinja/repr.h"

namespace pagoda::jinja {
namespace {

class BlockObject final : public CallableObject {
 public:
  BlockObject(Interpreter& interpreter, const Stmt& block) : interpreter_(interpreter), block_(block) {}
  Result<Value> call(Runtime&, Args args) override {
    if (!args.positional.empty() || !args.named.empty()) return failed("a block takes no arguments");
    return interpreter_.render_block(block_, interpreter_.root());
  }
  std::string repr() const override { return "<BlockReference>"; }
  const char* python_type() const override { return "BlockReference"; }

 private:
  Interpreter& interpreter_;
  const Stmt& block_;
};

}  // namespace

Value block_value(Interpreter& interpreter, const Stmt& block) {
  return interpreter.rt().callable(std::make_shared<BlockObject>(interpreter, block));
}

Result<Value> MacroObject::call(Runtime&, Args args) {
  return interpreter_.render_macro(*macro_, closure_, std::move(args));
}

Result<Value> MacroObject::attribute(Runtime& rt, const Value&, std::string_view name) {
  if (name == "name") return rt.str(macro_->name);
  if (name == "caller") return Value::boolean(macro_->uses_caller);
  if (name == "catch_kwargs") return Value::boolean(macro_->uses_kwargs);
  if (name == "catch_varargs") return Value::boolean(macro_->uses_varargs);
  if (name != "arguments") return Value();
  std::vector<Value> names;
  for (const std::string& parameter : macro_->parameter_names) names.push_back(rt.str(parameter));
  return rt.tuple(std::move(names));
}

Value Interpreter::make_macro(const std::shared_ptr<MacroDef>& macro) {
  // The scope will hold the macro that holds the scope: the rendering's end breaks the cycle.
  if (scope_->account == nullptr) {
    rt_.charge(*scope_, static_cast<int64_t>(sizeof(Scope)) + 256);
    rt_.keep(scope_);
  }
  return rt_.callable(std::make_shared<MacroObject>(*this, macro, scope_));
}

Status Interpreter::bind_parameters(const MacroDef& macro, Args& args) {
  const size_t count = macro.parameters.size();
  for (size_t i = 0; i < count; ++i) {
    Value value = i < args.positional.size() ? args.positional[i] : args.take(macro.parameter_names[i]);
    const size_t first_default = count - macro.defaults.size();
    if (value.is_missing() && i >= first_default) {
      PAGODA_TRY(value, eval(*macro.defaults[i - first_default]));
    } else if (value.is_missing()) {
      value = rt_.undefined_hint(fmt::format("parameter '{}' was not provided", macro.parameter_names[i]));
    }
    scope_->set(macro.parameters[i], std::move(value));
  }
  return ok_status();
}

Status Interpreter::bind_special(const MacroDef& macro, Args& args) {
  const size_t count = macro.parameters.size();
  const bool explicit_caller =
      std::find(macro.parameters.begin(), macro.parameters.end(), program_.caller) != macro.parameters.end();
  if (macro.uses_caller && !explicit_caller) {
    Value caller = args.take("caller");
    if (caller.is_missing() || caller.is_none()) caller = rt_.undefined_hint("No caller defined");
    scope_->set(program_.caller, std::move(caller));
  }
  if (macro.uses_kwargs) {
    auto kwargs = std::make_shared<DictObject>();
    for (auto& [name, value] : args.named) kwargs->set(rt_.str(name), std::move(value));
    scope_->set(program_.kwargs, rt_.dict(std::move(kwargs)));
  } else if (!args.named.empty()) {
    const std::string& name = args.named[0].first;
    if (name == "caller")
      return failed(fmt::format(
          "macro '{}' was invoked with two values for the special caller argument. This is most likely a bug.",
          macro.name));
    return failed(fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, name));
  }
  if (macro.uses_varargs) {
    std::vector<Value> rest;
    for (size_t i = count; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
    scope_->set(program_.varargs, rt_.tuple(std::move(rest)));
  } else if (args.positional.size() > count) {
    return failed(fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, count));
  }
  return ok_status();
}

Result<Value> Interpreter::render_macro(const MacroDef& macro, const std::shared_ptr<Scope>& closure, Args args) {
  const ScopeGuard scope(*this, closure);
  PAGODA_TRY_STATUS(bind_parameters(macro, args));
  PAGODA_TRY_STATUS(bind_special(macro, args));
  Capture capture(*this);
  const Result<Flow> flow = exec(macro.body);
  if (!flow.ok()) return flow.error();
  return capture.take();
}

Result<Value> Interpreter::render_block(const Stmt& block, const std::shared_ptr<Scope>& outer) {
  const ScopeGuard scope(*this, outer);
  Capture capture(*this);
  const Result<Flow> flow = exec(block.body);
  if (!flow.ok()) return flow.error();
  return capture.take();
}

}  // namespace pagoda::jinja
