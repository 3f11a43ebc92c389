#include "core/utf8.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

// Goal: ill-formed bytes are found and replaced as Python's bytes.decode("utf-8", "replace") does.
// Method: expected strings written down from Python 3.11.
TEST(Utf8, ReplacesMaximalIllFormedParts) {
  const std::string fffd = "\xEF\xBF\xBD";
  const std::pair<std::string, std::string> cases[] = {
      {"plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"},
      {"\xC0\xAF", fffd + fffd},                        // over-long
      {"\xED\xA0\x80", fffd + fffd + fffd},             // surrogate
      {"\xE2\x82", fffd},                               // cut short
      {"\xF0\x9F\x98", fffd},                           //
      {"\xE2\x82X", fffd + "X"},                        // cut by a letter
      {"\xF4\x90\x80\x80", fffd + fffd + fffd + fffd},  // above U+10FFFF
      {"a\x80z", "a" + fffd + "z"},                     // stray continuation
  };
  for (const auto& [bytes, want] : cases) {
    EXPECT_EQ(replace_invalid_utf8(bytes), want);
    EXPECT_EQ(find_invalid_utf8(bytes) == std::string::npos, bytes == want);
  }
  EXPECT_EQ(find_invalid_utf8("ab\xC3\xA9\xFF"), 4u);
  EXPECT_EQ(count_code_points("a\xC3\xA9\xF0\x9F\x98\x80\xFF"), 4);
}

}  // namespace
}  // namespace pagoda
