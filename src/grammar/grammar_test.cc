// Goal: masks, matcher, budgets and refusals. The languages themselves are held by cases_test.cc.
#include "grammar/grammar.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

namespace pagoda::grammar {
namespace {

Source source_of(Source::Kind kind, std::string text) {
  Source source;
  source.kind = kind;
  source.text = std::move(text);
  return source;
}
Source schema(std::string text) { return source_of(Source::Kind::kJsonSchema, std::move(text)); }
Source regex(std::string text) { return source_of(Source::Kind::kRegex, std::move(text)); }
Source gbnf(std::string text) { return source_of(Source::Kind::kGbnf, std::move(text)); }

bool accepts(Automaton& automaton, const std::string& text) {
  StateId state = automaton.start();
  for (const char c : text) state = automaton.step(state, static_cast<uint8_t>(c));
  EXPECT_FALSE(automaton.exhausted());
  return state >= 0 && automaton.accepting(state);
}
bool accepts(const Source& source, const std::string& text) {
  auto automaton = compile(source, {}, true);
  EXPECT_TRUE(automaton.ok()) << automaton.error().message;
  return automaton.ok() && accepts(*automaton.value(), text);
}

// All bytes, and pieces as vocabularies have them: across quotes, commas, digits and half characters.
std::vector<std::string> some_tokens() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* text : {"{\"", "\": ", "\",",   "\", \"", "\"}",  "}}",     "]}",       "\": \"", "\": [", "12",
                           "3.5", "true", "false", "null",   "name", "na",     "ame\"",    "age",    "\"a",   "\\u00",
                           "\\n", "  ",   "\n  ",  "abc",    "é",    "\xC3",   "\xE2\x82", "[{\"",   "1,",    "10]",
                           "{}",  "[]",   "-",     "e+",     " \"",  "colour", "red\"",    "k1",     "k2\":"})
    tokens.emplace_back(text);
  std::mt19937 rng(20261130);
  for (int i = 0; i < 600; ++i) {  // enough below one node that shared parts are used
    std::string text(1, "\"ax1"[rng() % 4]);
    for (size_t j = rng() % 5; j > 0; --j) text += "abk1\",: }]\\"[rng() % 11];
    tokens.push_back(text);
  }
  return tokens;
}

const char* const kPerson =
    R"({"type":"object","properties":{"name":{"type":"string","minLength":2},"age":{"type":"integer",
  "minimum":0,"maximum":130},"colour":{"enum":["red","green",3,null]},"tags":{"type":"array","items":{"type":"string"},
  "maxItems":3},"more":{"type":"object"}},"required":["name","age"]})";

std::vector<Source> some_sources() {
  return {
      schema(kPerson),
      schema("{}"),
      schema(R"({"type":"object","additionalProperties":{"type":"integer"},"minProperties":2})"),
      schema(R"({"anyOf":[{"type":"object","properties":{"k1":{"const":"abc"}},"required":["k1"]},
                    {"type":"array","items":{"type":"number","multipleOf":0.5}}]})"),
      schema(R"({"type":"string","pattern":"^a[ab]{1,4}k?$"})"),
      schema(R"({"type":"array","uniqueItems":true,"items":{"enum":["a","b",1,true]}})"),
      schema(
          R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"a":{"$ref":"#/$defs/t"}},"additionalProperties":false}}})"),
      regex("(a|b)*abb|[0-9]+\\.[0-9]{2}"),
      gbnf("root ::= \"{\" pair (\",\" pair)* \"}\"\npair ::= \"\\\"\" [a-z0-9]+ \"\\\":\" (root | [0-9]+)")};
}

// Method: along random walks, every token's bit against stepping its bytes; a walk never ends in a dead end.
TEST(GrammarMask, EqualsSteppingEveryToken) {
  const auto vocabulary = std::make_shared<const Vocabulary>(some_tokens());
  std::mt19937 rng(7);
  for (const Source& source : some_sources()) {
    auto compiled = Grammar::compile(source, vocabulary, {}, {});
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    Grammar& grammar = *compiled.value();
    for (int walk = 0; walk < 12; ++walk) {
      StateId state = grammar.start();
      for (int step = 0; step < 25; ++step) {
        const auto mask = grammar.mask(state);
        ASSERT_NE(mask, nullptr);
        std::vector<TokenId> allowed;
        for (TokenId id = 0; id < vocabulary->size(); ++id) {
          const bool yes = grammar.advance(state, id) >= 0;
          ASSERT_EQ(mask->allows(id), yes) << source.text << " token " << vocabulary->bytes(id);
          if (yes) allowed.push_back(id);
        }
        ASSERT_EQ(static_cast<size_t>(mask->allowed), allowed.size());
        if (allowed.empty()) {
          EXPECT_TRUE(grammar.accepting(state)) << source.text;
          break;
        }
        state = grammar.advance(state, allowed[rng() % allowed.size()]);
      }
    }
  }
}

