#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/utf8.h"
#include "grammar/rules.h"

namespace pagoda::grammar {
namespace {

constexpr int32_t kNestingMax = 200;
constexpr int32_t kCountMax = 100'000;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) {}

  Result<std::vector<Rule>> parse() {
    if (const size_t bad = find_invalid_utf8(text_); bad != std::string_view::npos)
      return fail("the grammar is no UTF-8", bad);
    skip_blank();
    while (at_ < text_.size()) PAGODA_TRY_STATUS(rule());
    for (const Rule& known : rules_)
      if (!known.body) return fail("no rule has the name " + known.name, first_use_[known.name]);
    return std::move(rules_);
  }

 private:
  std::string position(size_t offset) const {
    const std::string_view before = text_.substr(0, offset);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t line_start = before.rfind('\n');
    const int64_t column =
        count_code_points(line_start == std::string_view::npos ? before : before.substr(line_start + 1));
    return fmt::format("line {}, column {}", line, column + 1);
  }
  Error fail(std::string_view what, size_t offset, Code code = Code::kInvalidRequest) const {
    const std::string where = position(offset);
    return Error{code, fmt::format("grammar: {} at {}", what, where), where};
  }
  Error fail(std::string_view what) const { return fail(what, at_); }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool eat(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void skip_blank() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
        ++at_;
      else
        return;
    }
  }
  std::string_view name() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  bool rule_begins() {
    const size_t before = at_;
    const bool named = !name().empty();
    skip_blank();
    const bool begins = named && text_.substr(at_).starts_with("::=");
    at_ = before;
    return begins;
  }
  int32_t index_of(std::string_view name, size_t used_at) {
    const auto [known, fresh] = index_.try_emplace(std::string(name), static_cast<int32_t>(rules_.size()));
    if (fresh) {
      rules_.push_back({std::string(name), nullptr, ""});
      first_use_[std::string(name)] = used_at;
    }
    return known->second;
  }

  Status rule() {
    const size_t begin = at_;
    const std::string_view rule_name = name();
    if (rule_name.empty()) return fail("a rule's name is missing");
    skip_blank();
    if (!eat("::=")) return fail("::= is missing");
    const auto index = static_cast<size_t>(index_of(rule_name, begin));
    if (rules_[index].body) return fail(fmt::format("a second rule {}", rule_name), begin);
    skip_blank();
    PAGODA_TRY(PatternPtr body, alternatives(0));
    rules_[index].body = std::move(body);
    rules_[index].position = position(begin);
    return ok_status();
  }

  Result<PatternPtr> alternatives(int32_t depth) {
    if (depth > kNestingMax) return fail("groups are nested too deeply", at_, Code::kTooLarge);
    std::vector<PatternPtr> parts;
    while (true) {
      PAGODA_TRY(PatternPtr part, sequence(depth));
      parts.push_back(std::move(part));
      if (!eat("|")) return make_alt(std::move(parts));
      skip_blank();
    }
  }

  Result<PatternPtr> sequence(int32_t depth) {
    std::vector<PatternPtr> parts;
    while (at_ < text_.size() && peek() != '|' && peek() != ')' && !rule_begins()) {
      PAGODA_TRY(PatternPtr part, item(depth));
      skip_blank();
      PAGODA_TRY(part, quantified(std::move(part)));
      parts.push_back(std::move(part));
    }
    if (depth == 0 && peek() == ')') return fail("unmatched )");
    return make_cat(std::move(parts));
  }

  Result<PatternPtr> item(int32_t depth) {
    const size_t begin = at_;
    const char c = peek();
    if (c == '"' || c == '\'') return literal();
    if (c == '[') return bracket();
    if (c == '.') return ++at_, make_class({{0, kCodeMax}});
    if (c == '(') {
      ++at_;
      skip_blank();
      PAGODA_TRY(PatternPtr inner, alternatives(depth + 1));
      if (!eat(")")) return fail("a group that begins here has no end", begin);
      return inner;
    }
    if (is_name(c)) return make_call(index_of(name(), begin));
    if (c == '*' || c == '+' || c == '?' || c == '{') return fail("nothing to repeat");
    return fail("unexpected character");
  }

