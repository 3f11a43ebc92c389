#include "jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "jinja/string_literal.h"
#include "jinja/utf8.h"

namespace pagoda::jinja {

Error syntax_error(int32_t line, std::string message) {
  return Error{Code::kInvalidRequest, fmt::format("line {}: {}", line, message)};
}

namespace {

enum class Tag : uint8_t { kNone, kRaw, kVariable, kBlock, kComment, kLineStatement, kLineComment };

struct Opening {
  Tag tag = Tag::kNone;
  size_t begin = 0;  // where the tag starts
  size_t end = 0;    // behind it and its sign
  char sign = 0;     // '-' or '+' or 0
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string normalized(std::string_view source, bool keep_trailing_newline) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!keep_trailing_newline && out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string source, const Environment& environment) : source_(std::move(source)), env_(environment) {
    rules_ = {
        {env_.comment_start, Tag::kComment}, {env_.block_start, Tag::kBlock}, {env_.variable_start, Tag::kVariable}};
    if (!env_.line_statement_prefix.empty()) rules_.emplace_back(env_.line_statement_prefix, Tag::kLineStatement);
    if (!env_.line_comment_prefix.empty()) rules_.emplace_back(env_.line_comment_prefix, Tag::kLineComment);
    // Jinja's order: longer delimiters win, then the later name of variable, linestatement, linecomment, comment,
    // block.
    constexpr int kRank[] = {0, 9, 5, 1, 2, 4, 3};
    std::sort(rules_.begin(), rules_.end(), [&kRank](const auto& a, const auto& b) {
      return std::pair(a.first.size(), kRank[static_cast<size_t>(a.second)]) >
             std::pair(b.first.size(), kRank[static_cast<size_t>(b.second)]);
    });
  }

