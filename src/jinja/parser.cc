// Statements. Source: jinja2.parser, plus transformers' generation tag.
#include "jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/parser_impl.h"

namespace pagoda::jinja {

bool Parser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

namespace {

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::kName:
    case TokenType::kOperator:
      return token.text;
    case TokenType::kData:
      return "template data / text";
    case TokenType::kVariableBegin:
      return "begin of print statement";
    case TokenType::kVariableEnd:
      return "end of print statement";
    case TokenType::kBlockBegin:
      return "begin of statement block";
    case TokenType::kBlockEnd:
      return "end of statement block";
    case TokenType::kString:
      return "string";
    case TokenType::kInteger:
      return "integer";
    case TokenType::kFloat:
      return "float";
    case TokenType::kEof:
      return "end of template";
  }
  return "";
}

}  // namespace

Error Parser::unexpected(std::string_view wanted) const {
  if (wanted.empty()) return fail(fmt::format("unexpected '{}'", describe(current())));
  if (is(TokenType::kEof)) return fail(fmt::format("unexpected end of template, expected '{}'.", wanted));
  return fail(fmt::format("expected token '{}', got '{}'", wanted, describe(current())));
}

Status Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) return unexpected(op);
  return ok_status();
}

Status Parser::expect(TokenType type) {
  if (!is(type)) return unexpected(describe(Token{type, 0, ""}));
  next();
  return ok_status();
}

Result<std::string> Parser::expect_name() {
  if (!is(TokenType::kName)) return unexpected("name");
  std::string name = current().text;
  next();
  return name;
}

NameId Parser::intern(std::string_view name) {
  const auto [found, added] = ids_.emplace(std::string(name), static_cast<NameId>(program_->names.size()));
  if (added) program_->names.emplace_back(name);
  return found->second;
}

Result<std::unique_ptr<Program>> Parser::run() {
  program_->loop = intern("loop");
  program_->caller = intern("caller");
  program_->varargs = intern("varargs");
  program_->kwargs = intern("kwargs");
  program_->self = intern("self");
  PAGODA_TRY(program_->body, body_until({}));
  return std::move(program_);
}

Result<Body> Parser::body_until(const Ending& ending) {
  const Level level(depth_);
  PAGODA_TRY_STATUS(check_level());
  Body body;
  while (!is(TokenType::kEof)) {
    auto stmt = std::make_unique<Stmt>();
    stmt->line = current().line;
    if (is(TokenType::kData)) {
      stmt->kind = StmtKind::kText;
      stmt->text = current().text;
      next();
      body.push_back(std::move(stmt));
    } else if (is(TokenType::kVariableBegin)) {
      next();
      stmt->kind = StmtKind::kPrint;
      PAGODA_TRY(ExprPtr expr, tuple(false, true, "", false, false));
      stmt->exprs.push_back(std::move(expr));
      PAGODA_TRY_STATUS(expect(TokenType::kVariableEnd));
      body.push_back(std::move(stmt));
    } else {
      PAGODA_TRY_STATUS(expect(TokenType::kBlockBegin));
      if (is(TokenType::kName) && std::find(ending.begin(), ending.end(), current().text) != ending.end()) return body;
      PAGODA_TRY(StmtPtr parsed, statement());
      body.push_back(std::move(parsed));
      PAGODA_TRY_STATUS(expect(TokenType::kBlockEnd));
    }
  }
  if (!ending.empty())
    return fail(fmt::format("Unexpected end of template. Jinja was looking for the following tags: '{}'.",
                            fmt::join(ending, "' or '")));
  return body;
}

Result<Body> Parser::statements(const Ending& ending) {
  skip_op(":");
  PAGODA_TRY_STATUS(expect(TokenType::kBlockEnd));
  return body_until(ending);
}

Result<Body> Parser::closed_by(std::string_view end_tag) {
  PAGODA_TRY(Body body, statements({end_tag}));
  next();
  return body;
}

const Parser::Tag* Parser::find_tag(std::string_view name) {
  static constexpr Tag kTags[] = {
      {"autoescape", &Parser::parse_autoescape},
      {"block", &Parser::parse_block},
      {"break", &Parser::parse_break},
      {"call", &Parser::parse_call_block},
      {"continue", &Parser::parse_continue},
      {"do", &Parser::parse_do},
      {"filter", &Parser::parse_filter_block},
      {"for", &Parser::parse_for},
      {"generation", &Parser::parse_generation},
      {"if", &Parser::parse_if},
      {"macro", &Parser::parse_macro},
      {"print", &Parser::parse_print},
      {"set", &Parser::parse_set},
      {"with", &Parser::parse_with},
  };
  for (const Tag& tag : kTags)
    if (tag.name == name) return &tag;
  return nullptr;
}

