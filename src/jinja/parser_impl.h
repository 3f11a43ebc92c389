#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "jinja/ast.h"
#include "jinja/lexer.h"
#include "jinja/template.h"

namespace pagoda::jinja {

/// Recursive descent over the tokens, after jinja2.parser. Expressions are in parser_expr.cc, statements in parser.cc.
class Parser {
 public:
  Parser(std::vector<Token> tokens, const Environment& environment, int32_t depth_max)
      : tokens_(std::move(tokens)), env_(environment), depth_max_(depth_max), program_(std::make_unique<Program>()) {}
  Result<std::unique_ptr<Program>> run();

 private:
  using Parsed = Result<ExprPtr>;
  struct Ends {  // where a tuple ends besides its brackets
    std::string_view keyword;
  };

  // ---- tokens ----
  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void next() { at_ = std::min(at_ + 1, tokens_.size() - 1); }
  bool is(TokenType type) const { return current().type == type; }
  bool is_op(std::string_view op) const { return is(TokenType::kOperator) && current().text == op; }
  bool is_name(std::string_view name) const { return is(TokenType::kName) && current().text == name; }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  Status expect_op(std::string_view op);
  Status expect(TokenType type);
  Result<std::string> expect_name();
  Error unexpected(std::string_view wanted) const;
  Error fail(std::string message) const { return syntax_error(current().line, std::move(message)); }
  NameId intern(std::string_view name);

  // ---- expressions ----
  /// Guards recursion; every parse_* that can call itself holds one.
  class Level {
   public:
    explicit Level(int32_t& depth) : depth_(depth) { ++depth_; }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int32_t& depth_;
  };
  Status check_level() const;
  Parsed finish(ExprPtr expr) const;  // computes and checks its depth
  ExprPtr node(ExprKind kind) const;
  Parsed expression(bool with_ternary = true);
  Parsed ternary();
  Parsed logical(bool is_or);
  Parsed negation();
  Parsed comparison();
  Parsed sum();
  Parsed concat();
  Parsed product();
  Parsed power();
  Parsed unary(bool with_filter);
  Parsed primary(bool with_namespace = false);
  Parsed name_primary(bool with_namespace);
  Parsed number_primary();
  Parsed string_primary();
  Parsed parenthesized();
  Parsed list_literal();
  Parsed dict_literal();
  Parsed tuple(bool simplified, bool with_ternary, std::string_view end_keyword, bool parenthesized,
               bool with_namespace);
  Parsed postfix(ExprPtr base);
  Parsed filters(ExprPtr base);
  Parsed subscript(ExprPtr base);
  Parsed subscribed(ExprPtr base);
  Parsed call(ExprPtr base);
  Result<std::unique_ptr<CallExpr>> call_args();
  Status call_arg(CallExpr& out, int32_t line);
  Parsed filter(ExprPtr base);
  Parsed filter_chain(bool first_without_pipe);
  Parsed test(ExprPtr base);
  Result<std::string> dotted_name();
  bool starts_test_argument() const;
  Parsed assign_target(bool with_tuple, std::string_view end_keyword, bool with_namespace);
  Status check_target(const Expr& target) const;
  Parsed binary_chain(Parsed (Parser::*operand)(), std::string_view operators);
  static bool compare_op(const Token& token, CompareOp& op);

  // ---- statements ----
  using Ending = std::vector<std::string_view>;
  Result<Body> body_until(const Ending& ending);     // after the tag's end; stops at the ending tag's name
  Result<Body> statements(const Ending& ending);     // a tag's body, from its block_end on
  Result<Body> closed_by(std::string_view end_tag);  // the same, ending tag skipped
  Result<StmtPtr> statement();
  Result<StmtPtr> parse_for(StmtPtr stmt);
  Result<StmtPtr> parse_if(StmtPtr stmt);
  Result<StmtPtr> parse_set(StmtPtr stmt);
  Result<StmtPtr> parse_macro(StmtPtr stmt);
  Result<StmtPtr> parse_call_block(StmtPtr stmt);
  Result<StmtPtr> parse_filter_block(StmtPtr stmt);
  Result<StmtPtr> parse_with(StmtPtr stmt);
  Result<StmtPtr> parse_block(StmtPtr stmt);
  Result<StmtPtr> parse_autoescape(StmtPtr stmt);
  Result<StmtPtr> parse_generation(StmtPtr stmt);
  Result<StmtPtr> parse_print(StmtPtr stmt);
  Result<StmtPtr> parse_do(StmtPtr stmt);
  Result<StmtPtr> parse_break(StmtPtr stmt);
  Result<StmtPtr> parse_continue(StmtPtr stmt);
  Result<StmtPtr> loop_control(StmtPtr stmt, StmtKind kind);
  Status signature(MacroDef& macro);
  Result<Body> macro_body(MacroDef& macro, std::string_view end_tag);
  struct Tag {
    std::string_view name;
    Result<StmtPtr> (Parser::*parse)(StmtPtr stmt);
  };
  static const Tag* find_tag(std::string_view name);

  const std::vector<Token> tokens_;
  const Environment& env_;
  const int32_t depth_max_;
  size_t at_ = 0;
  int32_t depth_ = 0;
  bool soft_ = false;  // under an if: unknown filters and tests fail only when reached
  int32_t loops_ = 0;  // break and continue need one in the same function
  std::vector<MacroDef*> macros_;
  std::unordered_map<std::string, NameId> ids_;
  std::unique_ptr<Program> program_;
};

}  // namespace pagoda::jinja
