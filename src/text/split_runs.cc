// Patterns that match some characters and leave the rest as pieces between the matches.
#include <algorithm>
#include <iterator>

#include "text/char_scan.h"
#include "text/pre_tokenizer.h"

namespace pagoda::text {
namespace {

// The piece at `at` under a pattern: its match, or all characters up to the next place where it matches.
// match(text, at) returns the match's end, or `at` for none.
template <class Match>
size_t match_or_gap(std::string_view text, size_t at, Match match) {
  const size_t end = match(text, at);
  if (end > at) return end;
  do {
    at += scan_char(text, at).bytes;
  } while (at < text.size() && match(text, at) == at);
  return at;
}

// Matches of X+ and what lies between them.
template <class Accept>
size_t run_or_gap(std::string_view text, size_t at, Accept accept) {
  const bool matching = accept(scan_char(text, at));
  return skip_run(text, at, [&](const ScannedChar& c) { return accept(c) == matching; });
}

// Matches of \s?X+ and what lies between them.
template <class Accept>
size_t spaced_run_or_gap(std::string_view text, size_t at, Accept accept) {
  const ScannedChar first = scan_char(text, at);
  const size_t begin = first.is(kWhiteSpace) && !accept(first) ? at + first.bytes : at;
  if (const size_t end = skip_run(text, begin, accept); end > begin) return end;
  for (ScannedChar c = first; c.exists();
       c = scan_char(text, at)) {  // the gap ends before X or a blank with X behind it
    if (accept(c) || (c.is(kWhiteSpace) && accept(scan_char(text, at + c.bytes)))) break;
    at += c.bytes;
  }
  return at;
}

constexpr bool between(uint32_t code, uint32_t low, uint32_t high) { return code >= low && code <= high; }

bool is_deepseek_letter(const ScannedChar& c) {
  // The cased letters DeepSeek LLM lists, ascending.
  static constexpr uint32_t kRanges[][2] = {
      {0x41, 0x5A},       {0x61, 0x7A},       {0xB5, 0xB5},       {0xC0, 0xD6},       {0xD8, 0xF6},
      {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},     {0x295, 0x2AF},     {0x370, 0x373},
      {0x376, 0x377},     {0x37B, 0x37D},     {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},
      {0x38C, 0x38C},     {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},     {0x48A, 0x52F},
      {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},   {0x1C90, 0x1CBA},
      {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},
      {0x1F18, 0x1F1D},   {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},
      {0x1F5B, 0x1F5B},   {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},   {0x1FB6, 0x1FBC},
      {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},   {0x1FD6, 0x1FDB},
      {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},   {0x2102, 0x2102},   {0x2107, 0x2107},
      {0x210A, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},
      {0x2128, 0x2128},   {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},   {0x213C, 0x213F},
      {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2184},   {0x2C00, 0x2C7B},   {0x2C7E, 0x2CE4},
      {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF3},   {0xA640, 0xA66D},   {0xA680, 0xA69B},   {0xA722, 0xA76F},
      {0xA771, 0xA787},   {0xA78B, 0xA78E},   {0xAB70, 0xABBF},   {0xFB00, 0xFB06},   {0xFB13, 0xFB17},
      {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},   {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB},
      {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943}};
  const auto* range = std::partition_point(std::begin(kRanges), std::end(kRanges),
                                           [&](const uint32_t(&r)[2]) { return r[1] < c.code; });
  return c.exists() && range != std::end(kRanges) && c.code >= (*range)[0];
}

bool is_deepseek_sign(const ScannedChar& c) {
  return between(c.code, 0x21, 0x2F) || between(c.code, 0x3A, 0x7E) || between(c.code, 0xFF01, 0xFF0F) ||
         between(c.code, 0xFF1A, 0xFF5E) || between(c.code, 0x2018, 0x201F) || between(c.code, 0x3000, 0x3002);
}

bool is_default_punctuation(const ScannedChar& c) {
  return c.is(kPunctuation) ||
         (c.code < 0x80 && std::string_view("$+<=>^~|").find(static_cast<char>(c.code)) != std::string_view::npos);
}

bool is_ascii_letter(const ScannedChar& c) { return between(c.code | 0x20, 'a', 'z'); }

// [ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
size_t match_deepseek3_word(std::string_view text, size_t at) {
  constexpr int kWord = kLetter | kMark, kSign = kPunctuation | kSymbol;
  const ScannedChar first = scan_char(text, at);
  const ScannedChar second = scan_char(text, at + first.bytes);
  if (first.code < 0x80 && first.is(kSign) && is_ascii_letter(second)) return skip_run(text, at + 1, is_ascii_letter);
  if (first.is(kWord)) return skip_class(text, at, kWord);
  if (!first.is(kLineBreak | kSign) && second.is(kWord)) return skip_class(text, at + first.bytes, kWord);
  if (first.is(kSign) || (first.code == ' ' && second.is(kSign)))
    return skip_class(text, skip_class(text, at + first.bytes, kSign), kLineBreak);
  return first.is(kWhiteSpace) ? split_lines_and_space(text, at) : at;
}

bool is_bloom_word(const ScannedChar& c) {
  constexpr uint32_t kOutside[] = {'(',    '|',    '.',    ',',    '!',   '?',   ')',
                                   0x2026, 0x3002, 0xFF0C, 0x3001, 0x964, 0x6D4, 0x60C};
  return c.exists_outside(kWhiteSpace) &&
         std::find(std::begin(kOutside), std::end(kOutside), c.code) == std::end(kOutside);
}

}  // namespace

size_t split_number_one(std::string_view text, size_t at) {
  const ScannedChar first = scan_char(text, at);
  return first.is(kNumber) ? at + first.bytes : skip_outside(text, at, kNumber);
}

size_t split_number_three(std::string_view text, size_t at) {
  if (!scan_char(text, at).is(kNumber)) return skip_outside(text, at, kNumber);
  for (int n = 0; n < 3 && scan_char(text, at).is(kNumber); ++n) at += scan_char(text, at).bytes;
  return at;
}

size_t split_numbers(std::string_view text, size_t at) {
  return run_or_gap(text, at, [](const ScannedChar& c) { return c.is(kNumber); });
}

size_t split_digit_triples(std::string_view text, size_t at) {
  return match_or_gap(text, at, [](std::string_view t, size_t i) {
    const auto digit = [t](size_t k) { return k < t.size() && between(static_cast<uint8_t>(t[k]), '0', '9'); };
    return digit(i) && digit(i + 1) && digit(i + 2) ? i + 3 : i;
  });
}

size_t split_line_breaks(std::string_view text, size_t at) {
  return scan_char(text, at).is(kLineBreak) ? at + 1 : skip_outside(text, at, kLineBreak);
}

size_t split_falcon_punctuation(std::string_view text, size_t at) {
  return run_or_gap(text, at, [](const ScannedChar& c) { return is_default_punctuation(c) || c.code == '`'; });
}

size_t split_default_punctuation(std::string_view text, size_t at) {
  return run_or_gap(text, at, is_default_punctuation);
}

size_t split_spaced_letters(std::string_view text, size_t at) {
  return spaced_run_or_gap(text, at, [](const ScannedChar& c) { return c.is(kLetter); });
}

size_t split_spaced_punctuation(std::string_view text, size_t at) {
  return spaced_run_or_gap(text, at, [](const ScannedChar& c) { return c.is(kPunctuation); });
}

size_t split_deepseek_letters(std::string_view text, size_t at) {
  return spaced_run_or_gap(text, at, is_deepseek_letter);
}

size_t split_deepseek_signs(std::string_view text, size_t at) { return spaced_run_or_gap(text, at, is_deepseek_sign); }

size_t split_final_space(std::string_view text, size_t at) {
  size_t gap_end = at;  // behind the last character that is no white space
  for (size_t i = at; i < text.size();) {
    const ScannedChar c = scan_char(text, i);
    i += c.bytes;
    if (!c.is(kWhiteSpace)) gap_end = i;
  }
  return gap_end > at ? gap_end : text.size();
}

size_t split_deepseek_cjk(std::string_view text, size_t at) {
  return run_or_gap(
      text, at, [](const ScannedChar& c) { return between(c.code, 0x800, 0x9FA5) || between(c.code, 0xAC00, 0xD7FF); });
}

size_t split_deepseek3_cjk(std::string_view text, size_t at) {
  return run_or_gap(text, at, [](const ScannedChar& c) {
    return between(c.code, 0x4E00, 0x9FA5) || between(c.code, 0x3040, 0x30FF);
  });
}

size_t split_deepseek3_words(std::string_view text, size_t at) { return match_or_gap(text, at, match_deepseek3_word); }

size_t split_bloom(std::string_view text, size_t at) {
  return match_or_gap(text, at, [](std::string_view t, size_t i) {
    const size_t begin = t[i] == ' ' ? i + 1 : i;
    const size_t end = skip_run(t, begin, is_bloom_word);
    return end > begin ? end : i;
  });
}

}  // namespace pagoda::text
