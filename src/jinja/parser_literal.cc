// Names, literals and what stands in brackets.
#include "jinja/numbers.h"
#include "jinja/parser_impl.h"

namespace pagoda::jinja {

Parser::Parsed Parser::name_primary(bool with_namespace) {
  const std::string text = current().text;
  ExprPtr expr = node(ExprKind::kConst);
  next();
  if (text == "true" || text == "True" || text == "false" || text == "False") {
    expr->value = Value::boolean(text == "true" || text == "True");
  } else if (text == "none" || text == "None") {
    expr->value = Value::none();
  } else if (with_namespace && is_op(".")) {
    next();
    PAGODA_TRY(const std::string attribute, expect_name());
    expr->kind = ExprKind::kNamespaceRef;
    expr->name = intern(text);
    expr->value = Value::string(attribute);
  } else {
    expr->kind = ExprKind::kName;
    expr->name = intern(text);
    for (MacroDef* macro : macros_) {
      macro->uses_caller = macro->uses_caller || text == "caller";
      macro->uses_varargs = macro->uses_varargs || text == "varargs";
      macro->uses_kwargs = macro->uses_kwargs || text == "kwargs";
    }
  }
  return expr;
}

Parser::Parsed Parser::number_primary() {
  ExprPtr expr = node(ExprKind::kConst);
  const std::string& text = current().text;
  if (is(TokenType::kFloat)) {
    const auto number = parse_float(text);
    if (!number) return fail("not a number: " + text);
    expr->value = Value::real(*number);
  } else {
    const auto number = parse_int(text, 0);
    if (!number) return fail("the integer " + text.substr(0, 40) + " needs more than 64 bits");
    expr->value = Value::integer(*number);
  }
  next();
  return expr;
}

Parser::Parsed Parser::string_primary() {
  ExprPtr expr = node(ExprKind::kConst);
  std::string text;
  for (; is(TokenType::kString); next()) text += current().text;
  expr->value = Value::string(std::move(text));
  return expr;
}

Parser::Parsed Parser::primary(bool with_namespace) {
  switch (current().type) {
    case TokenType::kName:
      return name_primary(with_namespace);
    case TokenType::kString:
      return string_primary();
    case TokenType::kInteger:
    case TokenType::kFloat:
      return number_primary();
    default:
      if (is_op("(")) return parenthesized();
      if (is_op("[")) return list_literal();
      if (is_op("{")) return dict_literal();
      return unexpected("");
  }
}

Parser::Parsed Parser::parenthesized() {
  next();
  PAGODA_TRY(ExprPtr inside, tuple(false, true, "", true, false));
  PAGODA_TRY_STATUS(expect_op(")"));
  return inside;
}

Parser::Parsed Parser::list_literal() {
  ExprPtr expr = node(ExprKind::kList);
  next();
  while (!is_op("]")) {
    if (!expr->items.empty()) PAGODA_TRY_STATUS(expect_op(","));
    if (is_op("]")) break;
    PAGODA_TRY(ExprPtr item, expression());
    expr->items.push_back(std::move(item));
  }
  PAGODA_TRY_STATUS(expect_op("]"));
  return finish(std::move(expr));
}

Parser::Parsed Parser::dict_literal() {
  ExprPtr expr = node(ExprKind::kDict);
  next();
  while (!is_op("}")) {
    if (!expr->items.empty()) PAGODA_TRY_STATUS(expect_op(","));
    if (is_op("}")) break;
    PAGODA_TRY(ExprPtr key, expression());
    PAGODA_TRY_STATUS(expect_op(":"));
    PAGODA_TRY(ExprPtr value, expression());
    expr->items.push_back(std::move(key));
    expr->items.push_back(std::move(value));
  }
  PAGODA_TRY_STATUS(expect_op("}"));
  return finish(std::move(expr));
}

Parser::Parsed Parser::tuple(bool simplified, bool with_ternary, std::string_view end_keyword, bool in_parentheses,
                             bool with_namespace) {
  ExprPtr expr = node(ExprKind::kTuple);
  bool is_tuple = false;
  for (;;) {
    if (!expr->items.empty()) PAGODA_TRY_STATUS(expect_op(","));
    const bool ends = is(TokenType::kVariableEnd) || is(TokenType::kBlockEnd) || is_op(")") ||
                      (!end_keyword.empty() && is_name(end_keyword));
    if (ends) break;
    PAGODA_TRY(ExprPtr item, simplified ? primary(with_namespace) : expression(with_ternary));
    expr->items.push_back(std::move(item));
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!expr->items.empty()) return std::move(expr->items[0]);
    if (!in_parentheses) return unexpected("an expression");
  }
  return finish(std::move(expr));
}

}  // namespace pagoda::jinja