Result<StmtPtr> Parser::statement() {
  if (!is(TokenType::kName)) return fail("tag name expected");
  const std::string name = current().text;
  const Tag* tag = find_tag(name);
  if (tag == nullptr) {
    for (const std::string_view file_tag : {"extends", "from", "import", "include"})
      if (name == file_tag)
        return fail(fmt::format("the tag '{}' needs other files, which a template has none of here", name));
    return fail(fmt::format("Encountered unknown tag '{}'.", name));
  }
  auto stmt = std::make_unique<Stmt>();
  stmt->line = current().line;
  next();
  // What is inside this tag is soft only if the tag is an `if`; its caller's softness comes back behind it.
  const bool outer_soft = soft_;
  Result<StmtPtr> parsed = (this->*tag->parse)(std::move(stmt));
  soft_ = outer_soft;
  return parsed;
}

Result<StmtPtr> Parser::parse_for(StmtPtr stmt) {
  stmt->kind = StmtKind::kFor;
  PAGODA_TRY(ExprPtr target, assign_target(true, "in", false));
  const auto is_loop = [&](const ExprPtr& expr) {
    return expr->kind == ExprKind::kName && expr->name == program_->loop;
  };
  if (is_loop(target) || std::any_of(target->items.begin(), target->items.end(), is_loop))
    return fail("Can't assign to special loop variable in for-loop target");
  if (!skip_name("in")) return unexpected("in");
  PAGODA_TRY(ExprPtr iterable, tuple(false, false, "recursive", false, false));
  soft_ = false;
  ExprPtr filter;
  if (skip_name("if")) {
    PAGODA_TRY(filter, expression());
  }
  stmt->recursive = skip_name("recursive");
  ++loops_;
  PAGODA_TRY(stmt->body, statements({"endfor", "else"}));
  --loops_;
  if (skip_name("else")) {
    PAGODA_TRY(stmt->otherwise, closed_by("endfor"));
  } else {
    next();
  }
  stmt->exprs.push_back(std::move(target));
  stmt->exprs.push_back(std::move(iterable));
  stmt->exprs.push_back(std::move(filter));
  return stmt;
}

Result<StmtPtr> Parser::parse_if(StmtPtr stmt) {
  stmt->kind = StmtKind::kIf;
  soft_ = true;
  for (;;) {
    PAGODA_TRY(ExprPtr test, tuple(false, false, "", false, false));
    PAGODA_TRY(Body body, statements({"elif", "else", "endif"}));
    stmt->branches.push_back({std::move(test), std::move(body)});
    if (skip_name("elif")) continue;
    if (skip_name("else")) {
      PAGODA_TRY(Body otherwise, closed_by("endif"));
      stmt->branches.push_back({nullptr, std::move(otherwise)});
    } else {
      next();
    }
    return stmt;
  }
}

Result<StmtPtr> Parser::parse_set(StmtPtr stmt) {
  stmt->kind = StmtKind::kSet;
  PAGODA_TRY(ExprPtr target, assign_target(true, "", true));
  ExprPtr value;
  if (skip_op("=")) {
    PAGODA_TRY(value, tuple(false, true, "", false, false));
  } else {
    stmt->kind = StmtKind::kSetBlock;
    soft_ = false;
    PAGODA_TRY(value, filter_chain(false));
    PAGODA_TRY(stmt->body, closed_by("endset"));
  }
  stmt->exprs.push_back(std::move(target));
  stmt->exprs.push_back(std::move(value));
  return stmt;
}

Status Parser::signature(MacroDef& macro) {
  PAGODA_TRY_STATUS(expect_op("("));
  while (!is_op(")")) {
    if (!macro.parameters.empty()) PAGODA_TRY_STATUS(expect_op(","));
    PAGODA_TRY(const std::string name, expect_name());
    if (std::find(macro.parameter_names.begin(), macro.parameter_names.end(), name) != macro.parameter_names.end())
      return fail(fmt::format("duplicate argument '{}' in macro definition", name));
    macro.parameters.push_back(intern(name));
    macro.parameter_names.push_back(name);
    if (skip_op("=")) {
      PAGODA_TRY(ExprPtr value, expression());
      macro.defaults.push_back(std::move(value));
    } else if (!macro.defaults.empty()) {
      return fail("non-default argument follows default argument");
    }
  }
  next();
  return ok_status();
}

Result<Body> Parser::macro_body(MacroDef& macro, std::string_view end_tag) {
  soft_ = false;
  macros_.push_back(&macro);
  const int32_t outer_loops = std::exchange(loops_, 0);
  Result<Body> body = closed_by(end_tag);
  loops_ = outer_loops;
  macros_.pop_back();
  return body;
}

Result<StmtPtr> Parser::parse_macro(StmtPtr stmt) {
  stmt->kind = StmtKind::kMacro;
  stmt->macro = std::make_shared<MacroDef>();
  PAGODA_TRY(stmt->macro->name, expect_name());
  stmt->macro->name_id = intern(stmt->macro->name);
  soft_ = false;
  PAGODA_TRY_STATUS(signature(*stmt->macro));
  PAGODA_TRY(stmt->macro->body, macro_body(*stmt->macro, "endmacro"));
  return stmt;
}

