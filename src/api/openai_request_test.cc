#include "api/openai_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/http_status.h"

namespace pagoda::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const ModelFacts kFacts{.names = {"m", "alias"}, .vocab_size = 1000, .max_model_len = 128, .context_limit = 128};

std::string chat_error(const std::string& members, std::string* param = nullptr) {
  const auto parsed = parse_chat_request(
      R"({"messages":[{"role":"user","content":"hi"}])" + (members.empty() ? "" : "," + members) + "}", kFacts);
  if (parsed.ok()) return "accepted";
  if (param != nullptr) *param = parsed.error().param;
  return parsed.error().message;
}
std::string completion_error(const std::string& members) {
  const auto parsed =
      parse_completion_request(R"({"prompt":"hi")" + (members.empty() ? "" : "," + members) + "}", kFacts);
  return parsed.ok() ? "accepted" : parsed.error().message;
}
std::string messages_error(const std::string& messages) {
  const auto parsed = parse_chat_request("{\"messages\":" + messages + "}", kFacts);
  return parsed.ok() ? "accepted" : parsed.error().message;
}

// Goal: each field's range and type is checked, and the refusal names field, value and limit (cases P09, A01, A03).
// Method: a table of one-field requests; the range's ends are accepted.
TEST(ChatRequest, ChecksEveryField) {
  const std::pair<const char*, const char*> bad[] = {
      {R"("temperature":2.1)", "temperature is 2.1, a number from 0 to 2"},
      {R"("temperature":"hot")", "temperature is \"hot\""},
      {R"("top_p":-0.1)", "top_p is -0.1"},
      {R"("min_p":1.5)", "min_p is 1.5"},
      {R"("presence_penalty":2.5)", "presence_penalty is 2.5, a number from -2 to 2"},
      {R"("frequency_penalty":-3)", "frequency_penalty is -3"},
      {R"("repetition_penalty":0)", "repetition_penalty is 0"},
      {R"("top_k":-2)", "top_k is -2"},
      {R"("n":1000000)", "n is 1000000, an integer from 1 to 128"},
      {R"("n":0)", "n is 0"},
      {R"("n":1.5)", "n is 1.5"},
      {R"("best_of":1000000)", "best_of is 1000000"},
      {R"("best_of":2)", "best_of is 2, it must equal n"},
      {R"("use_beam_search":true,"n":4,"beam_width":3)", "beam_width is 3, an integer from 4 to 32"},
      {R"("use_beam_search":true,"beam_width":33)", "beam_width is 33, an integer from 1 to 32"},
      {R"("use_beam_search":true,"n":40)", "n is 40, a beam search keeps at most 32 texts"},
      {R"("use_beam_search":true,"stop":"x")", "stop is"},
      {R"("use_beam_search":true,"presence_penalty":1)", "presence_penalty is"},
      {R"("early_stopping":true)", "early_stopping is true, it requires use_beam_search"},
      {R"("beam_width":4)", "beam_width is 4, it requires use_beam_search"},
      {R"("length_penalty":2)", "length_penalty is 2, it requires use_beam_search"},
      {R"("max_tokens":2147483648)", "max_tokens is 2147483648, an integer from 1 to 128"},
      {R"("max_tokens":-5)", "max_tokens is -5"},
      {R"("max_completion_tokens":129)", "max_completion_tokens is 129"},
      {R"("min_tokens":5,"max_tokens":4)", "min_tokens is 5, an integer from 0 to 4"},
      {R"("logit_bias":{"191222":-100})", "logit_bias names the token \"191222\", an id from 0 to 999"},
      {R"("logit_bias":{"-1":1})", "logit_bias names the token \"-1\""},
      {R"("logit_bias":{"x":1})", "logit_bias names the token \"x\""},
      {R"("logit_bias":{"":1})", "logit_bias names the token \"\""},
      {R"("logit_bias":{"5":1e9})", "logit_bias.5 is 1000000000.0, a number from -100 to 100"},
      {R"("stop_token_ids":[2147483647])", "stop_token_ids[0] is 2147483647, an integer from 0 to 999"},
      {R"("stop_token_ids":[-1])", "stop_token_ids[0] is -1"},
      {R"("stop":"")", "stop is \"\""},
      {R"("stop":["a",""])", "stop[1] is \"\""},
      {R"("stop":7)", "stop is 7"},
      {R"("top_logprobs":3)", "requires logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs is 21, an integer from 0 to 20"},
      {R"("logprobs":true,"top_logprobs":-1)", "top_logprobs is -1"},
      {R"("logprobs":1)", "logprobs is 1, true or false"},
      {R"("prompt_logprobs":1000000)", "prompt_logprobs is 1000000, an integer from 0 to 20"},
      {R"("prompt_logprobs":1,"stream":true)", "cannot be streamed"},
      {R"("seed":1e30)", "seed is 1e+30"},
      {R"("stream":"yes")", "stream is \"yes\""},
      {R"("stream_options":[])", "stream_options is an array of 0"},
      {R"("tools":{})", "tools is an object"},
      {R"("priority":1.5)", "priority is 1.5"},
      {R"("priority":3000000000)", "priority is 3000000000, an integer from -2147483647 to 2147483647"},
      {R"("priority":"high")", "priority is \"high\""},
      {R"("deadline_ms":0)", "deadline_ms is 0, an integer from 1 to 86400000"},
      {R"("deadline_ms":86400001)", "deadline_ms is 86400001"},
      {R"("deadline_ms":"1")", "deadline_ms is \"1\""},
      {R"("timeout":0)", "timeout is 0, a number from 0.001 to 86400"},
      {R"("timeout":-1)", "timeout is -1"},
      {R"("user":7)", "user is 7"},
      {R"("cache_salt":"")", "cache_salt is \"\", a string of 1 to 1024 bytes"},
      {R"("cache_salt":7)", "cache_salt is 7"},
      {R"("cache_salt":["a"])", "cache_salt is an array"},
      {R"("model":"gpt-4")", "this server serves \"m\""},
  };
  for (const auto& [members, want] : bad) EXPECT_THAT(chat_error(members), HasSubstr(want)) << members;
  for (const char* members :
       {R"("temperature":0)", R"("temperature":2)", R"("top_p":0)", R"("n":128)", R"("max_tokens":128)",
        R"("seed":-9223372036854775808)", R"("seed":9223372036854775807)", R"("logit_bias":{"0":-100,"999":100})",
        R"("stop":null,"n":null,"tools":null,"seed":null)", R"("stop":["a","b"],"model":"alias")",
        R"("use_beam_search":true,"n":2,"best_of":4,"length_penalty":0.6,"early_stopping":true,"temperature":0)",
        R"("use_beam_search":false,"length_penalty":1.0,"early_stopping":false)",
        R"("unheard_of":{"x":[1]},"user":"me","store":true)", R"("logprobs":true,"top_logprobs":20)"}) {
    EXPECT_EQ(chat_error(members), "accepted") << members;
  }
  std::string many = R"("stop":[)";
  for (int i = 0; i < 16; ++i) many += "\"a\",";
  EXPECT_EQ(chat_error(many.substr(0, many.size() - 1) + "]"), "accepted");
  EXPECT_THAT(chat_error(many + "\"a\"]"), HasSubstr("stop is an array of 17, at most 16"));
  EXPECT_THAT(chat_error("\"stop\":\"" + std::string(1025, 'x') + "\""), HasSubstr("stop is a string of 1025 bytes"));
}

