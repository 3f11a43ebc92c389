// Patterns that cover every character: the GPT-2 family, the cl100k family (llama-3, qwen2 ...) and the o200k family.
#include "text/char_scan.h"
#include "text/pre_tokenizer.h"

namespace pagoda::text {
namespace {

// End of `'s 't 're 've 'm 'll 'd` at `at`, or `at`. With any_case as `(?i:...)`: U+017F folds to s.
size_t contraction(std::string_view text, size_t at, bool any_case) {
  if (at + 1 >= text.size() || text[at] != '\'') return at;
  const auto letter = [&](size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  switch (letter(at + 1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return at + 2;
    case 'r':
    case 'v':
      return letter(at + 2) == 'e' ? at + 3 : at;
    case 'l':
      return letter(at + 2) == 'l' ? at + 3 : at;
    default:
      break;
  }
  return any_case && text.substr(at + 1).starts_with("\u017F") ? at + 3 : at;
}

// Where families of the cl100k pattern differ:
//   (?i:'s|...)|[^\r\n\p{L}\p{N}]?WORD+|\p{N}{1,digits_max}| ?[^\s\p{N}WORD]+TAIL*|\s*[\r\n]+|\s+(?!\S)|\s+
struct WordRules {
  int word;  // WORD: the classes that make a word
  int digits_max;
  bool lines_behind_signs;  // TAIL: [\r\n], else nothing and [\r\n] is no sign either
};

size_t number(std::string_view text, size_t at, int digits_max) {
  for (int n = 0; n < digits_max; ++n) {
    const ScannedChar c = scan_char(text, at);
    if (!c.is(kNumber)) break;
    at += c.bytes;
  }
  return at;
}

// ` ?[^\s...]+` then line breaks (and `/`, if `slash`); `at` if no such run starts here.
size_t signs(std::string_view text, size_t at, int not_signs, bool lines, bool slash) {
  const size_t begin = at + (text[at] == ' ' ? 1 : 0);
  size_t end = skip_outside(text, begin, not_signs);
  if (end == begin) return at;
  while (lines && end < text.size() && (text[end] == '\r' || text[end] == '\n' || (slash && text[end] == '/'))) ++end;
  return end;
}

size_t split_cl100k(std::string_view text, size_t at, const WordRules& rules) {
  if (const size_t end = contraction(text, at, true); end > at) return end;
  const ScannedChar first = scan_char(text, at);
  if (first.is(rules.word)) return skip_class(text, at + first.bytes, rules.word);
  if (first.is(kNumber)) return number(text, at, rules.digits_max);
  if (!first.is(kLineBreak) && scan_char(text, at + first.bytes).is(rules.word))
    return skip_class(text, at + first.bytes, rules.word);
  const int not_signs = kWhiteSpace | kNumber | kLetter | rules.word;
  if (const size_t end = signs(text, at, not_signs, rules.lines_behind_signs, false); end > at) return end;
  return split_lines_and_space(text, at);
}

// Where families of the o200k pattern differ:
//   PREFIX?UPPER*LOWER+SUFFIX?|PREFIX?UPPER+LOWER*SUFFIX?|\p{N}{1,digits_max}| ?[^\s\p{L}\p{N}]+[\r\n/]*|...
// with PREFIX [^\r\n\p{L}\p{N}], UPPER [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], LOWER [\p{Ll}\p{Lm}\p{Lo}\p{M}].
struct CasedRules {
  int digits_max;
  bool contractions;  // SUFFIX (?i:'s|...)
  bool slash;         // `/` follows signs as line breaks do
  bool han_apart;     // \p{Han}+ first, and no Han in UPPER and LOWER
};

// UPPER*LOWER+ or else UPPER+LOWER* from `at`; `at` if there is none. The regex's backtracking in two passes at most:
// UPPER* takes all it can; if no LOWER follows, it gives back down to the last character that is both. `lower` says
// whether the first of the two matched.
size_t cased_word(std::string_view text, size_t at, const CasedRules& rules, bool& lower) {
  const auto in = [&](const ScannedChar& c, int classes) { return c.is(classes) && !(rules.han_apart && c.is(kHan)); };
  constexpr int kBoth = kOtherLetter | kMark;
  size_t end = at, behind_last_both = at;
  ScannedChar c = scan_char(text, end);
  for (; in(c, kUppercase | kBoth); c = scan_char(text, end)) {
    end += c.bytes;
    if (c.is(kBoth)) behind_last_both = end;
  }
  lower = in(c, kLowercase) || behind_last_both > at;
  if (in(c, kLowercase))
    return skip_run(text, end, [&](const ScannedChar& next) { return in(next, kLowercase | kBoth); });
  return behind_last_both > at ? behind_last_both : end;
}

size_t split_o200k(std::string_view text, size_t at, const CasedRules& rules) {
  const ScannedChar first = scan_char(text, at);
  if (rules.han_apart && first.is(kHan)) return skip_class(text, at, kHan);
  size_t end = at;
  bool lower = false;
  if (!first.is(kLineBreak | kLetter | kNumber)) {  // the prefix, given back if no word follows it
    end = cased_word(text, at + first.bytes, rules, lower);
    // A mark is prefix or word: as a word it makes UPPER*LOWER+ match, which comes before UPPER+LOWER* behind a prefix.
    if (end == at + first.bytes || (!lower && first.is(kMark))) end = at;
  }
  if (end == at) end = cased_word(text, at, rules, lower);
  if (end > at) return rules.contractions ? contraction(text, end, true) : end;
  if (first.is(kNumber)) return number(text, at, rules.digits_max);
  if (end = signs(text, at, kWhiteSpace | kLetter | kNumber, true, rules.slash); end > at) return end;
  return split_lines_and_space(text, at);
}

}  // namespace

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t split_gpt2(std::string_view text, size_t at) {
  if (const size_t end = contraction(text, at, false); end > at) return end;
  ScannedChar c = scan_char(text, at);
  size_t begin = at;
  if (c.code == ' ') {
    const ScannedChar next = scan_char(text, at + 1);
    if (next.exists_outside(kWhiteSpace)) {
      begin = at + 1;
      c = next;
    }
  }
  if (c.is(kLetter)) return skip_class(text, begin, kLetter);
  if (c.is(kNumber)) return skip_class(text, begin, kNumber);
  if (c.is(kWhiteSpace)) return split_white_space(text, at);
  return skip_outside(text, begin, kWhiteSpace | kLetter | kNumber);
}

size_t split_llama3(std::string_view text, size_t at) { return split_cl100k(text, at, {kLetter, 3, true}); }
size_t split_qwen2(std::string_view text, size_t at) { return split_cl100k(text, at, {kLetter, 1, true}); }
size_t split_qwen35(std::string_view text, size_t at) { return split_cl100k(text, at, {kLetter | kMark, 1, true}); }
size_t split_seed_coder(std::string_view text, size_t at) { return split_cl100k(text, at, {kLetter, 1, false}); }
size_t split_gpt4o(std::string_view text, size_t at) { return split_o200k(text, at, {3, true, true, false}); }
size_t split_tekken(std::string_view text, size_t at) { return split_o200k(text, at, {1, false, true, false}); }
size_t split_kimi_k2(std::string_view text, size_t at) { return split_o200k(text, at, {3, true, false, true}); }

}  // namespace pagoda::text
