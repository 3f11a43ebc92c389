#include "grammar/json_string.h"

#include <algorithm>

namespace pagoda::grammar {
namespace {

using Live = std::function<bool(int32_t)>;
using StepKind = JsonStringStep::Kind;

// Where in an escape: after the backslash; after \u and some digits; after a high surrogate; after its \; after its \u
// and some digits.
enum class Place : int32_t { kNone, kBackslash, kUnit, kHigh, kHighBackslash, kLow };
struct Escape {
  Place place = Place::kNone;
  int32_t digits = 0;  // read
  int32_t value = 0;   // of them
  int32_t high = 0;    // low ten bits of the high surrogate
};
int32_t pack(const Escape& e) { return static_cast<int32_t>(e.place) << 24 | e.high << 14 | e.digits << 12 | e.value; }
Escape unpack(int32_t packed) {
  return {static_cast<Place>(packed >> 24), packed >> 12 & 3, packed & 0xFFF, packed >> 14 & 0x3FF};
}

bool exists_sequence(Lexeme& lexeme, const Live& live, int32_t state, const ByteRanges& ranges, int32_t at) {
  if (at == ranges.length) return live(state);
  const auto i = static_cast<size_t>(at);
  int32_t kind = -1;
  for (int32_t byte = ranges.first[i]; byte <= ranges.last[i]; ++byte) {
    if (lexeme.kind_of(static_cast<uint8_t>(byte)) == kind) continue;  // the same as the byte before
    kind = lexeme.kind_of(static_cast<uint8_t>(byte));
    const int32_t next = lexeme.step(state, static_cast<uint8_t>(byte));
    if (live(next) && exists_sequence(lexeme, live, next, ranges, at + 1)) return true;
  }
  return false;
}

// Some character of first..last may come next.
bool exists_code(Lexeme& lexeme, const Live& live, int32_t state, int32_t first, int32_t last) {
  if (first > last) return false;
  std::vector<ByteRanges> ranges;
  utf8_ranges(static_cast<uint32_t>(first), static_cast<uint32_t>(last), ranges);
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const ByteRanges& r) { return exists_sequence(lexeme, live, state, r, 0); });
}

// Some character may come next whose first UTF-16 unit is one of first..last.
bool exists_unit(Lexeme& lexeme, const Live& live, int32_t state, int32_t first, int32_t last) {
  const int32_t high_first = std::max(first, 0xD800) - 0xD800, high_last = std::min(last, 0xDBFF) - 0xD800;
  return exists_code(lexeme, live, state, first, std::min(last, 0xD7FF)) ||
         exists_code(lexeme, live, state, std::max(first, 0xE000), last) ||
         (high_first <= high_last &&
          exists_code(lexeme, live, state, 0x10000 + (high_first << 10), 0x10000 + (high_last << 10) + 0x3FF));
}

JsonStringStep feed(Lexeme& lexeme, const Live& live, int32_t state, int32_t code, std::string& fed) {
  std::vector<ByteRanges> ranges;
  utf8_ranges(static_cast<uint32_t>(code), static_cast<uint32_t>(code), ranges);
  for (int32_t i = 0; i < ranges[0].length; ++i) {
    const uint8_t byte = ranges[0].first[static_cast<size_t>(i)];
    state = lexeme.step(state, byte);
    fed += static_cast<char>(byte);
  }
  if (!live(state)) return {};
  return {StepKind::kOn, state, 0};
}

int32_t hex_digit(uint8_t byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  const int32_t letter = (byte | 32) - 'a';
  return letter >= 0 && letter < 6 ? letter + 10 : -1;
}

constexpr int32_t kControlLast = 0x1F;

// Some character that needs an escape may come next.
bool exists_escaped(Lexeme& lexeme, const Live& live, int32_t state) {
  return exists_code(lexeme, live, state, 0, kControlLast) || exists_code(lexeme, live, state, '"', '"') ||
         exists_code(lexeme, live, state, '\\', '\\');
}