TEST(GrammarMatcher, RollsBackAndEndsOnlyWhereComplete) {
  const auto vocabulary = std::make_shared<const Vocabulary>(std::vector<std::string>{"a", "b", "ab", ""});
  const TokenId end = 3;
  auto compiled = Grammar::compile(regex("(ab)+"), vocabulary, {end}, {});
  ASSERT_TRUE(compiled.ok());
  Matcher matcher(compiled.value());
  EXPECT_FALSE(matcher.mask()->allows(end));
  EXPECT_FALSE(matcher.accept(end));
  EXPECT_FALSE(matcher.accept(1));
  ASSERT_TRUE(matcher.accept(0));
  EXPECT_EQ(matcher.forced(8), "b");
  EXPECT_FALSE(matcher.accept(2));
  ASSERT_TRUE(matcher.accept(1));
  ASSERT_TRUE(matcher.accept(2));
  EXPECT_TRUE(matcher.complete());
  EXPECT_TRUE(matcher.mask()->allows(end));
  matcher.rollback(2);
  EXPECT_EQ(matcher.taken(), 1u);
  EXPECT_FALSE(matcher.complete());
  EXPECT_FALSE(matcher.accept(0));
  EXPECT_TRUE(matcher.accept(1));
  EXPECT_FALSE(matcher.accept(-1));
  EXPECT_FALSE(matcher.accept(4));
}

TEST(GrammarForced, RunsThroughTextWithoutChoice) {
  const auto vocabulary = std::make_shared<const Vocabulary>(some_tokens());
  Source source = schema(
      R"({"type":"object","properties":{"colour":{"const":"red"}},"required":["colour"],"additionalProperties":false})");
  source.layout.blanks_max = 0;
  auto compiled = Grammar::compile(source, vocabulary, {}, {});
  ASSERT_TRUE(compiled.ok());
  Matcher matcher(compiled.value());
  EXPECT_EQ(matcher.forced(100), "{\"");  // c may be written \u0063
  EXPECT_EQ(matcher.forced(1), "{");
}

