// Statements.
#include <fmt/format.h>

#include "jinja/interpreter.h"
#include "jinja/macro.h"
#include "jinja/repr.h"

namespace pagoda::jinja {
namespace {

class LoopFilter final : public LoopObject::Filter {
 public:
  LoopFilter(Interpreter& interpreter, const Stmt& stmt, const std::shared_ptr<Scope>& outer)
      : interpreter_(interpreter), stmt_(stmt), outer_(outer) {}
  Result<bool> accepts(Value& item) override { return interpreter_.passes(stmt_, outer_, item); }

 private:
  Interpreter& interpreter_;
  const Stmt& stmt_;
  const std::shared_ptr<Scope>& outer_;
};

// loop(iterable): the same loop again, its output as a string.
class Recursion final : public CallableObject {
 public:
  Recursion(Interpreter& interpreter, const Stmt& stmt, const std::shared_ptr<Scope>& outer)
      : interpreter_(interpreter), stmt_(stmt), outer_(outer) {}
  Result<Value> call(Runtime&, Args args) override {
    return interpreter_.render_loop(stmt_, outer_, args.positional[0], args.positional[1].as_int());
  }

 private:
  Interpreter& interpreter_;
  const Stmt& stmt_;
  const std::shared_ptr<Scope>& outer_;
};

// A loop that ended, by whatever way, refers to nothing that its end took away.
class LoopEnd {
 public:
  explicit LoopEnd(LoopObject& loop) : loop_(loop) {}
  ~LoopEnd() { loop_.clear(); }
  LoopEnd(const LoopEnd&) = delete;
  LoopEnd& operator=(const LoopEnd&) = delete;

