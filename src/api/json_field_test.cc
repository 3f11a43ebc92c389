#include "api/json_field.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pagoda::api {
namespace {

using testing::HasSubstr;

std::string message_of(const Result<Json>& result) { return result.ok() ? "accepted" : result.error().message; }

// Goal: what is no JSON object text is refused with the byte where it goes wrong. Method: one text per rule.
TEST(ParseJson, RefusesBadTextWithItsPosition) {
  EXPECT_THAT(message_of(parse_json("")), HasSubstr("is empty"));
  EXPECT_THAT(message_of(parse_json("{\"a\":}")), HasSubstr("not valid JSON (byte 6)"));
  EXPECT_THAT(message_of(parse_json("{\"a\":1")), HasSubstr("not valid JSON"));
  EXPECT_THAT(message_of(parse_json("{\"a\":1} x")), HasSubstr("not valid JSON (byte 9)"));
  EXPECT_THAT(message_of(parse_json("{\"a\":\"\xff\"}")), HasSubstr("not valid UTF-8 (byte 6)"));
  EXPECT_THAT(message_of(parse_json("{\"a\":\"\\ud800\"}")), HasSubstr("not valid JSON"));
  EXPECT_THAT(message_of(parse_json("{\"a\":1e999}")), HasSubstr("no double can hold"));
  EXPECT_THAT(message_of(parse_json("{\"a\":NaN}")), HasSubstr("not valid JSON"));
}

TEST(ParseJson, NamesTheObjectThatHasAKeyTwice) {
  EXPECT_THAT(message_of(parse_json(R"({"n":1,"n":2})")), HasSubstr("twice in the document"));
  EXPECT_THAT(message_of(parse_json(R"({"m":[{"a":{}},{"b":{"x":1},"b":{"y":2}}]})")), HasSubstr("twice in m[1]"));
  EXPECT_EQ(message_of(parse_json(R"({"a:":{"b":1},"c":[{"b":":,{["}]})")), "accepted");
}

// Goal: hostile shapes cost neither depth nor memory: refused by the scan, before objects are made.
TEST(ParseJson, RefusesShapesOverTheLimits) {
  const JsonLimits limits;
  EXPECT_EQ(message_of(parse_json(std::string(64, '[') + std::string(64, ']'))), "accepted");
  EXPECT_THAT(message_of(parse_json(std::string(65, '[') + std::string(65, ']'))), HasSubstr("more than 64 levels"));
  EXPECT_THAT(message_of(parse_json(std::string(8 << 20, '['))), HasSubstr("more than 64 levels"));
  std::string members = "{", ones = "[1", strings = "[\"\"", objects = "[{}";
  for (int i = 0; i < 1100; ++i) members += "\"k" + std::to_string(i) + "\":1,";
  for (int i = 0; i < (1 << 20); ++i) ones += ",1";
  for (int i = 0; i < 200000; ++i) strings += ",\"\"";
  for (int i = 0; i < 70000; ++i) objects += ",{}";
  EXPECT_THAT(message_of(parse_json(members + "\"z\":1}")), HasSubstr("more than 1024 members"));
  EXPECT_THAT(message_of(parse_json(ones + "]")), HasSubstr("more than 1048576 elements"));
  EXPECT_THAT(message_of(parse_json(strings + "]")), HasSubstr("more than 196608 strings"));
  EXPECT_THAT(message_of(parse_json(objects + "]")), HasSubstr("more than 65536 arrays and objects"));
}

// Goal: a wrong value is refused with its path, itself and the limit.
TEST(JsonField, ErrorsNamePathValueAndLimit) {
  const Json document =
      parse_json(R"({"n":129,"t":"hot","list":[1,{"x":-7}],"big":18446744073709551615,"f":2.0,"z":null})").take();
  const JsonField root(document);
  EXPECT_EQ(root.get("n").integer(1, 128).error().message, "n is 129, an integer from 1 to 128 is required");
  EXPECT_EQ(root.get("n").integer(1, 128).error().param, "n");
  EXPECT_EQ(root.get("t").number(0, 2).error().message, R"(t is "hot", a number from 0 to 2 is required)");
  EXPECT_EQ(root.get("list").at(1).get("x").integer(0, 9).error().message,
            "list[1].x is -7, an integer from 0 to 9 is required");
  EXPECT_EQ(root.get("list").integers(0, 9, 5).error().param, "list[1]");
  EXPECT_FALSE(root.get("big").integer(INT64_MIN, INT64_MAX).ok());
  EXPECT_EQ(root.get("f").integer(0, 5).value(), 2);
  EXPECT_EQ(root.get("z").integer_or(4, 0, 5).value(), 4);
  EXPECT_EQ(root.get("absent").boolean_or(true).value(), true);
  EXPECT_EQ(root.get("absent").string().error().message, "absent is missing, a string is required");
  EXPECT_THAT(root.get("list").string().error().message, HasSubstr("an array of 2"));
}

}  // namespace
}  // namespace pagoda::api
