#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace pagoda::grammar {

/// Code points first..last, both inside.
struct CodeRange {
  uint32_t first;
  uint32_t last;
};
/// Sorted, disjoint, not touching, without surrogates once normalized() saw it.
using CodeSet = std::vector<CodeRange>;

inline constexpr uint32_t kCodeMax = 0x10FFFF;

CodeSet normalized(CodeSet set);
CodeSet complement(const CodeSet& normalized_set);

struct Pattern;
using PatternPtr = std::shared_ptr<const Pattern>;

/// What regular expressions and grammar rules are made of.
struct Pattern {
  enum class Kind : uint8_t {
    kClass,     // one code point of `set`; an empty set matches nothing
    kCat,       // all `parts`, one after the other; no parts = the empty text
    kAlt,       // one of `parts`
    kRepeat,    // parts[0], min..max times
    kCall,      // the rule with this index (grammars)
    kBegin,     // ^ (regular expressions)
    kEnd,       // $
    kAhead,     // (?=parts[0])
    kNotAhead,  // (?!parts[0])
  };
  static constexpr int32_t kUnlimited = -1;

  Kind kind = Kind::kCat;
  CodeSet set{};
  std::vector<PatternPtr> parts{};
  int32_t min = 0;
  int32_t max = kUnlimited;
  int32_t rule = -1;
};

PatternPtr make_class(CodeSet set);
PatternPtr make_cat(std::vector<PatternPtr> parts);
PatternPtr make_alt(std::vector<PatternPtr> parts);
PatternPtr make_repeat(PatternPtr part, int32_t min, int32_t max);
PatternPtr make_call(int32_t rule);
PatternPtr make_assert(Pattern::Kind kind, std::vector<PatternPtr> parts = {});
/// The characters of valid UTF-8.
PatternPtr make_literal(std::string_view utf8);

/// A regular expression in the syntax of ECMA-262 with the flag u. Errors: kInvalidRequest for what is no regular
/// expression, kUnsupported for what an automaton cannot do (back references, look-behind, \b); `param` is
/// "offset N", in bytes.
Result<PatternPtr> parse_regex(std::string_view text);

/// The same for a text that must match as a whole: outer anchors are redundant, inner ones and look-ahead refused.
Result<PatternPtr> parse_whole_regex(std::string_view text);

}  // namespace pagoda::grammar
