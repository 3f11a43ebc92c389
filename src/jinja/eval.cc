// Expressions.
#include <fmt/format.h>

#include "jinja/interpreter.h"
#include "jinja/macro.h"
#include "jinja/repr.h"

namespace pagoda::jinja {

Result<Value> Interpreter::eval(const Expr& expr) {
  PAGODA_TRY_STATUS(rt_.step());
  if (expr.kind == ExprKind::kConst) return expr.value;
  if (expr.kind == ExprKind::kName) return eval_name(expr.name);
  PAGODA_TRY_STATUS(rt_.enter());
  Result<Value> value = eval_inner(expr);
  rt_.leave();
  return value;
}

Result<Value> Interpreter::eval_inner(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kAttribute:
    case ExprKind::kItem:
      return eval_item(expr);
    case ExprKind::kSlice:
      return eval_slice(expr);
    case ExprKind::kCall:
      return eval_call(expr, Value());
    case ExprKind::kFilter:
      return eval_filter(expr);
    case ExprKind::kTest:
      return eval_test(expr);
    case ExprKind::kTuple:
    case ExprKind::kList:
      return eval_sequence(expr);
    case ExprKind::kDict:
      return eval_dict(expr);
    case ExprKind::kNegate:
    case ExprKind::kPlus: {
      PAGODA_TRY(const Value operand, eval(*expr.items[0]));
      return expr.kind == ExprKind::kNegate ? negate(rt_, operand) : plus(rt_, operand);
    }
    case ExprKind::kNot: {
      PAGODA_TRY(const Value operand, eval(*expr.items[0]));
      PAGODA_TRY(const bool truth, rt_.truth(operand));
      return Value::boolean(!truth);
    }
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return eval_logical(expr);
    case ExprKind::kCompare:
      return eval_compare(expr);
    case ExprKind::kBinary:
      return eval_binary(expr);
    case ExprKind::kConcat:
      return eval_concat(expr);
    case ExprKind::kTernary:
      return eval_ternary(expr);
    case ExprKind::kConst:
    case ExprKind::kName:
    case ExprKind::kNamespaceRef:
      break;
  }
  return failed("this expression has no value");
}

Result<Value> Interpreter::eval_name(NameId name) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->outer.get())
    if (const Value* found = scope->find(name)) return *found;
  const std::string& text = program_.names[static_cast<size_t>(name)];
  if (context_.is_dict())
    if (const Value* found = context_.dict().find(text)) return *found;
  if (name == program_.self) return Value::of(Kind::kBlocks, nullptr);
  const Builtin* global = find_global(text);
  const bool chat_only = text == "raise_exception" || text == "strftime_now";
  if (global != nullptr && (!chat_only || rt_.environment().chat_globals)) return bind_method(rt_, Value(), *global);
  return rt_.undefined_name(text);
}

Result<Value> Interpreter::eval_item(const Expr& expr) {
  PAGODA_TRY(const Value object, eval(*expr.items[0]));
  if (expr.kind == ExprKind::kAttribute) {
    if (object.is(Kind::kBlocks)) {
      const auto block = program_.blocks.find(std::string(expr.value.view()));
      if (block != program_.blocks.end()) return block_value(*this, *block->second);
    }
    return rt_.get_attribute(object, expr.value);
  }
  PAGODA_TRY(const Value key, eval(*expr.items[1]));
  return rt_.get_item(object, key);
}

Result<Value> Interpreter::eval_slice(const Expr& expr) {
  PAGODA_TRY(const Value object, eval(*expr.items[0]));
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (!expr.items[i + 1]) continue;
    PAGODA_TRY(bounds[i], eval(*expr.items[i + 1]));
  }
  return rt_.get_slice(object, bounds[0], bounds[1], bounds[2]);
}

Result<Args> Interpreter::eval_args(const CallExpr& call) {
  Args args;
  for (const ExprPtr& item : call.positional) {
    PAGODA_TRY(Value value, eval(*item));
    args.positional.push_back(std::move(value));
  }
  for (const auto& [name, item] : call.named) {
    PAGODA_TRY(Value value, eval(*item));
    args.named.emplace_back(name, std::move(value));
  }
  if (call.star) {
    PAGODA_TRY(const Value star, eval(*call.star));
    PAGODA_TRY(const std::vector<Value> more, rt_.to_vector(star));
    args.positional.insert(args.positional.end(), more.begin(), more.end());
  }
  if (call.double_star) {
    PAGODA_TRY(const Value stars, eval(*call.double_star));
    if (!stars.is_dict()) return failed("argument after ** must be a mapping, not " + type_name(stars));
    for (const auto& [key, value] : stars.dict().entries) {
      if (!key.is_string()) return failed("keywords must be strings");
      args.named.emplace_back(key.view(), value);
    }
    PAGODA_TRY_STATUS(rt_.step(static_cast<int64_t>(stars.dict().entries.size())));
  }
  return args;
}