 private:
  LoopObject& loop_;
};

Result<Flow> next(const Status& status) {
  if (!status.ok()) return status.error();
  return Flow::kNext;
}

}  // namespace

Interpreter::Interpreter(Runtime& rt, const Program& program, const Value& context, int64_t output_bytes_max)
    : rt_(rt),
      program_(program),
      context_(context),
      output_bytes_max_(output_bytes_max),
      root_(std::make_shared<Scope>(nullptr)),
      scope_(root_) {}

Result<Str> Interpreter::run() {
  const Result<Flow> flow = exec(program_.body);
  if (!flow.ok()) return flow.error();
  PAGODA_TRY_STATUS(rt_.step());
  rt_.account().used_bytes -= std::exchange(output_charged_, 0);
  return std::move(output_);
}

Status Interpreter::emit_room(size_t bytes) {
  const auto count = static_cast<int64_t>(bytes);
  if (static_cast<int64_t>(output_.size()) + count > output_bytes_max_)
    return failed(fmt::format("the template's output is larger than {} bytes", output_bytes_max_));
  PAGODA_TRY_STATUS(rt_.reserve(count));
  rt_.account().take(count);
  output_charged_ += count;
  return ok_status();
}

Status Interpreter::emit(std::string_view text) {
  PAGODA_TRY_STATUS(emit_room(text.size()));
  output_.append(text, false);
  return ok_status();
}

Status Interpreter::emit(const Str& text) {
  PAGODA_TRY_STATUS(emit_room(text.size()));
  output_.append(text);
  return ok_status();
}

Status Interpreter::emit_value(const Value& value) {
  if (rt_.autoescape && !value.is_markup()) {
    PAGODA_TRY(const Value escaped, escape(rt_, value));
    return emit(escaped.as_str());
  }
  if (value.is_string()) return emit(value.as_str());
  PAGODA_TRY(const Str text, to_str(rt_, value));
  return emit(text);
}

Result<Flow> Interpreter::exec(const Body& body) {
  PAGODA_TRY_STATUS(rt_.enter());
  Result<Flow> flow = Flow::kNext;
  for (const StmtPtr& stmt : body) {
    flow = exec_stmt(*stmt);
    if (!flow.ok() || flow.value() != Flow::kNext) break;
  }
  rt_.leave();
  return flow;
}

Result<Flow> Interpreter::exec_scoped(const Body& body) {
  const ScopeGuard scope(*this, scope_);
  return exec(body);
}

Result<Flow> Interpreter::exec_stmt(const Stmt& stmt) {
  PAGODA_TRY_STATUS(rt_.step());
  switch (stmt.kind) {
    case StmtKind::kText:
      return next(emit(stmt.text));
    case StmtKind::kPrint:
      return next(exec_print(stmt));
    case StmtKind::kFor:
      return exec_for(stmt);
    case StmtKind::kIf:
      return exec_if(stmt);
    case StmtKind::kSet:
      return next(exec_set(stmt));
    case StmtKind::kSetBlock:
      return next(exec_set_block(stmt));
    case StmtKind::kMacro:
      return next(exec_macro(stmt));
    case StmtKind::kCallBlock:
      return next(exec_call_block(stmt));
    case StmtKind::kFilterBlock:
      return next(exec_filter_block(stmt));
    case StmtKind::kWith:
      return exec_with(stmt);
    case StmtKind::kBlock:
      return next(exec_block(stmt));
    case StmtKind::kAutoescape:
      return exec_autoescape(stmt);
    case StmtKind::kScope:
      return exec_scoped(stmt.body);
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
    case StmtKind::kDo: {
      const Result<Value> ignored = eval(*stmt.exprs[0]);
      if (!ignored.ok()) return ignored.error();
      return Flow::kNext;
    }
  }
  return Flow::kNext;
}

Status Interpreter::exec_print(const Stmt& stmt) {
  for (const ExprPtr& expr : stmt.exprs) {
    PAGODA_TRY(const Value value, eval(*expr));
    PAGODA_TRY_STATUS(emit_value(value));
  }
  return ok_status();
}

Result<Flow> Interpreter::exec_if(const Stmt& stmt) {
  for (const Branch& branch : stmt.branches) {
    if (!branch.test) return exec(branch.body);
    PAGODA_TRY(const Value test, eval(*branch.test));
    PAGODA_TRY(const bool truth, rt_.truth(test));
    if (truth) return exec(branch.body);
  }
  return Flow::kNext;
}

Status Interpreter::exec_set(const Stmt& stmt) {
  PAGODA_TRY(const Value value, eval(*stmt.exprs[1]));
  return assign(*stmt.exprs[0], value);
}

Status Interpreter::exec_set_block(const Stmt& stmt) {
  Value value;
  {
    const ScopeGuard scope(*this, scope_);
    Capture capture(*this);
    const Result<Flow> flow = exec(stmt.body);
    if (!flow.ok()) return flow.error();
    value = capture.take();
    if (stmt.exprs[1]) {
      captured_ = value;
      PAGODA_TRY(value, eval(*stmt.exprs[1]));
      captured_ = Value();
    }
  }
  return assign(*stmt.exprs[0], value);
}

Status Interpreter::exec_filter_block(const Stmt& stmt) {
  const ScopeGuard scope(*this, scope_);
  Capture capture(*this);
  const Result<Flow> flow = exec(stmt.body);
  if (!flow.ok()) return flow.error();
  captured_ = capture.take();
  PAGODA_TRY(const Value value, eval(*stmt.exprs[0]));
  captured_ = Value();
  return emit_value(value);
}

Status Interpreter::exec_macro(const Stmt& stmt) {
  const Value macro = make_macro(stmt.macro);
  scope_->set(stmt.macro->name_id, macro);
  return ok_status();
}

Status Interpreter::exec_call_block(const Stmt& stmt) {
  PAGODA_TRY_STATUS(rt_.enter());
  Result<Value> value = eval_call(*stmt.exprs[0], make_macro(stmt.macro));
  rt_.leave();
  if (!value.ok()) return value.error();
  return emit_value(value.value());
}

Result<Flow> Interpreter::exec_with(const Stmt& stmt) {
  std::vector<Value> values;
  for (size_t i = 1; i < stmt.exprs.size(); i += 2) {
    PAGODA_TRY(Value value, eval(*stmt.exprs[i]));
    values.push_back(std::move(value));
  }
  const ScopeGuard scope(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) PAGODA_TRY_STATUS(assign(*stmt.exprs[2 * i], values[i]));
  return exec(stmt.body);
}

Status Interpreter::exec_block(const Stmt& stmt) {
  const ScopeGuard scope(*this, stmt.scoped ? scope_ : root_);
  const Result<Flow> flow = exec(stmt.body);
  if (!flow.ok()) return flow.error();
  return ok_status();
}

Result<Flow> Interpreter::exec_autoescape(const Stmt& stmt) {
  PAGODA_TRY(const Value flag, eval(*stmt.exprs[0]));
  PAGODA_TRY(const bool truth, rt_.truth(flag));
  const bool before = std::exchange(rt_.autoescape, truth);
  Result<Flow> flow = exec_scoped(stmt.body);
  rt_.autoescape = before;
  return flow;
}

// ---- loops ----

Result<Flow> Interpreter::exec_for(const Stmt& stmt) {
  PAGODA_TRY(const Value iterable, eval(*stmt.exprs[1]));
  const std::shared_ptr<Scope> outer = scope_;
  return run_loop(stmt, outer, iterable, 0);
}

Result<bool> Interpreter::passes(const Stmt& stmt, const std::shared_ptr<Scope>& outer, Value& item) {
  const ScopeGuard scope(*this, outer);
  if (stmt.exprs[0]->kind == ExprKind::kTuple && item.is_list()) {  // a filtered loop hands on what it unpacked
    PAGODA_TRY(std::vector<Value> parts, rt_.to_vector(item));
    item = rt_.tuple(std::move(parts));
  }
  PAGODA_TRY_STATUS(assign(*stmt.exprs[0], item));
  PAGODA_TRY(const Value test, eval(*stmt.exprs[2]));
  return rt_.truth(test);
}

Result<Value> Interpreter::render_loop(const Stmt& stmt, const std::shared_ptr<Scope>& outer, const Value& iterable,
                                       int64_t depth0) {
  PAGODA_TRY_STATUS(rt_.enter());
  Capture capture(*this);
  const Result<Flow> flow = run_loop(stmt, outer, iterable, depth0);
  rt_.leave();
  if (!flow.ok()) return flow.error();
  return capture.take();
}

Result<Flow> Interpreter::run_loop(const Stmt& stmt, const std::shared_ptr<Scope>& outer, const Value& iterable,
                                   int64_t depth0) {
  PAGODA_TRY(Cursor cursor, Cursor::over(rt_, iterable));
  auto loop = std::make_shared<LoopObject>(iterable, std::move(cursor));
  rt_.charge(*loop, sizeof(LoopObject));
  const LoopEnd end(*loop);
  LoopFilter filter(*this, stmt, outer);
  Recursion recursion(*this, stmt, outer);
  if (stmt.exprs[2]) loop->filter = &filter;
  if (stmt.recursive) loop->recurse = &recursion;
  loop->depth0 = depth0;
  PAGODA_TRY(const bool completed, loop_body(stmt, outer, Value::of(Kind::kLoop, loop)));
  if (completed) return Flow::kNext;
  const ScopeGuard scope(*this, outer);
  return exec(stmt.otherwise);
}

// Whether any pass ran to its end: Jinja's else also follows a loop of which each pass was cut short.
Result<bool> Interpreter::loop_body(const Stmt& stmt, const std::shared_ptr<Scope>& outer, const Value& loop) {
  for (bool completed = false;;) {
    PAGODA_TRY(const bool more, loop.loop().advance());
    if (!more) return completed;
    const ScopeGuard scope(*this, outer);
    scope_->set(program_.loop, loop);
    PAGODA_TRY_STATUS(assign(*stmt.exprs[0], loop.loop().current));
    PAGODA_TRY(const Flow flow, exec(stmt.body));
    completed = completed || flow == Flow::kNext;
    if (flow == Flow::kBreak) return completed;
  }
}

// ---- assignment ----

Status Interpreter::assign(const Expr& target, const Value& value) {
  PAGODA_TRY_STATUS(rt_.step());
  if (target.kind == ExprKind::kName) {
    scope_->set(target.name, value);
    return ok_status();
  }
  if (target.kind == ExprKind::kNamespaceRef) return assign_namespace(target, value);
  if (value.is_undefined() || value.is_list() || value.is_string() || value.is_dict()) {
    PAGODA_TRY(const std::vector<Value> parts, rt_.to_vector(value));
    if (parts.size() > target.items.size())
      return failed(fmt::format("too many values to unpack (expected {})", target.items.size()));
    if (parts.size() < target.items.size())
      return failed(
          fmt::format("not enough values to unpack (expected {}, got {})", target.items.size(), parts.size()));
    for (size_t i = 0; i < parts.size(); ++i) PAGODA_TRY_STATUS(assign(*target.items[i], parts[i]));
    return ok_status();
  }
  return failed(fmt::format("cannot unpack non-iterable {} object", type_name(value)));
}

Status Interpreter::assign_namespace(const Expr& target, const Value& value) {
  PAGODA_TRY(const Value object, eval_name(target.name));
  if (!object.is(Kind::kNamespace)) return failed("cannot assign attribute on non-namespace object");
  DictObject& names = object.dict();
  const size_t before = names.entries.size();
  names.set(target.value, value);
  if (names.entries.size() > before) {
    constexpr int64_t kEntryBytes = 160;
    rt_.account().take(kEntryBytes);
    names.charged_bytes += kEntryBytes;
  }
  names.nesting = 0;  // what recurses into a namespace guards itself, and namespaces are emptied before they die
  return ok_status();
}

}  // namespace pagoda::jinja