  Result<std::vector<Token>> run() {
    while (pos_ < source_.size()) PAGODA_TRY_STATUS(root());
    emit(TokenType::kEof, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest(size_t at) const { return std::string_view(source_).substr(at); }
  bool at(size_t pos, std::string_view text) const { return !text.empty() && rest(pos).starts_with(text); }
  void emit(TokenType type, std::string text) { tokens_.push_back({type, line_, std::move(text)}); }
  void count_lines(size_t begin, size_t end) {
    line_ += static_cast<int32_t>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(begin),
                                             source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
  }
  void advance(size_t end) {
    count_lines(pos_, end);
    line_starting_ = end > pos_ && source_[end - 1] == '\n';
    pos_ = end;
  }
  size_t skip_space(size_t pos) const {
    while (pos < source_.size() && utf8::is_space(utf8::decode(source_, pos))) pos += utf8::char_bytes(source_, pos);
    return pos;
  }

  void emit_data(std::string_view text) {
    if (text.empty()) return;
    std::string out;
    for (const char c : text) c == '\n' ? out += env_.newline_sequence : out += c;
    emit(TokenType::kData, std::move(out));
  }

  // Does a tag start exactly here? A line tag starts with the blanks before it.
  Opening opening_at(size_t pos) const {
    Opening raw = raw_at(pos);
    if (raw.tag != Tag::kNone) return raw;
    for (const auto& [start, tag] : rules_) {
      size_t begin = pos;
      if (tag == Tag::kLineStatement || tag == Tag::kLineComment) {
        const bool line_start = pos == 0 || source_[pos - 1] == '\n';
        const bool after_text =
            tag == Tag::kLineComment && pos > 0 && !utf8::is_space(static_cast<unsigned char>(source_[pos - 1]));
        if (!line_start && !after_text) continue;
        while (begin < source_.size() && (source_[begin] == ' ' || source_[begin] == '\t' || source_[begin] == '\v'))
          ++begin;
      }
      if (!at(begin, start)) continue;
      Opening found{tag, pos, begin + start.size(), 0};
      if (found.end < source_.size() && (source_[found.end] == '-' || source_[found.end] == '+'))
        found.sign = source_[found.end++];
      return found;
    }
    return {};
  }

  Opening raw_at(size_t pos) const {
    if (!at(pos, env_.block_start)) return {};
    Opening found{Tag::kRaw, pos, pos + env_.block_start.size(), 0};
    if (found.end < source_.size() && (source_[found.end] == '-' || source_[found.end] == '+'))
      found.sign = source_[found.end++];
    found.end = skip_space(found.end);
    if (!at(found.end, "raw")) return {};
    found.end = skip_space(found.end + 3);
    if (at(found.end, "-" + env_.block_end)) {
      found.end = skip_space(found.end + 1 + env_.block_end.size());
      return found;
    }
    if (!at(found.end, env_.block_end)) return {};
    found.end += env_.block_end.size();
    return found;
  }

  // What is left of the text before a tag after its sign or lstrip_blocks took the blanks.
  std::string_view before_tag(std::string_view text, char sign, bool variable) const {
    if (sign == '-') {
      while (!text.empty()) {
        size_t last = text.size() - 1;
        while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
        if (!utf8::is_space(utf8::decode(text, last))) break;
        text = text.substr(0, last);
      }
    } else if (sign != '+' && env_.lstrip_blocks && !variable) {
      const size_t line = text.rfind('\n') + 1;  // npos + 1 == 0
      if ((line > 0 || line_starting_) && skip_space_in(text, line) == text.size()) return text.substr(0, line);
    }
    return text;
  }
  static size_t skip_space_in(std::string_view text, size_t pos) {
    while (pos < text.size() && utf8::is_space(utf8::decode(text, pos))) pos += utf8::char_bytes(text, pos);
    return pos;
  }

  Status root() {
    Opening tag;
    size_t begin = pos_;
    for (; begin < source_.size() && tag.tag == Tag::kNone; ++begin) tag = opening_at(begin);
    if (tag.tag == Tag::kNone) {
      emit_data(rest(pos_));
      advance(source_.size());
      return ok_status();
    }
    emit_data(before_tag(rest(pos_).substr(0, tag.begin - pos_), tag.sign, tag.tag == Tag::kVariable));
    advance(tag.end);
    switch (tag.tag) {
      case Tag::kRaw:
        return raw();
      case Tag::kComment:
        return comment();
      case Tag::kLineComment:
        advance(std::min(source_.find('\n', pos_), source_.size()));
        return ok_status();
      case Tag::kVariable:
        emit(TokenType::kVariableBegin, "");
        return code(Tag::kVariable);
      default:
        emit(TokenType::kBlockBegin, "");
        return code(tag.tag);
    }
  }

  // The end of a tag's last delimiter at `pos`, its sign and trimmed white space included; 0 if it is not there.
  size_t closing(size_t pos, const std::string& end, bool plus, bool trim) const {
    if (at(pos, "-" + end)) return skip_space(pos + 1 + end.size());
    if (plus && at(pos, "+" + end)) return pos + 1 + end.size();
    if (!at(pos, end)) return 0;
    pos += end.size();
    return trim && env_.trim_blocks && pos < source_.size() && source_[pos] == '\n' ? pos + 1 : pos;
  }

  Status comment() {
    for (size_t pos = pos_; pos < source_.size(); ++pos) {
      const size_t end = closing(pos, env_.comment_end, true, true);
      if (end == 0) continue;
      advance(end);
      return ok_status();
    }
    if (pos_ >= source_.size()) return ok_status();
    return syntax_error(line_, "Missing end of comment tag");
  }

  Status raw() {
    for (size_t pos = pos_; pos < source_.size(); ++pos) {
      if (!at(pos, env_.block_start)) continue;
      size_t name = pos + env_.block_start.size();
      char sign = 0;
      if (name < source_.size() && (source_[name] == '-' || source_[name] == '+')) sign = source_[name++];
      name = skip_space(name);
      if (!at(name, "endraw")) continue;
      const size_t end = closing(skip_space(name + 6), env_.block_end, true, true);
      if (end == 0) continue;
      emit_data(before_tag(rest(pos_).substr(0, pos - pos_), sign, false));
      advance(end);
      return ok_status();
    }
    if (pos_ >= source_.size()) return ok_status();
    return syntax_error(line_, "Missing end of raw directive");
  }

  // A line statement ends with its line.
  bool close_line() {
    size_t pos = pos_;
    while (pos < source_.size() && source_[pos] != '\n' && utf8::is_space(utf8::decode(source_, pos)))
      pos += utf8::char_bytes(source_, pos);
    if (pos < source_.size() && source_[pos] != '\n') return false;
    // The white space that ends the line may span several: up to the last newline of the run.
    const size_t run = skip_space(pos_);
    const size_t last = run == source_.size() ? run : source_.rfind('\n', run) + 1;
    emit(TokenType::kBlockEnd, "");
    advance(std::max(last, pos));
    return true;
  }

  Status code(Tag tag) {
    std::string open_brackets;
    while (pos_ < source_.size()) {
      if (open_brackets.empty()) {
        if (tag == Tag::kLineStatement && close_line()) return ok_status();
        const size_t end = tag == Tag::kVariable        ? closing(pos_, env_.variable_end, false, false)
                           : tag == Tag::kLineStatement ? 0
                                                        : closing(pos_, env_.block_end, true, true);
        if (end != 0) {
          emit(tag == Tag::kVariable ? TokenType::kVariableEnd : TokenType::kBlockEnd, "");
          advance(end);
          return ok_status();
        }
      }
      PAGODA_TRY_STATUS(code_token(open_brackets));
    }
    if (tag == Tag::kLineStatement) emit(TokenType::kBlockEnd, "");
    return ok_status();
  }

  Status code_token(std::string& open_brackets) {
    const char c = source_[pos_];
    if (utf8::is_space(utf8::decode(source_, pos_))) {
      advance(skip_space(pos_));
      return ok_status();
    }
    if (is_digit(c)) return number();
    const char32_t letter = utf8::decode(source_, pos_);
    if (letter == '_' || utf8::is_alnum(letter) ||
        (letter >= 0x80 && utf8::is_identifier("a" + source_.substr(pos_, utf8::char_bytes(source_, pos_)))))
      return name();
    if (c == '\'' || c == '"') return string(c);
    return operator_token(open_brackets);
  }

  Status name() {
    size_t end = pos_;
    while (end < source_.size()) {
      const char32_t c = utf8::decode(source_, end);
      const std::string one = source_.substr(end, utf8::char_bytes(source_, end));
      if (c != '_' && !utf8::is_alnum(c) && !(c >= 0x80 && utf8::is_identifier("a" + one))) break;
      end += one.size();
    }
    const std::string text = source_.substr(pos_, end - pos_);
    if (!utf8::is_identifier(text)) return syntax_error(line_, "Invalid character in identifier");
    emit(TokenType::kName, text);
    advance(end);
    return ok_status();
  }

  size_t digits(size_t pos, int base) const {
    const auto is = [&](size_t i) {
      if (i >= source_.size()) return false;
      const char c = static_cast<char>(source_[i] | 32);
      return base == 16 ? is_digit(source_[i]) || (c >= 'a' && c <= 'f')
                        : is_digit(source_[i]) && source_[i] - '0' < base;
    };
    while (is(pos) || (pos < source_.size() && source_[pos] == '_' && is(pos + 1))) ++pos;
    return pos;
  }

  Status number() {
    size_t end = pos_;
    bool real = false;
    const bool after_dot = pos_ > 0 && source_[pos_ - 1] == '.';
    const char letter =
        pos_ + 1 < source_.size() && source_[pos_] == '0' ? static_cast<char>(source_[pos_ + 1] | 32) : 0;
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    if (base != 10 && digits(pos_ + 2, base) > pos_ + 2) {
      end = digits(pos_ + 2, base);
    } else {
      end = digits(pos_, 10);
      if (!after_dot && end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
        end = digits(end + 1, 10);
        real = true;
      }
      if (!after_dot && end < source_.size() && (source_[end] | 32) == 'e') {
        const size_t sign = end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
        if (end + 1 + sign < source_.size() && is_digit(source_[end + 1 + sign])) {
          end = digits(end + 1 + sign, 10);
          real = true;
        }
      }
      // An integer that starts with 0 is only zeros: "007" is 00 and 7.
      if (!real && source_[pos_] == '0')
        for (end = pos_ + 1; end < source_.size() && (source_[end] == '0' || (source_[end] == '_' && at(end + 1, "0")));
             ++end) {
        }
    }
    std::string text = source_.substr(pos_, end - pos_);
    std::erase(text, '_');
    emit(real ? TokenType::kFloat : TokenType::kInteger, std::move(text));
    advance(end);
    return ok_status();
  }

  Status string(char quote) {
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size())
      return syntax_error(line_, fmt::format("unexpected char {} at {}", quote == '"' ? "'\"'" : "\"'\"", pos_));
    std::string text;
    for (const char c : rest(pos_ + 1).substr(0, end - pos_ - 1)) c == '\n' ? text += env_.newline_sequence : text += c;
    Result<std::string> value = unescape_literal(text);
    if (!value.ok()) return syntax_error(line_, value.error().message);
    emit(TokenType::kString, std::move(value).take());
    advance(end + 1);
    return ok_status();
  }

  Status operator_token(std::string& open_brackets) {
    for (const std::string_view two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (!at(pos_, two)) continue;
      emit(TokenType::kOperator, std::string(two));
      advance(pos_ + 2);
      return ok_status();
    }
    const char c = source_[pos_];
    if (c == 0 || std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos)
      return syntax_error(line_, fmt::format("unexpected char '{}' at {}",
                                             source_.substr(pos_, utf8::char_bytes(source_, pos_)), pos_));
    if (c == '(' || c == '[' || c == '{') open_brackets.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (open_brackets.empty()) return syntax_error(line_, fmt::format("unexpected '{}'", c));
      if (open_brackets.back() != c)
        return syntax_error(line_, fmt::format("unexpected '{}', expected '{}'", c, open_brackets.back()));
      open_brackets.pop_back();
    }
    emit(TokenType::kOperator, std::string(1, c));
    advance(pos_ + 1);
    return ok_status();
  }

  const std::string source_;
  const Environment& env_;
  std::vector<std::pair<std::string, Tag>> rules_;
  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int32_t line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source, const Environment& environment) {
  constexpr size_t kSourceBytesMax = 4 << 20;
  if (source.size() > kSourceBytesMax)
    return Error{Code::kInvalidRequest,
                 fmt::format("a template of {} bytes, limit {}", source.size(), kSourceBytesMax)};
  if (!utf8::valid(source)) return Error{Code::kInvalidRequest, "the template is not valid UTF-8"};
  return Lexer(normalized(source, environment.keep_trailing_newline), environment).run();
}

}  // namespace pagoda::jinja