// Goal: a salt has at most 1024 bytes; null is none.
TEST(ChatRequest, LimitsTheCacheSalt) {
  const auto with = [](size_t bytes) { return chat_error(R"("cache_salt":")" + std::string(bytes, 'x') + "\""); };
  EXPECT_EQ(with(1), "accepted");
  EXPECT_EQ(with(1024), "accepted");
  EXPECT_NE(with(1025).find("a string of 1 to 1024 bytes is required"), std::string::npos) << with(1025);
  EXPECT_EQ(chat_error(R"("cache_salt":null)"), "accepted");
}

// Goal: each dialect's field says the same thing; two at once, and what a grammar cannot go with, are refused by name.
TEST(ChatRequest, ReadsWhatTheAnswerMustLookLike) {
  using Kind = grammar::Source::Kind;
  const auto structure = [](const std::string& member) {
    auto parsed = parse_chat_request(R"({"messages":[{"role":"user","content":"hi"}],)" + member + "}", kFacts);
    EXPECT_TRUE(parsed.ok()) << member << ": " << parsed.error().message;
    return parsed.ok() ? parsed.value().generation.structure : std::nullopt;
  };
  const std::string schema = R"({"type":"integer"})";
  for (const std::string& member :
       {R"("response_format":{"type":"json_schema","json_schema":{"name":"x","schema":)" + schema + "}}",
        R"("response_format":{"type":"json_object","schema":)" + schema + "}",
        R"("structured_outputs":{"json":)" + schema + "}", R"("guided_json":)" + schema, R"("json_schema":)" + schema,
        std::string(R"("json_schema":"{\"type\":\"integer\"}")")}) {
    const auto found = structure(member);
    ASSERT_TRUE(found) << member;
    EXPECT_EQ(found->kind, Kind::kJsonSchema) << member;
    EXPECT_EQ(found->text, schema) << member;
    EXPECT_TRUE(found->layout.tidy);
  }
  EXPECT_EQ(structure(R"("guided_regex":"a+")")->kind, Kind::kRegex);
  EXPECT_EQ(structure(R"("ebnf":"root ::= \"x\"")")->kind, Kind::kGbnf);
  EXPECT_THAT(structure(R"("structured_outputs":{"choice":["a","b"]})")->choices, ElementsAre("a", "b"));
  for (const char* nothing : {R"("response_format":{"type":"text"})", R"("grammar":"")", R"("json_schema":{})"})
    EXPECT_FALSE(structure(nothing)) << nothing;
  std::string param;
  for (const auto& [members, named] :
       {std::pair(R"("guided_regex":"a","grammar":"root ::= \"x\"")", "grammar"),
        std::pair(R"("guided_regex":"a","use_beam_search":true)", "use_beam_search"),
        std::pair(R"("guided_regex":"a","ignore_eos":true)", "ignore_eos"),
        std::pair(R"("response_format":{"type":"json_schema"})", "response_format.schema"),
        std::pair(R"("guided_choice":[])", "guided_choice")}) {
    EXPECT_NE(chat_error(members, &param), "accepted") << members;
    EXPECT_EQ(param, named) << members;
  }
}

// Goal: what Pagoda cannot do is refused by name, not silently left undone (docs/adr/0010).
TEST(ChatRequest, RefusesKnownFieldsItCannotHonour) {
  for (const char* members : {R"("structured_outputs":{"structural_tag":"a"})", R"("functions":[{}])",
                              R"("audio":{"voice":"x"})", R"("modalities":["text","audio"])", R"("mirostat":2)",
                              R"("truncate_prompt_tokens":4)", R"("chat_template":"x")", R"("echo":true)"}) {
    EXPECT_THAT(chat_error(members), HasSubstr("supported by this server")) << members;
  }
  for (const char* members :
       {R"("response_format":{"type":"text"})", R"("use_beam_search":false)", R"("tools":[{"type":"web_search"}])",
        R"("tool_choice":"none","tools":[{"function":{"name":"f"}}])", R"("tool_choice":"auto")",
        R"("modalities":["text"])", R"("bad_words":["x"])", R"("allowed_token_ids":[1])",
        R"("typical_p":0.5,"top_n_sigma":1,"dry_multiplier":0.8)", R"("guided_json":null)"}) {
    EXPECT_EQ(chat_error(members), "accepted") << members;
  }
  EXPECT_THAT(completion_error(R"("suffix":"x")"), HasSubstr("suffix is not supported"));
  EXPECT_EQ(completion_error(R"("suffix":"")"), "accepted");
}

TEST(ChatRequest, ChecksMessages) {
  EXPECT_THAT(messages_error("[]"), HasSubstr("messages is an array of 0"));
  EXPECT_THAT(messages_error("null"), HasSubstr("messages is null"));
  EXPECT_THAT(messages_error("\"hi\""), HasSubstr("messages is \"hi\""));
  EXPECT_THAT(messages_error("[1]"), HasSubstr("messages[0] is 1"));
  EXPECT_THAT(messages_error(R"([{"role":"wizard","content":"x"}])"), HasSubstr("messages[0].role is \"wizard\""));
  EXPECT_THAT(messages_error(R"([{"role":"user"}])"), HasSubstr("messages[0].content is missing"));
  EXPECT_THAT(messages_error(R"([{"role":"user","content":null}])"), HasSubstr("messages[0].content is null"));
  EXPECT_THAT(messages_error(R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])"),
              HasSubstr("messages[0].content[0].type is \"image_url\""));
  EXPECT_EQ(messages_error(R"([{"role":"user","content":""}])"), "accepted");
  EXPECT_EQ(messages_error(R"([{"role":"assistant","content":null,"tool_calls":[{}]}])"), "accepted");
  EXPECT_EQ(messages_error(R"([{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}],"name":"x"}])"),
            "accepted");
  const auto parsed = parse_chat_request(R"({"messages":[{"role":"developer","content":"x"}]})", kFacts);
  EXPECT_EQ(parsed.value().messages[0]["role"], "system");
}

TEST(ChatRequest, ReadsValues) {
  const auto parsed = parse_chat_request(
      R"({"messages":[{"role":"user","content":"x"}],"temperature":0.5,"top_k":-1,"seed":-1,"n":3,"max_completion_tokens":7,
          "max_tokens":9,"logprobs":true,"stop":"END","stream":true,"stream_options":{"include_usage":true},
          "chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low"})",
      kFacts);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const GenerationRequest& generation = parsed.value().generation;
  EXPECT_EQ(generation.sampling.temperature, 0.5f);
  EXPECT_EQ(generation.sampling.top_k, 0);
  EXPECT_EQ(generation.sampling.seed, UINT64_MAX);
  EXPECT_TRUE(generation.seeded);
  EXPECT_EQ(generation.n, 3);
  EXPECT_EQ(generation.max_tokens, 7);
  EXPECT_EQ(generation.sampling.logprobs, 0);
  EXPECT_THAT(generation.stop, ElementsAre("END"));
  EXPECT_TRUE(generation.stream && generation.include_usage && !generation.continuous_usage_stats);
  EXPECT_EQ(parsed.value().options.kwargs["enable_thinking"], false);
  EXPECT_EQ(parsed.value().options.kwargs["reasoning_effort"], "low");
}