Result<Value> Interpreter::eval_call(const Expr& expr, Value caller) {
  PAGODA_TRY(const Value callee, eval(*expr.items[0]));
  PAGODA_TRY(Args args, eval_args(*expr.call));
  if (!caller.is_missing()) args.named.emplace_back("caller", std::move(caller));
  return rt_.call(callee, std::move(args));
}

Result<Value> Interpreter::eval_filter(const Expr& expr) {
  Value subject = captured_;
  if (expr.items[0]) {
    PAGODA_TRY(subject, eval(*expr.items[0]));
  }
  if (expr.builtin == nullptr) return failed("No filter named " + in_quotes(expr.text) + " found.");
  PAGODA_TRY(Args args, eval_args(*expr.call));
  return call_builtin(rt_, *expr.builtin, subject, std::move(args));
}

Result<Value> Interpreter::eval_test(const Expr& expr) {
  PAGODA_TRY(const Value subject, eval(*expr.items[0]));
  if (expr.builtin == nullptr) return failed("No test named " + in_quotes(expr.text) + " found.");
  PAGODA_TRY(Args args, eval_args(*expr.call));
  return call_builtin(rt_, *expr.builtin, subject, std::move(args));
}

Result<Value> Interpreter::eval_sequence(const Expr& expr) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) {
    PAGODA_TRY(Value value, eval(*item));
    items.push_back(std::move(value));
  }
  return rt_.list(std::move(items), expr.kind == ExprKind::kTuple ? ListKind::kTuple : ListKind::kList);
}

Result<Value> Interpreter::eval_dict(const Expr& expr) {
  auto dict = std::make_shared<DictObject>();
  for (size_t i = 0; i < expr.items.size(); i += 2) {
    PAGODA_TRY(Value key, eval(*expr.items[i]));
    PAGODA_TRY(Value value, eval(*expr.items[i + 1]));
    if (!DictObject::hashable(key)) return failed("unhashable type: " + in_quotes(type_name(key)));
    dict->set(std::move(key), std::move(value));
  }
  return rt_.dict(std::move(dict));
}

Result<Value> Interpreter::eval_logical(const Expr& expr) {
  const bool stop_at = expr.kind == ExprKind::kOr;
  for (size_t i = 0;; ++i) {
    PAGODA_TRY(Value value, eval(*expr.items[i]));
    if (i + 1 == expr.items.size()) return value;
    PAGODA_TRY(const bool truth, rt_.truth(value));
    if (truth == stop_at) return value;
  }
}

Result<Value> Interpreter::eval_compare(const Expr& expr) {
  PAGODA_TRY(Value left, eval(*expr.items[0]));
  for (size_t i = 0; i < expr.compares.size(); ++i) {
    PAGODA_TRY(Value right, eval(*expr.items[i + 1]));
    PAGODA_TRY(const bool holds, compare(rt_, expr.compares[i], left, right));
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Result<Value> Interpreter::eval_binary(const Expr& expr) {
  PAGODA_TRY(Value left, eval(*expr.items[0]));
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    PAGODA_TRY(const Value right, eval(*expr.items[i + 1]));
    PAGODA_TRY(left, binary(rt_, expr.operators[i], left, right));
  }
  return left;
}

Result<Value> Interpreter::eval_concat(const Expr& expr) {
  std::vector<Value> parts;
  bool markup = false;
  for (const ExprPtr& item : expr.items) {
    PAGODA_TRY(Value part, eval(*item));
    markup = markup || part.is_markup();
    parts.push_back(std::move(part));
  }
  markup = markup && rt_.autoescape;
  Builder out(rt_);
  for (Value& part : parts) {
    if (markup) {
      PAGODA_TRY(part, escape(rt_, part));
    }
    PAGODA_TRY_STATUS(append_str(rt_, part, out));
  }
  return rt_.str(out.take(), markup);
}

Result<Value> Interpreter::eval_ternary(const Expr& expr) {
  PAGODA_TRY(const Value test, eval(*expr.items[0]));
  PAGODA_TRY(const bool truth, rt_.truth(test));
  if (truth) return eval(*expr.items[1]);
  if (expr.items[2]) return eval(*expr.items[2]);
  return rt_.undefined_hint(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.", expr.line));
}

}  // namespace pagoda::jinja