  Result<PatternPtr> quantified(PatternPtr part) {
    while (true) {
      int32_t min = 0, max = Pattern::kUnlimited;
      if (eat("*")) {
      } else if (eat("+")) {
        min = 1;
      } else if (eat("?")) {
        max = 1;
      } else if (peek() == '{') {
        PAGODA_TRY_STATUS(counts(min, max));
      } else {
        return part;
      }
      part = make_repeat(std::move(part), min, max);
      skip_blank();
    }
  }

  Status counts(int32_t& min, int32_t& max) {
    const size_t begin = at_++;
    int32_t low = -1, high = -1;
    PAGODA_TRY_STATUS(number(low));
    skip_blank();
    if (eat(",")) {
      skip_blank();
      PAGODA_TRY_STATUS(number(high));
      if (low < 0) low = 0;
    } else {
      high = low;
    }
    skip_blank();
    if (low < 0 || !eat("}")) return fail("a count must be {n}, {n,} or {n,m}", begin);
    if (high >= 0 && high < low) return fail("counts out of order", begin);
    min = low;
    max = high >= 0 ? high : Pattern::kUnlimited;
    return ok_status();
  }

  Status number(int32_t& value) {
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = std::max(value, 0) * 10 + (peek() - '0');
      if (value > kCountMax) return fail("count too large", at_, Code::kTooLarge);
    }
    return ok_status();
  }

  Result<PatternPtr> literal() {
    const size_t begin = at_;
    const char quote = text_[at_++];
    std::vector<PatternPtr> parts;
    while (peek() != quote) {
      if (at_ >= text_.size()) return fail("a literal that begins here has no end", begin);
      PAGODA_TRY(const uint32_t code, character());
      parts.push_back(make_class({{code, code}}));
    }
    ++at_;
    return make_cat(std::move(parts));
  }

  Result<PatternPtr> bracket() {
    const size_t begin = at_++;
    const bool negated = eat("^");
    CodeSet set;
    while (peek() != ']' || at_ >= text_.size()) {
      if (at_ >= text_.size()) return fail("a class that begins here has no end", begin);
      const size_t member = at_;
      PAGODA_TRY(const uint32_t low, character());
      uint32_t high = low;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        PAGODA_TRY(high, character());
      }
      if (high < low) return fail("range out of order", member);
      set.push_back({low, high});
    }
    ++at_;
    return make_class(negated ? complement(normalized(std::move(set))) : std::move(set));
  }

  Result<uint32_t> character() {
    if (!eat("\\")) {
      if (at_ >= text_.size()) return fail("unexpected end");
      const Utf8Step step = utf8_step(text_, at_);
      at_ += static_cast<size_t>(step.bytes);
      return step.code_point;
    }
    if (at_ >= text_.size()) return fail("a lone \\ at the end");
    const char c = text_[at_];
    switch (c) {
      case 'n':
        return ++at_, uint32_t{'\n'};
      case 'r':
        return ++at_, uint32_t{'\r'};
      case 't':
        return ++at_, uint32_t{'\t'};
      case 'x':
        return ++at_, hex(2);
      case 'u':
        return ++at_, hex(4);
      case 'U':
        return ++at_, hex(8);
      default:
        break;
    }
    if (is_name(c) && c != '-' && c != '_') return fail("unknown escape");
    const Utf8Step step = utf8_step(text_, at_);
    at_ += static_cast<size_t>(step.bytes);
    return step.code_point;
  }

  Result<uint32_t> hex(int32_t digits) {
    uint32_t code = 0;
    for (int32_t i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const int32_t digit = c >= '0' && c <= '9'   ? c - '0'
                            : c >= 'a' && c <= 'f' ? c - 'a' + 10
                            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                   : -1;
      if (digit < 0) return fail("hexadecimal digits are missing");
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    if (code > kCodeMax) return fail("beyond U+10FFFF");
    return code;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<Rule> rules_;
  std::map<std::string, int32_t, std::less<>> index_;
  std::map<std::string, size_t, std::less<>> first_use_;
};

}  // namespace

Result<std::vector<Rule>> parse_gbnf(std::string_view text) { return GbnfParser(text).parse(); }

}  // namespace pagoda::grammar