// Goal: the four forms of `prompt`, and their mistakes (case O03).
TEST(CompletionRequest, ReadsPrompts) {
  const auto prompts = [](const std::string& json) {
    const auto parsed = parse_completion_request("{\"prompt\":" + json + "}", kFacts);
    return parsed.ok() ? std::to_string(parsed.value().prompts.size()) + " prompts" : parsed.error().message;
  };
  EXPECT_EQ(prompts("\"\""), "1 prompts");
  EXPECT_EQ(prompts("[1,2,3]"), "1 prompts");
  EXPECT_EQ(prompts("[\"a\",\"b\"]"), "2 prompts");
  EXPECT_EQ(prompts("[[1],[2],\"c\"]"), "3 prompts");
  EXPECT_THAT(prompts("[]"), HasSubstr("prompt is an array of 0"));
  EXPECT_THAT(prompts("null"), HasSubstr("prompt is null"));
  EXPECT_THAT(prompts("[1,\"a\"]"), HasSubstr("prompt[1] is \"a\""));
  EXPECT_THAT(prompts("[1,1000]"), HasSubstr("prompt[1] is 1000, an integer from 0 to 999"));
  EXPECT_THAT(prompts("[null]"), HasSubstr("prompt[0] is null"));
  std::string many = "[";
  for (int i = 0; i < 256; ++i) many += "\"a\",";
  EXPECT_THAT(prompts(many + "\"a\"]"), HasSubstr("prompt is an array of 257, at most 256"));
  EXPECT_THAT(completion_error(R"("prompt_logprobs":-1)"), HasSubstr("prompt_logprobs is -1"));
  EXPECT_THAT(completion_error(R"("logprobs":21)"), HasSubstr("logprobs is 21, an integer from 0 to 20"));
  EXPECT_EQ(completion_error(R"("max_tokens":0,"echo":true)"), "accepted");
  const auto parsed = parse_completion_request(R"({"prompt":"x"})", kFacts);
  EXPECT_EQ(parsed.value().generation.max_tokens, 16);
  EXPECT_EQ(parsed.value().generation.sampling.logprobs, -1);
}