JsonStringStep step_backslash(Lexeme& lexeme, const Live& live, int32_t state, uint8_t byte, bool tidy,
                              std::string& fed) {
  if (tidy && (byte == '/' || (byte == 'u' && !exists_code(lexeme, live, state, 0, kControlLast)))) return {};
  switch (byte) {
    case '"':
    case '\\':
    case '/':
      return feed(lexeme, live, state, byte, fed);
    case 'b':
      return feed(lexeme, live, state, '\b', fed);
    case 'f':
      return feed(lexeme, live, state, '\f', fed);
    case 'n':
      return feed(lexeme, live, state, '\n', fed);
    case 'r':
      return feed(lexeme, live, state, '\r', fed);
    case 't':
      return feed(lexeme, live, state, '\t', fed);
    case 'u':
      return {StepKind::kOn, state, pack({Place::kUnit})};  // live: \ was only taken where some character is
    default:
      return {};
  }
}

JsonStringStep step_digit(Lexeme& lexeme, const Live& live, int32_t state, Escape e, uint8_t byte, bool tidy,
                          std::string& fed) {
  const int32_t digit = hex_digit(byte);
  if (digit < 0) return {};
  const int32_t value = e.value * 16 + digit, missing = 3 - e.digits;
  const int32_t first = value << (4 * missing);
  const int32_t last = std::min(first | ((1 << (4 * missing)) - 1), tidy ? kControlLast : 0xFFFF);
  if (first > last) return {};
  const bool low = e.place == Place::kLow;
  const int32_t base = 0x10000 + (e.high << 10) - 0xDC00;
  if (missing > 0) {
    const bool exists =
        low ? exists_code(lexeme, live, state, base + std::max(first, 0xDC00), base + std::min(last, 0xDFFF))
            : exists_unit(lexeme, live, state, first, last);
    if (!exists) return {};
    return {StepKind::kOn, state, pack({e.place, e.digits + 1, value, e.high})};
  }
  if (low) return value < 0xDC00 || value > 0xDFFF ? JsonStringStep{} : feed(lexeme, live, state, base + value, fed);
  if (value >= 0xDC00 && value <= 0xDFFF) return {};
  if (value < 0xD800 || value > 0xDFFF) return feed(lexeme, live, state, value, fed);
  if (!exists_unit(lexeme, live, state, value, value)) return {};
  return {StepKind::kOn, state, pack({Place::kHigh, 0, 0, value - 0xD800})};
}

}  // namespace

JsonStringStep step_json_string(Lexeme& lexeme, const Live& live, int32_t state, int32_t escape, uint8_t byte,
                                bool tidy, std::string& fed) {
  const Escape e = unpack(escape);
  switch (e.place) {
    case Place::kNone:
      break;
    case Place::kBackslash:
      return step_backslash(lexeme, live, state, byte, tidy, fed);
    case Place::kUnit:
    case Place::kLow:
      return step_digit(lexeme, live, state, e, byte, tidy, fed);
    case Place::kHigh:
      return byte == '\\' ? JsonStringStep{StepKind::kOn, state, pack({Place::kHighBackslash, 0, 0, e.high})}
                          : JsonStringStep{};
    case Place::kHighBackslash:
      return byte == 'u' ? JsonStringStep{StepKind::kOn, state, pack({Place::kLow, 0, 0, e.high})} : JsonStringStep{};
  }
  if (byte == '"') return {StepKind::kQuote, state, 0};
  if (byte < 0x20) return {};
  if (byte == '\\') {
    const bool some = tidy ? exists_escaped(lexeme, live, state) : exists_code(lexeme, live, state, 0, 0x10FFFF);
    return some ? JsonStringStep{StepKind::kOn, state, pack({Place::kBackslash})} : JsonStringStep{};
  }
  const int32_t next = lexeme.step(state, byte);
  if (!live(next)) return {};
  fed += static_cast<char>(byte);
  return {StepKind::kOn, next, 0};
}

}  // namespace pagoda::grammar
