#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jinja/callable.h"
#include "jinja/operators.h"
#include "jinja/value.h"

namespace pagoda::jinja {

/// Names are numbers while rendering; the template keeps their spelling.
using NameId = int32_t;

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind : uint8_t {
  kConst,         // value
  kName,          // name
  kAttribute,     // items[0].value
  kItem,          // items[0][items[1]]
  kSlice,         // items[0][items[1]:items[2]:items[3]], null where left out
  kCall,          // items[0](call)
  kFilter,        // items[0]|text(call); items[0] is null for what a block captured
  kTest,          // items[0] is text(call)
  kTuple,         // items
  kList,          // items
  kDict,          // items: key, value, key, value ...
  kNegate,        // -items[0]
  kPlus,          // +items[0]
  kNot,           // not items[0]
  kAnd,           // items[0] and items[1] and ...
  kOr,            // items[0] or items[1] or ...
  kCompare,       // items[0] compares[0] items[1] compares[1] ...
  kBinary,        // items[0] operators[0] items[1] operators[1] ..., from the left
  kConcat,        // items[0] ~ items[1] ~ ...
  kTernary,       // items[1] if items[0] else items[2]; items[2] may be null
  kNamespaceRef,  // name.value as the target of a set
};

/// The arguments of a call, filter or test.
struct CallExpr {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *args
  ExprPtr double_star;  // **kwargs
};

/// Chains of one precedence are one node, so that depth means nesting and not length.
struct Expr {
  ExprKind kind;
  int32_t line;
  int32_t depth = 1;  // longest path below, this node included
  NameId name = -1;
  Value value;
  std::string text;  // of a filter or test: its name
  std::vector<ExprPtr> items;
  std::vector<BinaryOp> operators;
  std::vector<CompareOp> compares;
  std::unique_ptr<CallExpr> call;
  const Builtin* builtin = nullptr;  // of a filter or test; null: unknown, which fails when reached
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

enum class StmtKind : uint8_t {
  kText,
  kPrint,
  kFor,
  kIf,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kBlock,
  kAutoescape,
  kScope,
  kBreak,
  kContinue,
  kDo,
};

/// A macro, or the body of a call block.
struct MacroDef {
  std::string name;
  NameId name_id = -1;
  std::vector<NameId> parameters;
  std::vector<std::string> parameter_names;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Body body;
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct Branch {
  ExprPtr test;  // null for else
  Body body;
};

struct Stmt {
  StmtKind kind;
  int32_t line;
  std::string text;            // kText
  std::vector<ExprPtr> exprs;  // kPrint: what; kSet: target, value; kFor: target, iterable, filter (or null);
                               // kSetBlock: target, filter (or null); kFilterBlock: filter; kAutoescape: flag;
                               // kCallBlock: the call; kWith: target, value, target, value ...; kDo: what
  Body body;
  Body otherwise;                   // kFor: else
  std::vector<Branch> branches;     // kIf
  bool recursive = false;           // kFor
  bool uses_loop = true;            // kFor
  bool scoped = false;              // kBlock
  NameId name = -1;                 // kBlock
  std::shared_ptr<MacroDef> macro;  // kMacro, kCallBlock
};

/// A parsed template: immutable, and what it holds of values is never changed by a rendering.
struct Program {
  Body body;
  std::vector<std::string> names;                       // by NameId
  std::unordered_map<std::string, const Stmt*> blocks;  // by name
  NameId loop = -1, caller = -1, varargs = -1, kwargs = -1, self = -1;
};

}  // namespace pagoda::jinja
