#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "grammar/automaton.h"
#include "grammar/pattern.h"

namespace pagoda::grammar {

struct Rule {
  std::string name;
  PatternPtr body;
  std::string position;  // where it is defined: "line 1, column 1"
};

/// Rules in GBNF, llama.cpp's notation (also with 'single quotes' and with a body over several lines); a body names
/// rules by index. Errors name line and column, in `param` too.
/// Source: llama.cpp, grammars/README.md.
Result<std::vector<Rule>> parse_gbnf(std::string_view text);

/// The automaton of rules[root]; a regular expression is one rule that calls none. Refuses rules that can call
/// themselves without reading a byte first (left recursion) and grammars that match nothing, with the rule's position.
Result<std::unique_ptr<Automaton>> compile_rules(const std::vector<Rule>& rules, int32_t root, const Limits& limits);

}  // namespace pagoda::grammar
