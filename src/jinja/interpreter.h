#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/loop.h"
#include "jinja/runtime.h"

namespace pagoda::jinja {

/// Names of one block of the template and their values. Macros keep the scope they were defined in.
struct Scope final : Object {
  explicit Scope(std::shared_ptr<Scope> outer_scope) : outer(std::move(outer_scope)) {}
  const Value* find(NameId name) const {
    for (const auto& [id, value] : vars)
      if (id == name) return &value;
    return nullptr;
  }
  void set(NameId name, Value value) {
    for (auto& [id, old] : vars) {
      if (id != name) continue;
      old = std::move(value);
      return;
    }
    vars.emplace_back(name, std::move(value));
  }
  void clear() override { vars.clear(); }

  std::shared_ptr<Scope> outer;
  std::vector<std::pair<NameId, Value>> vars;
};

enum class Flow : uint8_t { kNext, kBreak, kContinue };

/// Walks a program once, for one rendering. Expressions are in eval.cc, statements in exec.cc, macros in macro.cc.
class Interpreter {
 public:
  Interpreter(Runtime& rt, const Program& program, const Value& context, int64_t output_bytes_max);

  /// The whole output. Errors: see Template::render.
  Result<Str> run();

  Runtime& rt() { return rt_; }

  // ---- for macros, loops and blocks, which are called back through values ----
  /// Renders `body` in a new scope inside `outer`, its output captured as a string.
  Result<Value> render_macro(const MacroDef& macro, const std::shared_ptr<Scope>& closure, Args args);
  Result<Value> render_block(const Stmt& block, const std::shared_ptr<Scope>& outer);
  Result<Value> render_loop(const Stmt& loop, const std::shared_ptr<Scope>& outer, const Value& iterable,
                            int64_t depth0);
  Result<bool> passes(const Stmt& loop, const std::shared_ptr<Scope>& outer, Value& item);
  const Program& program() const { return program_; }
  const std::shared_ptr<Scope>& root() const { return root_; }

 private:
  /// Enters a scope; leaving restores the one before.
  class ScopeGuard {
   public:
    ScopeGuard(Interpreter& interpreter, std::shared_ptr<Scope> outer)
        : interpreter_(interpreter), before_(std::move(interpreter.scope_)) {
      interpreter.scope_ = std::make_shared<Scope>(std::move(outer));
    }
    ~ScopeGuard() { interpreter_.scope_ = std::move(before_); }
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;

   private:
    Interpreter& interpreter_;
    std::shared_ptr<Scope> before_;
  };

  /// Redirects output into a string of its own.
  class Capture {
   public:
    explicit Capture(Interpreter& interpreter) : interpreter_(interpreter) { std::swap(interpreter.output_, before_); }
    ~Capture() { restore(); }
    Value take() {
      Str text = std::move(interpreter_.output_);
      restore();
      return interpreter_.rt_.str(std::move(text), interpreter_.rt_.autoescape);
    }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;

   private:
    void restore() {
      if (std::exchange(restored_, true)) return;
      interpreter_.rt_.account().used_bytes -= std::exchange(interpreter_.output_charged_, before_charged_);
      interpreter_.output_ = std::move(before_);
    }
    Interpreter& interpreter_;
    Str before_;
    int64_t before_charged_ = std::exchange(interpreter_.output_charged_, 0);
    bool restored_ = false;
  };

  // ---- expressions ----
  Result<Value> eval(const Expr& expr);
  Result<Value> eval_inner(const Expr& expr);
  Result<Value> eval_name(NameId name);
  Result<Value> eval_item(const Expr& expr);
  Result<Value> eval_slice(const Expr& expr);
  Result<Value> eval_call(const Expr& expr, Value caller);
  Result<Value> eval_filter(const Expr& expr);
  Result<Value> eval_test(const Expr& expr);
  Result<Value> eval_sequence(const Expr& expr);
  Result<Value> eval_dict(const Expr& expr);
  Result<Value> eval_logical(const Expr& expr);
  Result<Value> eval_compare(const Expr& expr);
  Result<Value> eval_binary(const Expr& expr);
  Result<Value> eval_concat(const Expr& expr);
  Result<Value> eval_ternary(const Expr& expr);
  Result<Args> eval_args(const CallExpr& call);

  // ---- statements ----
  Result<Flow> exec(const Body& body);
  Result<Flow> exec_stmt(const Stmt& stmt);
  Result<Flow> exec_scoped(const Body& body);
  Result<Flow> exec_if(const Stmt& stmt);
  Result<Flow> exec_for(const Stmt& stmt);
  Status exec_print(const Stmt& stmt);
  Status exec_set(const Stmt& stmt);
  Status exec_set_block(const Stmt& stmt);
  Status exec_macro(const Stmt& stmt);
  Status exec_call_block(const Stmt& stmt);
  Status exec_filter_block(const Stmt& stmt);
  Result<Flow> exec_with(const Stmt& stmt);
  Status exec_block(const Stmt& stmt);
  Result<Flow> exec_autoescape(const Stmt& stmt);
  Result<Flow> run_loop(const Stmt& stmt, const std::shared_ptr<Scope>& outer, const Value& iterable, int64_t depth0);
  Result<bool> loop_body(const Stmt& stmt, const std::shared_ptr<Scope>& outer, const Value& loop);
  Status assign(const Expr& target, const Value& value);
  Status assign_namespace(const Expr& target, const Value& value);
  Status emit(std::string_view text);
  Status emit(const Str& text);
  Status emit_room(size_t bytes);
  Status emit_value(const Value& value);
  Value make_macro(const std::shared_ptr<MacroDef>& macro);
  Status bind_parameters(const MacroDef& macro, Args& args);
  Status bind_special(const MacroDef& macro, Args& args);

  Runtime& rt_;
  const Program& program_;
  const Value& context_;
  const int64_t output_bytes_max_;
  std::shared_ptr<Scope> root_;
  std::shared_ptr<Scope> scope_;
  Value captured_;  // what the filters of a block work on
  Str output_;
  int64_t output_charged_ = 0;
};

}  // namespace pagoda::jinja
