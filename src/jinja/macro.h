#pragma once
#include <memory>

#include "jinja/interpreter.h"

namespace pagoda::jinja {

/// A macro, or the `caller` of a call block, with the scope it closes over.
class MacroObject final : public CallableObject {
 public:
  MacroObject(Interpreter& interpreter, std::shared_ptr<MacroDef> macro, std::shared_ptr<Scope> closure)
      : interpreter_(interpreter), macro_(std::move(macro)), closure_(std::move(closure)) {}
  Result<Value> call(Runtime& rt, Args args) override;
  std::string repr() const override { return "<Macro '" + macro_->name + "'>"; }
  const char* python_type() const override { return "Macro"; }
  Result<Value> attribute(Runtime& rt, const Value& self, std::string_view name) override;

 private:
  Interpreter& interpreter_;
  std::shared_ptr<MacroDef> macro_;
  std::shared_ptr<Scope> closure_;
};

/// self.NAME: renders a block when called.
Value block_value(Interpreter& interpreter, const Stmt& block);

}  // namespace pagoda::jinja
