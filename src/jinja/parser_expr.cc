// Expressions. Source: jinja2.parser, whose order of precedence is kept.
#include <fmt/format.h>

#include <algorithm>

#include "jinja/parser_impl.h"

namespace pagoda::jinja {

ExprPtr Parser::node(ExprKind kind) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = current().line;
  return expr;
}

Status Parser::check_level() const {
  if (depth_ > depth_max_) return fail(fmt::format("nests deeper than {} levels", depth_max_));
  return ok_status();
}

Parser::Parsed Parser::finish(ExprPtr expr) const {
  int32_t below = 0;
  const auto add = [&below](const ExprPtr& part) {
    if (part) below = std::max(below, part->depth);
  };
  for (const ExprPtr& item : expr->items) add(item);
  if (expr->call) {
    for (const ExprPtr& item : expr->call->positional) add(item);
    for (const auto& [name, item] : expr->call->named) add(item);
    add(expr->call->star);
    add(expr->call->double_star);
  }
  expr->depth = below + 1;
  if (expr->depth > depth_max_)
    return syntax_error(expr->line, fmt::format("an expression nests deeper than {} levels", depth_max_));
  return expr;
}

Parser::Parsed Parser::expression(bool with_ternary) { return with_ternary ? ternary() : logical(true); }

Parser::Parsed Parser::ternary() {
  const Level level(depth_);
  PAGODA_TRY_STATUS(check_level());
  // Which filters are soft is known only when the `if` shows up behind them: look ahead for it at this nesting.
  const bool outer_soft = soft_;
  int32_t open = 0;
  for (size_t i = at_; i < tokens_.size() && !soft_; ++i) {
    const Token& token = tokens_[i];
    if (token.type != TokenType::kOperator && token.type != TokenType::kName) {
      if (token.type == TokenType::kVariableEnd || token.type == TokenType::kBlockEnd || token.type == TokenType::kEof)
        break;
      continue;
    }
    if (token.text == "(" || token.text == "[" || token.text == "{") ++open;
    if (token.text == ")" || token.text == "]" || token.text == "}") --open;
    if (open < 0 || (open == 0 && token.text == ",")) break;
    if (open == 0 && token.type == TokenType::kName && token.text == "if") soft_ = true;
  }
  Parsed value = logical(true);
  while (value.ok() && skip_name("if")) {
    ExprPtr expr = node(ExprKind::kTernary);
    Parsed test = logical(true);
    if (!test.ok()) return test;
    Parsed otherwise = ExprPtr();
    if (skip_name("else")) otherwise = ternary();
    if (!otherwise.ok()) return otherwise;
    expr->items.push_back(std::move(test).take());
    expr->items.push_back(std::move(value).take());
    expr->items.push_back(std::move(otherwise).take());
    value = finish(std::move(expr));
  }
  soft_ = outer_soft;
  return value;
}

Parser::Parsed Parser::logical(bool is_or) {
  const auto operand = [&] { return is_or ? logical(false) : negation(); };
  PAGODA_TRY(ExprPtr first, operand());
  if (!is_name(is_or ? "or" : "and")) return first;
  ExprPtr expr = node(is_or ? ExprKind::kOr : ExprKind::kAnd);
  expr->items.push_back(std::move(first));
  while (skip_name(is_or ? "or" : "and")) {
    PAGODA_TRY(ExprPtr more, operand());
    expr->items.push_back(std::move(more));
  }
  return finish(std::move(expr));
}

Parser::Parsed Parser::negation() {
  if (!is_name("not")) return comparison();
  const Level level(depth_);
  PAGODA_TRY_STATUS(check_level());
  ExprPtr expr = node(ExprKind::kNot);
  next();
  PAGODA_TRY(ExprPtr operand, negation());
  expr->items.push_back(std::move(operand));
  return finish(std::move(expr));
}