// The cases of cases.jsonl: J01, J03, J05, J07, J09, J11.
TEST(GrammarRefusals, NameTheirPlaceAndComeSoon) {
  std::string nested = "true";
  for (int i = 0; i < 10'000; ++i) nested = "{\"items\":" + nested + "}";
  std::string wide = "{\"anyOf\":[";
  for (int i = 0; i < 2000; ++i) wide += (i ? ",{\"const\":" : "{\"const\":") + std::to_string(i) + "}";
  wide += "]}";
  struct Case {
    Source source;
    const char* place;  // "" = accepted
  };
  const std::vector<Case> cases = {
      {schema(R"({"$defs":{"A":{"$ref":"#/$defs/A"}},"$ref":"#/$defs/A"})"), "/$defs/A"},
      {schema(nested), "nesting"},
      {schema(wide), ""},
      {schema(R"({"type":"strin"})"), "/type"},
      {schema(R"({"properties":{"a":{"minLength":-1}}})"), "/properties/a/minLength"},
      {schema(R"({"properties":{"a":{"pattern":"(a"}}})"), "/properties/a/pattern"},
      {schema(R"({"$ref":"#/$defs/x"})"), "/$ref"},
      {schema(R"({"$ref":"https://example.com/x"})"), "/$ref"},
      {schema(R"({"type":"string","format":"regex"})"), "/format"},
      {schema("{\"a\":"), "byte 6"},
      {schema("false"), "/"},
      {gbnf("rout::=\"x\""), "line 1, column 1"},
      {gbnf("root ::= undefined-rule"), "line 1, column 10"},
      {gbnf("root ::= root \"a\""), "line 1, column 1"},
      {gbnf("root ::= a \"x\"\na ::= b?  root | \"y\"\nb ::= \"\""), "line 1, column 1"},
      {gbnf("root ::= \"x\" root"), "line 1, column 1"},
      {gbnf("root ::= \"x"), "line 1, column 10"},
      {gbnf("root ::= [z-a]"), "line 1, column 11"},
      {regex("((a{1,200}){1,200}){1,200}"), "offset 0"},
      {regex("(a|a)*b"), ""},
      {regex("(((a|a)*)*|(a|a)*)*b"), ""},
      {regex("a{2,1}"), "offset 6"},
      {regex("(a)\\1"), "offset 3"},
      {regex("*a"), "offset 0"},
      {schema(R"({"pattern":"((a{1,200}){1,200}){1,200}"})"), "/pattern"},
  };
  for (const Case& c : cases) {
    const auto begin = std::chrono::steady_clock::now();
    const auto automaton = compile(c.source, {});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LT(seconds, 5) << c.source.text.substr(0, 200);
    EXPECT_EQ(automaton.ok() ? "" : automaton.error().param, c.place)
        << c.source.text.substr(0, 200) << (automaton.ok() ? "" : automaton.error().message);
  }
}

TEST(GrammarJson, FollowsTheTextOfJson) {
  EXPECT_FALSE(accepts(schema("{}"), "{\"text\":\"\traw tab\"}"));
  EXPECT_TRUE(accepts(schema("{}"), "{\"a\":\r\"x\"}"));
  EXPECT_TRUE(accepts(schema(R"({"const":"é\n𝄞"})"), R"("\u00e9\u000a\ud834\uDD1E")"));
  EXPECT_TRUE(accepts(schema(R"({"const":"é\n𝄞"})"), "\"é\\n𝄞\""));
  EXPECT_FALSE(accepts(schema(R"({"const":"é\n𝄞"})"), R"("\u00e9\u000a\ud834")"));
  EXPECT_FALSE(accepts(schema("{}"), R"("\ud834x")"));
  EXPECT_FALSE(accepts(schema("{}"), "\"\xFF\""));
  const Source colours =
      schema(R"({"$defs":{"c":{"enum":["r","g",3,null]}},"properties":{"c":{"$ref":"#/$defs/c"}},"required":["c"]})");
  EXPECT_TRUE(accepts(colours, R"({"\u0063":3})"));
  EXPECT_TRUE(accepts(colours, R"({"x":[],"c":null})"));
  EXPECT_FALSE(accepts(colours, R"({"c":"b"})"));
  EXPECT_FALSE(accepts(colours, R"({"c":3,"c":3})"));
  const Source pointers = schema(
      R"({"$defs":{"a/b":{"type":"integer"},"é":{"type":"null"}},"properties":{"l":{"anyOf":[{"type":"boolean"}]},
          "m":{"$ref":"#/properties/l/anyOf/0"},"n":{"$ref":"#/$defs/a~1b","minimum":3},"o":{"$ref":"#/$defs/%C3%A9"}}})");
  EXPECT_TRUE(accepts(pointers, R"({"m":true,"n":3,"o":null})"));
  EXPECT_FALSE(accepts(pointers, R"({"n":2})"));
  EXPECT_FALSE(accepts(pointers, R"({"m":1})"));
}

TEST(GrammarJson, ReadsNumbersExactly) {
  const Source small = schema(R"({"type":"number","exclusiveMinimum":-0.5,"maximum":12.25})");
  for (const char* text : {"0", "-0", "-0.49999", "12.25", "12.250", "12", "1e1", "1.2E+1", "1e-5", "-1e-300", "0e5"})
    EXPECT_TRUE(accepts(small, text)) << text;
  for (const char* text : {"-0.5", "-0.50", "12.2500001", "13", "1e2", "-1e0", "01", "1.", ".5", "+1", "1e"})
    EXPECT_FALSE(accepts(small, text)) << text;
  const Source cents = schema(R"({"multipleOf":0.01,"type":"number"})");
  for (const char* text : {"1.25", "-3.10", "0.010", "1.5e3"}) EXPECT_TRUE(accepts(cents, text)) << text;
  EXPECT_FALSE(accepts(cents, "1.255"));
  const Source whole = schema(R"({"type":"integer","not":{"multipleOf":3}})");
  for (const char* text : {"1", "2.0", "-4", "1e1", "2.5e1"}) EXPECT_TRUE(accepts(whole, text)) << text;
  for (const char* text : {"3", "0", "1.5", "-6.00", "1e-1", "3e5"}) EXPECT_FALSE(accepts(whole, text)) << text;
}

// Method: whatever the masks of the shown schemas allow can be completed: random walks over bytes never end stuck.
TEST(GrammarWalk, ShownSchemasHaveNoDeadEnds) {
  std::ifstream file(std::string(PAGODA_SHARED_DIR) + "/cases/jsonschema/maskbench/maskbench_dev.jsonl");
  ASSERT_TRUE(file);
  std::mt19937 rng(11);
  int walks = 0, row = 0;
  for (std::string line; std::getline(file, line);) {
    if (++row % 3 != 0) continue;
    const auto text = nlohmann::ordered_json::parse(line)["schema"].dump();
    auto automaton = compile(schema(text), {.bytes_max = 1 << 26, .compile_us_max = 300'000});
    if (!automaton.ok()) continue;
    StateId state = automaton.value()->start();
    std::string walked;
    for (int step = 0; step < 150; ++step) {
      std::vector<uint8_t> allowed;
      for (int byte = 0; byte < 256; ++byte)
        if (automaton.value()->step(state, static_cast<uint8_t>(byte)) >= 0)
          allowed.push_back(static_cast<uint8_t>(byte));
      ASSERT_FALSE(automaton.value()->exhausted()) << text;
      if (allowed.empty()) {
        ASSERT_TRUE(automaton.value()->accepting(state)) << text << "\nstuck after " << testing::PrintToString(walked);
        break;
      }
      walked += static_cast<char>(allowed[rng() % allowed.size()]);
      state = automaton.value()->step(state, static_cast<uint8_t>(walked.back()));
    }
    ++walks;
  }
  EXPECT_GT(walks, 90);
}

}  // namespace
}  // namespace pagoda::grammar
