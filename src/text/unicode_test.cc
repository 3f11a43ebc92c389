#include "text/unicode.h"

#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <sstream>

namespace pagoda::text {
namespace {

std::string from_hex_codes(const std::string& codes) {
  std::string out;
  std::istringstream words(codes);
  for (std::string word; words >> word;) append_utf8(static_cast<uint32_t>(std::stoul(word, nullptr, 16)), out);
  return out;
}

// Goal: NFC as in the tables of SentencePiece's own normalizer tests (T07). Method: every row of both tables; a row of
// the NFD table says which decomposed text composes to the same.
TEST(Nfc, HoldsForEveryRowOfTheTables) {
  for (const std::string table : {"nfc", "nfd"}) {
    std::ifstream file(std::string(PAGODA_SHARED_DIR) + "/cases/tokenizer/sentencepiece_" + table + ".tsv");
    ASSERT_TRUE(file.good());
    int rows = 0;
    for (std::string line; std::getline(file, line); ++rows) {
      std::istringstream columns(line);
      std::string from, to;
      std::getline(columns, from, '\t');
      std::getline(columns, to, '\t');
      if (table == "nfc") {
        EXPECT_EQ(nfc(from_hex_codes(from)), from_hex_codes(to)) << line;
      } else {
        EXPECT_EQ(nfc(from_hex_codes(to)), nfc(from_hex_codes(from))) << line;
      }
    }
    EXPECT_GT(rows, 10000);
  }
}

TEST(Nfc, KeepsWhatIsNoUtf8) {
  EXPECT_EQ(nfc("e\u0301\xFF\xE2\x82"
                "e\u0301"),
            "\u00e9\xFF\xE2\x82\u00e9");
}

// Goal: marks in the worst order cost n log n, not n^2 (a megabyte would take hours).
TEST(Nfc, EndlessMarksAreSortedQuickly) {
  std::string text = "a", above, below;
  for (int i = 0; i < 100000; ++i) {
    text += "\u0301\u0316";  // classes 230 and 220
    above += "\u0301";
    below += "\u0316";
  }
  const clock_t begin = std::clock();
  const std::string composed = nfc(text);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 5);
  EXPECT_EQ(composed, "\u00e1" + below + above.substr(2));  // the first acute joins the a
}

// Goal: WHATWG's rule: one U+FFFD for each maximal subpart. Method: examples of the Encoding standard and Unicode 3.9.
TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string r(kReplacement);
  EXPECT_EQ(replace_invalid_utf8("a\x80z"), "a" + r + "z");
  EXPECT_EQ(replace_invalid_utf8("\xE2\x82z"), r + "z");               // truncated
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF"), r + r);                  // overlong
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), r + r + r);          // surrogate
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), r + r + r + r);  // above U+10FFFF
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98\xF0\x9F\x98\x80"), r + "\U0001F600");
  EXPECT_EQ(replace_invalid_utf8("ok \u4f60"), "ok \u4f60");
}

TEST(Utf8, HoldsOnlyWhatCanStillBecomeACharacter) {
  EXPECT_EQ(unfinished_utf8_bytes("a"), 0u);
  EXPECT_EQ(unfinished_utf8_bytes("a\xE2"), 1u);
  EXPECT_EQ(unfinished_utf8_bytes("a\xE2\x82"), 2u);
  EXPECT_EQ(unfinished_utf8_bytes("\xF0\x9F\x98"), 3u);
  EXPECT_EQ(unfinished_utf8_bytes("\xE0\x80"), 0u);  // never a character
  EXPECT_EQ(unfinished_utf8_bytes("\x80\x80\x80"), 0u);
  EXPECT_EQ(unfinished_utf8_bytes("\xC0"), 0u);
  EXPECT_EQ(unfinished_utf8_bytes(""), 0u);
}

TEST(CharClasses, AreThoseOfUnicode) {
  EXPECT_EQ(char_class('A'), kUppercase);
  EXPECT_EQ(char_class(0x1C5), kUppercase);  // titlecase
  EXPECT_EQ(char_class(0x4E00), kOtherLetter | kHan);
  EXPECT_EQ(char_class(0x301), kMark);
  EXPECT_EQ(char_class(0x2167), kNumber);
  EXPECT_EQ(char_class('\n'), kWhiteSpace | kLineBreak);
  EXPECT_EQ(char_class(0x85), kWhiteSpace);
  EXPECT_EQ(char_class(0x3000), kWhiteSpace);
  EXPECT_EQ(char_class(0x200B), 0);
  EXPECT_EQ(char_class(0x1C), 0);  // a separator to some, not White_Space
  EXPECT_EQ(char_class('$'), kSymbol);
  EXPECT_EQ(char_class(kInvalid), 0);
}

}  // namespace
}  // namespace pagoda::text
