#pragma once
#include <string_view>

namespace pagoda::dialog {

/// What a text that is still being written says about a pattern: it cannot be one, it may become one, it is one.
enum class Match { kNo, kMore, kYes };

/// A place in a text whose end may not be there yet.
struct Cursor {
  std::string_view text{};
  size_t at = 0;

  bool ended() const { return at >= text.size(); }
  char peek() const { return text[at]; }
  std::string_view rest() const { return text.substr(at); }

  void skip_space() {
    while (!ended() && (peek() == ' ' || peek() == '\n' || peek() == '\t' || peek() == '\r')) ++at;
  }
  /// Steps over `want` if it stands here.
  Match literal(std::string_view want) {
    if (rest().starts_with(want)) {
      at += want.size();
      return Match::kYes;
    }
    return want.starts_with(rest()) ? Match::kMore : Match::kNo;
  }
  /// The text up to `end`, which is stepped over.
  Match until(std::string_view end, std::string_view& before) {
    const size_t found = text.find(end, at);
    if (found == std::string_view::npos) return Match::kMore;
    before = text.substr(at, found - at);
    at = found + end.size();
    return Match::kYes;
  }
};

// Go on after a match, or return the other answer from the calling function.
#define PAGODA_MATCH(expr)                                                 \
  do {                                                                     \
    if (const Match match_ = (expr); match_ != Match::kYes) return match_; \
  } while (0)

}  // namespace pagoda::dialog