Result<StmtPtr> Parser::parse_call_block(StmtPtr stmt) {
  stmt->kind = StmtKind::kCallBlock;
  stmt->macro = std::make_shared<MacroDef>();
  stmt->macro->name = "caller";
  if (is_op("(")) PAGODA_TRY_STATUS(signature(*stmt->macro));
  PAGODA_TRY(ExprPtr call, expression());
  if (call->kind != ExprKind::kCall) return fail("expected call");
  stmt->exprs.push_back(std::move(call));
  PAGODA_TRY(stmt->macro->body, macro_body(*stmt->macro, "endcall"));
  return stmt;
}

Result<StmtPtr> Parser::parse_filter_block(StmtPtr stmt) {
  stmt->kind = StmtKind::kFilterBlock;
  soft_ = false;
  PAGODA_TRY(ExprPtr filter, filter_chain(true));
  stmt->exprs.push_back(std::move(filter));
  PAGODA_TRY(stmt->body, closed_by("endfilter"));
  return stmt;
}

Result<StmtPtr> Parser::parse_with(StmtPtr stmt) {
  stmt->kind = StmtKind::kWith;
  soft_ = false;
  while (!is(TokenType::kBlockEnd)) {
    if (!stmt->exprs.empty()) PAGODA_TRY_STATUS(expect_op(","));
    PAGODA_TRY(ExprPtr target, assign_target(true, "", false));
    PAGODA_TRY_STATUS(expect_op("="));
    PAGODA_TRY(ExprPtr value, expression());
    stmt->exprs.push_back(std::move(target));
    stmt->exprs.push_back(std::move(value));
  }
  PAGODA_TRY(stmt->body, closed_by("endwith"));
  return stmt;
}

Result<StmtPtr> Parser::parse_block(StmtPtr stmt) {
  stmt->kind = StmtKind::kBlock;
  PAGODA_TRY(const std::string name, expect_name());
  stmt->scoped = skip_name("scoped");
  skip_name("required");
  if (is_op("-"))
    return fail(
        "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, use an underscore "
        "instead.");
  soft_ = false;
  const int32_t outer_loops = std::exchange(loops_, 0);
  PAGODA_TRY(stmt->body, closed_by("endblock"));
  loops_ = outer_loops;
  skip_name(name);
  stmt->name = intern(name);
  if (!program_->blocks.emplace(name, stmt.get()).second)
    return syntax_error(stmt->line, fmt::format("block '{}' defined twice", name));
  return stmt;
}

Result<StmtPtr> Parser::parse_autoescape(StmtPtr stmt) {
  stmt->kind = StmtKind::kAutoescape;
  soft_ = false;
  PAGODA_TRY(ExprPtr flag, expression());
  stmt->exprs.push_back(std::move(flag));
  PAGODA_TRY(stmt->body, closed_by("endautoescape"));
  return stmt;
}

// Marks what the assistant wrote, for training masks; to us a block with a scope of its own.
Result<StmtPtr> Parser::parse_generation(StmtPtr stmt) {
  stmt->kind = StmtKind::kScope;
  soft_ = false;
  PAGODA_TRY(stmt->body, closed_by("endgeneration"));
  return stmt;
}

Result<StmtPtr> Parser::parse_print(StmtPtr stmt) {
  stmt->kind = StmtKind::kPrint;
  while (!is(TokenType::kBlockEnd)) {
    if (!stmt->exprs.empty()) PAGODA_TRY_STATUS(expect_op(","));
    PAGODA_TRY(ExprPtr expr, expression());
    stmt->exprs.push_back(std::move(expr));
  }
  return stmt;
}

Result<StmtPtr> Parser::parse_do(StmtPtr stmt) {
  stmt->kind = StmtKind::kDo;
  PAGODA_TRY(ExprPtr expr, tuple(false, true, "", false, false));
  stmt->exprs.push_back(std::move(expr));
  return stmt;
}

Result<StmtPtr> Parser::loop_control(StmtPtr stmt, StmtKind kind) {
  if (!env_.loop_controls) return syntax_error(stmt->line, "break and continue are not enabled");
  if (loops_ == 0) return syntax_error(stmt->line, "break or continue outside of a loop");
  stmt->kind = kind;
  return stmt;
}

Result<StmtPtr> Parser::parse_break(StmtPtr stmt) { return loop_control(std::move(stmt), StmtKind::kBreak); }
Result<StmtPtr> Parser::parse_continue(StmtPtr stmt) { return loop_control(std::move(stmt), StmtKind::kContinue); }

Result<std::unique_ptr<Program>> parse_program(std::string_view source, const Environment& environment,
                                               int32_t depth_max) {
  PAGODA_TRY(std::vector<Token> tokens, tokenize(source, environment));
  return Parser(std::move(tokens), environment, depth_max).run();
}

}  // namespace pagoda::jinja