bool Parser::compare_op(const Token& token, CompareOp& op) {
  static constexpr std::pair<std::string_view, CompareOp> kOps[] = {
      {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
      {"<=", CompareOp::kLe}, {">", CompareOp::kGt},  {">=", CompareOp::kGe},
  };
  for (const auto& [text, value] : kOps) {
    if (token.type != TokenType::kOperator || token.text != text) continue;
    op = value;
    return true;
  }
  return false;
}

Parser::Parsed Parser::comparison() {
  PAGODA_TRY(ExprPtr first, sum());
  ExprPtr expr = node(ExprKind::kCompare);
  for (;;) {
    CompareOp op = CompareOp::kEq;
    if (compare_op(current(), op)) {
      next();
    } else if (skip_name("in")) {
      op = CompareOp::kIn;
    } else if (is_name("not") && look().type == TokenType::kName && look().text == "in") {
      next();
      next();
      op = CompareOp::kNotIn;
    } else {
      break;
    }
    PAGODA_TRY(ExprPtr more, sum());
    expr->compares.push_back(op);
    expr->items.push_back(std::move(more));
  }
  if (expr->compares.empty()) return first;
  expr->items.insert(expr->items.begin(), std::move(first));
  return finish(std::move(expr));
}

Parser::Parsed Parser::binary_chain(Parsed (Parser::*operand)(), std::string_view operators) {
  static constexpr std::pair<std::string_view, BinaryOp> kOps[] = {
      {"+", BinaryOp::kAdd}, {"-", BinaryOp::kSub},       {"*", BinaryOp::kMul},  {"/", BinaryOp::kDiv},
      {"%", BinaryOp::kMod}, {"//", BinaryOp::kFloorDiv}, {"**", BinaryOp::kPow},
  };
  PAGODA_TRY(ExprPtr first, (this->*operand)());
  ExprPtr expr = node(ExprKind::kBinary);
  while (is(TokenType::kOperator) && operators.find(" " + current().text + " ") != std::string_view::npos) {
    const auto* op = std::find_if(std::begin(kOps), std::end(kOps),
                                  [&](const auto& entry) { return entry.first == current().text; });
    next();
    PAGODA_TRY(ExprPtr more, (this->*operand)());
    expr->operators.push_back(op->second);
    expr->items.push_back(std::move(more));
  }
  if (expr->operators.empty()) return first;
  expr->items.insert(expr->items.begin(), std::move(first));
  return finish(std::move(expr));
}

Parser::Parsed Parser::sum() { return binary_chain(&Parser::concat, " + - "); }
Parser::Parsed Parser::product() { return binary_chain(&Parser::power, " * / // % "); }

Parser::Parsed Parser::concat() {
  PAGODA_TRY(ExprPtr first, product());
  if (!is_op("~")) return first;
  ExprPtr expr = node(ExprKind::kConcat);
  expr->items.push_back(std::move(first));
  while (skip_op("~")) {
    PAGODA_TRY(ExprPtr more, product());
    expr->items.push_back(std::move(more));
  }
  return finish(std::move(expr));
}

Parser::Parsed Parser::power() {
  PAGODA_TRY(ExprPtr first, unary(true));
  if (!is_op("**")) return first;
  // Jinja, unlike Python, groups powers from the left.
  ExprPtr expr = node(ExprKind::kBinary);
  expr->items.push_back(std::move(first));
  while (skip_op("**")) {
    PAGODA_TRY(ExprPtr more, unary(true));
    expr->operators.push_back(BinaryOp::kPow);
    expr->items.push_back(std::move(more));
  }
  return finish(std::move(expr));
}

Parser::Parsed Parser::unary(bool with_filter) {
  Parsed value = ExprPtr();
  if (is_op("-") || is_op("+")) {
    const Level level(depth_);
    PAGODA_TRY_STATUS(check_level());
    ExprPtr expr = node(is_op("-") ? ExprKind::kNegate : ExprKind::kPlus);
    next();
    PAGODA_TRY(ExprPtr operand, unary(false));
    expr->items.push_back(std::move(operand));
    value = finish(std::move(expr));
  } else {
    value = primary();
  }
  if (!value.ok()) return value;
  PAGODA_TRY(ExprPtr complete, postfix(std::move(value).take()));
  return with_filter ? filters(std::move(complete)) : Parsed(std::move(complete));
}

Parser::Parsed Parser::postfix(ExprPtr base) {
  for (;;) {
    if (is_op(".") || is_op("[")) {
      PAGODA_TRY(base, subscript(std::move(base)));
    } else if (is_op("(")) {
      PAGODA_TRY(base, call(std::move(base)));
    } else {
      return base;
    }
  }
}

Parser::Parsed Parser::filters(ExprPtr base) {
  for (;;) {
    if (is_op("|")) {
      next();
      PAGODA_TRY(base, filter(std::move(base)));
    } else if (is_name("is")) {
      PAGODA_TRY(base, test(std::move(base)));
    } else if (is_op("(")) {
      PAGODA_TRY(base, call(std::move(base)));
    } else {
      return base;
    }
  }
}

Parser::Parsed Parser::subscript(ExprPtr base) {
  ExprPtr expr = node(ExprKind::kAttribute);
  const bool dot = is_op(".");
  next();
  if (!dot) return subscribed(std::move(base));
  expr->items.push_back(std::move(base));
  if (is(TokenType::kName)) {
    expr->value = Value::string(current().text);
    next();
    return finish(std::move(expr));
  }
  if (!is(TokenType::kInteger)) return fail("expected name or number");
  PAGODA_TRY(ExprPtr index, number_primary());
  expr->kind = ExprKind::kItem;
  expr->items.push_back(std::move(index));
  return finish(std::move(expr));
}

// Behind the bracket: one index, one slice, or several indices, which are a tuple.
Parser::Parsed Parser::subscribed(ExprPtr base) {
  ExprPtr expr = node(ExprKind::kItem);
  expr->items.push_back(std::move(base));
  ExprPtr first;
  if (!is_op(":")) {
    PAGODA_TRY(first, expression());
  }
  if (is_op(":")) {
    expr->kind = ExprKind::kSlice;
    expr->items.push_back(std::move(first));
    for (int part = 0; part < 2; ++part) {
      ExprPtr bound;
      if (skip_op(":") && !is_op(":") && !is_op("]")) {
        PAGODA_TRY(bound, expression());
      }
      expr->items.push_back(std::move(bound));
    }
  } else if (is_op(",")) {
    ExprPtr indices = node(ExprKind::kTuple);
    indices->items.push_back(std::move(first));
    while (skip_op(",") && !is_op("]")) {
      PAGODA_TRY(ExprPtr more, expression());
      indices->items.push_back(std::move(more));
    }
    PAGODA_TRY(first, finish(std::move(indices)));
    expr->items.push_back(std::move(first));
  } else {
    expr->items.push_back(std::move(first));
  }
  PAGODA_TRY_STATUS(expect_op("]"));
  return finish(std::move(expr));
}

Status Parser::call_arg(CallExpr& out, int32_t line) {
  const auto bad = [line] { return syntax_error(line, "invalid syntax for function call expression"); };
  if (skip_op("*")) {
    if (out.star || out.double_star) return bad();
    PAGODA_TRY(out.star, expression());
  } else if (skip_op("**")) {
    if (out.double_star) return bad();
    PAGODA_TRY(out.double_star, expression());
  } else if (is(TokenType::kName) && look().type == TokenType::kOperator && look().text == "=") {
    if (out.double_star) return bad();
    std::string name = current().text;
    next();
    next();
    PAGODA_TRY(ExprPtr value, expression());
    out.named.emplace_back(std::move(name), std::move(value));
  } else {
    if (out.star || out.double_star || !out.named.empty()) return bad();
    PAGODA_TRY(ExprPtr value, expression());
    out.positional.push_back(std::move(value));
  }
  return ok_status();
}

Result<std::unique_ptr<CallExpr>> Parser::call_args() {
  auto out = std::make_unique<CallExpr>();
  const int32_t line = current().line;
  PAGODA_TRY_STATUS(expect_op("("));
  for (bool first = true; !is_op(")"); first = false) {
    if (!first) PAGODA_TRY_STATUS(expect_op(","));
    if (is_op(")")) break;
    PAGODA_TRY_STATUS(call_arg(*out, line));
  }
  PAGODA_TRY_STATUS(expect_op(")"));
  return out;
}

Parser::Parsed Parser::call(ExprPtr base) {
  ExprPtr expr = node(ExprKind::kCall);
  expr->items.push_back(std::move(base));
  PAGODA_TRY(expr->call, call_args());
  return finish(std::move(expr));
}

Result<std::string> Parser::dotted_name() {
  PAGODA_TRY(std::string name, expect_name());
  while (skip_op(".")) {
    PAGODA_TRY(const std::string more, expect_name());
    name += "." + more;
  }
  return name;
}

// Behind the pipe.
Parser::Parsed Parser::filter(ExprPtr base) {
  ExprPtr expr = node(ExprKind::kFilter);
  expr->items.push_back(std::move(base));
  PAGODA_TRY(expr->text, dotted_name());
  expr->builtin = find_filter(expr->text);
  if (expr->builtin == nullptr && !soft_)
    return syntax_error(expr->line, fmt::format("No filter named '{}'.", expr->text));
  if (is_op("(")) {
    PAGODA_TRY(expr->call, call_args());
  } else {
    expr->call = std::make_unique<CallExpr>();
  }
  return finish(std::move(expr));
}

// The filters of a block, whose innermost subject is what the block captured.
Parser::Parsed Parser::filter_chain(bool first_without_pipe) {
  ExprPtr chain;
  while (first_without_pipe || skip_op("|")) {
    first_without_pipe = false;
    PAGODA_TRY(chain, filter(std::move(chain)));
  }
  return chain;
}

bool Parser::starts_test_argument() const {
  switch (current().type) {
    case TokenType::kName:
      return !is_name("else") && !is_name("or") && !is_name("and");
    case TokenType::kString:
    case TokenType::kInteger:
    case TokenType::kFloat:
      return true;
    default:
      return is_op("[") || is_op("{");
  }
}

Parser::Parsed Parser::test(ExprPtr base) {
  ExprPtr expr = node(ExprKind::kTest);
  expr->items.push_back(std::move(base));
  next();
  const bool negated = skip_name("not");
  PAGODA_TRY(expr->text, dotted_name());
  expr->builtin = find_test(expr->text);
  if (expr->builtin == nullptr && !soft_)
    return syntax_error(expr->line, fmt::format("No test named '{}'.", expr->text));
  if (is_op("(")) {
    PAGODA_TRY(expr->call, call_args());
  } else {
    expr->call = std::make_unique<CallExpr>();
    if (starts_test_argument()) {
      if (is_name("is")) return fail("You cannot chain multiple tests with is");
      PAGODA_TRY(ExprPtr argument, primary());
      PAGODA_TRY(argument, postfix(std::move(argument)));
      expr->call->positional.push_back(std::move(argument));
    }
  }
  if (!negated) return finish(std::move(expr));
  ExprPtr wrapped = node(ExprKind::kNot);
  PAGODA_TRY(expr, finish(std::move(expr)));
  wrapped->items.push_back(std::move(expr));
  return finish(std::move(wrapped));
}

Status Parser::check_target(const Expr& target) const {
  switch (target.kind) {
    case ExprKind::kName:
    case ExprKind::kNamespaceRef:
      return ok_status();
    case ExprKind::kTuple:
      for (const ExprPtr& item : target.items) PAGODA_TRY_STATUS(check_target(*item));
      return ok_status();
    default:
      return syntax_error(target.line, "can't assign to this expression");
  }
}

Parser::Parsed Parser::assign_target(bool with_tuple, std::string_view end_keyword, bool with_namespace) {
  PAGODA_TRY(ExprPtr target,
             with_tuple ? tuple(true, false, end_keyword, false, with_namespace) : primary(with_namespace));
  PAGODA_TRY_STATUS(check_target(*target));
  return target;
}

}  // namespace pagoda::jinja
