#include <fmt/format.h>

#include <algorithm>

#include "core/utf8.h"
#include "grammar/general_category.h"
#include "grammar/pattern.h"

namespace pagoda::grammar {
namespace {

constexpr int32_t kRegexNestingMax = 200;
constexpr int32_t kRegexCountMax = 1'000'000;  // what NFA can hold is checked where it is built

const CodeSet kDigits = {{'0', '9'}};
const CodeSet kWords = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CodeSet kSpaces = {{0x9, 0xD},       {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                         {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CodeSet kLineEnds = {{0xA, 0xA}, {0xD, 0xD}, {0x2028, 0x2029}};

class RegexParser {
 public:
  explicit RegexParser(std::string_view text) : text_(text) {}

  Result<PatternPtr> parse() {
    if (const size_t bad = find_invalid_utf8(text_); bad != std::string_view::npos) {
      at_ = bad;
      return fail("the expression is no UTF-8");
    }
    PAGODA_TRY(PatternPtr whole, alternatives(0));
    if (at_ < text_.size()) return fail("unmatched )");
    return whole;
  }

 private:
  bool done() const { return at_ >= text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  bool eat(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  Error fail(std::string_view what, Code code = Code::kInvalidRequest) const {
    return Error{code, fmt::format("regular expression: {} at offset {}", what, at_), fmt::format("offset {}", at_)};
  }
  uint32_t take_code() {
    const Utf8Step step = utf8_step(text_, at_);
    at_ += static_cast<size_t>(step.bytes);
    return step.code_point;
  }

  Result<PatternPtr> alternatives(int32_t depth) {
    if (depth > kRegexNestingMax) return fail("groups are nested too deeply", Code::kTooLarge);
    std::vector<PatternPtr> parts;
    do {
      PAGODA_TRY(PatternPtr part, sequence(depth));
      parts.push_back(std::move(part));
    } while (eat("|"));
    return make_alt(std::move(parts));
  }

  Result<PatternPtr> sequence(int32_t depth) {
    std::vector<PatternPtr> parts;
    while (!done() && peek() != '|' && peek() != ')') {
      PAGODA_TRY(PatternPtr part, atom(depth));
      PAGODA_TRY(part, quantified(std::move(part)));
      parts.push_back(std::move(part));
    }
    return make_cat(std::move(parts));
  }

  Result<PatternPtr> quantified(PatternPtr part) {
    int32_t min = 0, max = Pattern::kUnlimited;
    const size_t before = at_;
    if (eat("*")) {
    } else if (eat("+")) {
      min = 1;
    } else if (eat("?")) {
      max = 1;
    } else if (peek() == '{') {
      PAGODA_TRY(const bool is_count, counts(min, max));
      if (!is_count) return part;
    } else {
      return part;
    }
    if (part->kind >= Pattern::Kind::kBegin) {
      at_ = before;
      return fail("nothing to repeat");
    }
    eat("?");  // lazy or not, the same texts match
    if (!done() && (peek() == '*' || peek() == '+' || peek() == '?')) return fail("nothing to repeat");
    return make_repeat(std::move(part), min, max);
  }

  // {2}, {2,}, {2,5} and, as other dialects have it, {,5}; false (nothing taken) where { stands for itself.
  Result<bool> counts(int32_t& min, int32_t& max) {
    const size_t before = at_;
    ++at_;
    int32_t low = -1, high = -1;
    PAGODA_TRY_STATUS(number(low));
    if (eat(",")) {
      PAGODA_TRY_STATUS(number(high));
      if (low < 0 && high >= 0) low = 0;
    } else {
      high = low;
    }
    if (low < 0 || !eat("}")) {
      at_ = before;
      return false;
    }
    if (high >= 0 && high < low) return fail("counts out of order");
    min = low;
    max = high >= 0 ? high : Pattern::kUnlimited;
    return true;
  }

  Status number(int32_t& value) {
    for (; !done() && peek() >= '0' && peek() <= '9'; ++at_) {
      value = std::max(value, 0) * 10 + (peek() - '0');
      if (value > kRegexCountMax) return fail("count too large", Code::kTooLarge);
    }
    return ok_status();
  }

  Result<PatternPtr> atom(int32_t depth) {
    switch (peek()) {
      case '(':
        return group(depth);
      case '[':
        ++at_;
        return bracket();
      case '\\':
        return escape_atom();
      case '.':
        ++at_;
        return make_class(complement(kLineEnds));
      case '^':
        ++at_;
        return make_assert(Pattern::Kind::kBegin);
      case '$':
        ++at_;
        return make_assert(Pattern::Kind::kEnd);
      case '*':
      case '+':
      case '?':
        return fail("nothing to repeat");
      default:
        break;
    }
    const uint32_t code = take_code();
    return make_class({{code, code}});
  }

  Result<PatternPtr> group(int32_t depth) {
    ++at_;
    auto assertion = Pattern::Kind::kCat;
    if (eat("?:")) {
    } else if (eat("?=")) {
      assertion = Pattern::Kind::kAhead;
    } else if (eat("?!")) {
      assertion = Pattern::Kind::kNotAhead;
    } else if (text_.substr(at_).starts_with("?<=") || text_.substr(at_).starts_with("?<!")) {
      return fail("look-behind cannot be used", Code::kUnsupported);
    } else if (eat("?<") || eat("?P<")) {
      const size_t close = text_.find('>', at_);
      if (close == std::string_view::npos || close == at_) return fail("a group's name has no end");
      at_ = close + 1;
    } else if (peek() == '?') {
      return fail("unknown kind of group", Code::kUnsupported);
    }
    PAGODA_TRY(PatternPtr inner, alternatives(depth + 1));
    if (!eat(")")) return fail("a group has no end");
    if (assertion != Pattern::Kind::kCat) return make_assert(assertion, {std::move(inner)});
    return inner;
  }

  Result<PatternPtr> escape_atom() {
    const size_t before = at_;
    ++at_;
    if (done()) return fail("a lone \\ at the end");
    const char c = peek();
    if (c == 'b' || c == 'B') {
      at_ = before;
      return fail("word boundaries cannot be used", Code::kUnsupported);
    }
    if ((c >= '1' && c <= '9') || c == 'k') {
      at_ = before;
      return fail("back references cannot be used", Code::kUnsupported);
    }
    if (c == 'A') return ++at_, make_assert(Pattern::Kind::kBegin);
    if (c == 'Z' || c == 'z') return ++at_, make_assert(Pattern::Kind::kEnd);
    CodeSet set;
    PAGODA_TRY_STATUS(escape(set));
    return make_class(std::move(set));
  }

  // After the backslash: adds what the escape stands for; a single character is one range of one.
  Status escape(CodeSet& set) {
    const char c = peek();
    const auto add = [&set](const CodeSet& more) { set.insert(set.end(), more.begin(), more.end()); };
    const auto one = [&](uint32_t code) { set.push_back({code, code}); };
    ++at_;
    switch (c) {
      case 'd':
        return add(kDigits), ok_status();
      case 'D':
        return add(complement(kDigits)), ok_status();
      case 'w':
        return add(kWords), ok_status();
      case 'W':
        return add(complement(kWords)), ok_status();
      case 's':
        return add(kSpaces), ok_status();
      case 'S':
        return add(complement(kSpaces)), ok_status();
      case 'n':
        return one('\n'), ok_status();
      case 'r':
        return one('\r'), ok_status();
      case 't':
        return one('\t'), ok_status();
      case 'f':
        return one('\f'), ok_status();
      case 'v':
        return one('\v'), ok_status();
      case '0':
        return one(0), ok_status();
      case 'c': {
        const char letter = peek();
        if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'))) return fail("\\c needs a letter");
        ++at_;
        return one(static_cast<uint32_t>(letter) & 31u), ok_status();
      }
      case 'x':
      case 'u':
        return numbered(c, set);
      case 'p':
      case 'P':
        return property(c == 'P', set);
      default:
        break;
    }
    --at_;
    const uint32_t code = take_code();
    if (code < 0x80 && ((code | 32) >= 'a' && (code | 32) <= 'z')) {
      --at_;
      return fail("unknown escape");
    }
    return one(code), ok_status();
  }

  int32_t hex_digit() {
    const char c = peek();
    const int32_t value = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
    if (value >= 0) ++at_;
    return value;
  }

  Result<uint32_t> hex(int32_t digits) {
    uint32_t code = 0;
    for (int32_t i = 0; i < digits; ++i) {
      const int32_t digit = hex_digit();
      if (digit < 0) return fail("hexadecimal digits are missing");
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    return code;
  }

  Status numbered(char kind, CodeSet& set) {
    if (kind == 'u' && eat("{")) {
      uint32_t code = 0;
      while (peek() != '}') {
        PAGODA_TRY(const uint32_t digit, hex(1));
        code = code * 16 + digit;
        if (code > kCodeMax) return fail("beyond U+10FFFF");
      }
      ++at_;
      set.push_back({code, code});
      return ok_status();
    }
    PAGODA_TRY(uint32_t code, hex(kind == 'x' ? 2 : 4));
    if (code >= 0xD800 && code < 0xDC00 && eat("\\u")) {
      PAGODA_TRY(const uint32_t low, hex(4));
      if (low < 0xDC00 || low > 0xDFFF) return fail("half a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    set.push_back({code, code});
    return ok_status();
  }

  Status property(bool negated, CodeSet& set) {
    std::string_view name;
    if (eat("{")) {
      const size_t close = text_.find('}', at_);
      if (close == std::string_view::npos) return fail("a property's name has no end");
      name = text_.substr(at_, close - at_);
      at_ = close + 1;
    } else {
      name = text_.substr(at_, 1);
      ++at_;
    }
    const auto found = general_category(name);
    if (!found.ok()) return fail(found.error().message, Code::kUnsupported);
    const CodeSet codes = negated ? complement(found.value()) : found.value();
    set.insert(set.end(), codes.begin(), codes.end());
    return ok_status();
  }

  Result<PatternPtr> bracket() {
    const bool negated = eat("^");
    CodeSet set;
    while (!eat("]")) {
      if (done()) return fail("a class has no end");
      CodeSet low;
      PAGODA_TRY_STATUS(class_member(low));
      const bool range = peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (range) {
        const size_t dash = at_;
        ++at_;
        CodeSet high;
        PAGODA_TRY_STATUS(class_member(high));
        const auto single = [](const CodeSet& s) { return s.size() == 1 && s[0].first == s[0].last; };
        if (single(low) && single(high)) {
          if (low[0].first > high[0].first) {
            at_ = dash;
            return fail("range out of order");
          }
          low[0].last = high[0].first;
        } else {  // [\w-x]: the dash stands for itself
          low.push_back({'-', '-'});
          low.insert(low.end(), high.begin(), high.end());
        }
      }
      set.insert(set.end(), low.begin(), low.end());
    }
    if (negated) return make_class(complement(normalized(std::move(set))));
    return make_class(std::move(set));
  }

  Status class_member(CodeSet& set) {
    if (done()) return fail("a class has no end");
    if (eat("\\")) {
      if (done()) return fail("a lone \\ at the end");
      if (peek() == 'b') return ++at_, set.push_back({8, 8}), ok_status();
      if (peek() == '-') return ++at_, set.push_back({'-', '-'}), ok_status();
      return escape(set);
    }
    const uint32_t code = take_code();
    set.push_back({code, code});
    return ok_status();
  }

  std::string_view text_;
  size_t at_ = 0;
};

bool has_assertion(const Pattern& pattern) {
  if (pattern.kind >= Pattern::Kind::kBegin) return true;
  return std::any_of(pattern.parts.begin(), pattern.parts.end(), [](const PatternPtr& p) { return has_assertion(*p); });
}

// Outer anchors away, in every alternative.
PatternPtr without_outer_anchors(const PatternPtr& pattern) {
  if (pattern->kind == Pattern::Kind::kBegin || pattern->kind == Pattern::Kind::kEnd) return make_cat({});
  std::vector<PatternPtr> parts = pattern->parts;
  if (pattern->kind == Pattern::Kind::kAlt) {
    for (PatternPtr& part : parts) part = without_outer_anchors(part);
    return make_alt(std::move(parts));
  }
  if (pattern->kind != Pattern::Kind::kCat) return pattern;
  while (!parts.empty() && parts.front()->kind == Pattern::Kind::kBegin) parts.erase(parts.begin());
  while (!parts.empty() && parts.back()->kind == Pattern::Kind::kEnd) parts.pop_back();
  return make_cat(std::move(parts));
}

}  // namespace

Result<PatternPtr> parse_regex(std::string_view text) { return RegexParser(text).parse(); }

Result<PatternPtr> parse_whole_regex(std::string_view text) {
  PAGODA_TRY(PatternPtr pattern, parse_regex(text));
  pattern = without_outer_anchors(pattern);
  if (has_assertion(*pattern))
    return Error{Code::kUnsupported, "regular expression: anchors inside and look-ahead cannot be used", "offset 0"};
  return pattern;
}

}  // namespace pagoda::grammar