// Goal: absurd requests are refused fast and small (case A01).
TEST(CompletionRequest, RefusesHugeRequestsInTime) {
  std::string stops = R"({"prompt":"a","stop":["x")", messages = R"({"messages":[{"role":"user","content":"x"})";
  for (int i = 0; i < 100000; ++i) {
    stops += ",\"x\"";
    messages += R"(,{"role":"user","content":"x"})";
  }
  EXPECT_THAT(parse_completion_request(stops + "]}", kFacts).error().message, HasSubstr("stop is an array of 100001"));
  EXPECT_FALSE(parse_chat_request(messages + "]}", kFacts).ok());
}

TEST(ChatRequest, OfTwoDeadlinesTheSoonerCounts) {
  const auto deadline = [](const std::string& members) {
    const auto parsed = parse_completion_request(R"({"prompt":"hi")" + members + "}", kFacts);
    return parsed.ok() ? parsed.value().generation.deadline_us : -1;
  };
  EXPECT_EQ(deadline(""), 0);
  EXPECT_EQ(deadline(R"(,"deadline_ms":null,"timeout":null)"), 0);
  EXPECT_EQ(deadline(R"(,"deadline_ms":1500)"), 1'500'000);
  EXPECT_EQ(deadline(R"(,"timeout":2.5)"), 2'500'000);
  EXPECT_EQ(deadline(R"(,"timeout":2.5,"deadline_ms":1500)"), 1'500'000);
  EXPECT_EQ(deadline(R"(,"timeout":0.5,"deadline_ms":1500)"), 500'000);
}

TEST(HttpStatus, ErrorBodyHasOpenAisShape) {
  EXPECT_EQ(error_body(400, Error{Code::kInvalidRequest, "n is 0", "n"}),
            R"({"error":{"message":"n is 0","type":"invalid_request_error","param":"n","code":null}})");
  EXPECT_EQ(
      error_body(400, Error{Code::kTooLarge, "long", "messages"}),
      R"({"error":{"message":"long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}})");
  EXPECT_EQ(http_status(Code::kNoCapacity), 429);
  EXPECT_EQ(http_status(Code::kUnavailable), 503);
  EXPECT_EQ(http_status(Code::kDeadline), 504);
}

}  // namespace
}  // namespace pagoda::api
