// Tool calls and reasoning through the routes of OpenAI, Anthropic and Ollama: the same answer, each in its own shape.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/conversation_repair.h"
#include "api/service_for_test.h"

namespace pagoda::api {
namespace {

using testing::HasSubstr;

const std::string kAsk = R"("messages":[{"role":"user","content":"Weather?"}])";
const std::string kTools =
    R"("tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",)"
    R"("properties":{"city":{"type":"string"}}}}},{"type":"function","function":{"name":"add"}}])";

class ToolsTest : public ServiceTest {
 protected:
  ToolsTest() : ServiceTest("<tool_call> <think>") {
    backend.engine.script =
        "<think>\nWhich city?\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
        "\"Z\xC3\xBCrich\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": "
        "\"Oslo\"}}\n"
        "</tool_call>";
  }
};

// Goal: case S09: two calls of one function have indices 0 and 1 and ids of their own; arguments joined by index parse;
// the stream says what the body says.
TEST_F(ToolsTest, OpenAIBodyAndStreamAgree) {
  const Answer answer = post("/v1/chat/completions", "{" + kAsk + "," + kTools + "}");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json choice = answer.json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "I look.");
  EXPECT_EQ(choice["message"]["reasoning_content"], "Which city?");
  const Json& calls = choice["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2u) << answer.body;
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);
  EXPECT_THAT(calls[0]["id"].get<std::string>(), testing::StartsWith("call_"));
  EXPECT_EQ(calls[0]["type"], "function");
  EXPECT_EQ(calls[1]["function"], Json::parse(R"({"name":"get_weather","arguments":"{\"city\": \"Oslo\"}"})"));

  const Answer streamed = post("/v1/chat/completions", "{" + kAsk + "," + kTools + R"(,"stream":true})");
  std::string content, reasoning;
  std::vector<Json> joined;
  Json finish;
  for (const Json& event : streamed.events()) {
    const Json& delta = event["choices"][0]["delta"];
    content += delta.value("content", "");
    reasoning += delta.value("reasoning_content", "");
    if (!event["choices"][0]["finish_reason"].is_null()) finish = event["choices"][0]["finish_reason"];
    if (!delta.contains("tool_calls")) continue;
    for (const Json& call : delta["tool_calls"]) {
      const size_t index = call["index"].get<size_t>();
      if (call.contains("id")) {
        ASSERT_EQ(index, joined.size());
        joined.push_back(Json{{"id", call["id"]}, {"name", call["function"]["name"]}, {"arguments", ""}});
      }
      joined.at(index)["arguments"] =
          joined.at(index)["arguments"].get<std::string>() + call["function"]["arguments"].get<std::string>();
    }
  }
  EXPECT_EQ(content, "I look.");
  EXPECT_EQ(reasoning, "Which city?");
  EXPECT_EQ(finish, "tool_calls");
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_NE(joined[0]["id"], joined[1]["id"]);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(joined[i]["arguments"], calls[i]["function"]["arguments"]);
}

TEST_F(ToolsTest, WithoutToolsOrWithNoneTheTextStays) {
  for (const std::string& more : {std::string(), "," + kTools + R"(,"tool_choice":"none")"}) {
    const Json message = post("/v1/chat/completions", "{" + kAsk + more + "}").json()["choices"][0]["message"];
    EXPECT_THAT(message["content"].get<std::string>(), HasSubstr("</tool_call>\n<tool_call>"));
    EXPECT_FALSE(message.contains("tool_calls"));
  }
  const Json whole =
      post("/v1/chat/completions", "{" + kAsk + R"(,"separate_reasoning":false})").json()["choices"][0]["message"];
  EXPECT_THAT(whole["content"].get<std::string>(), testing::StartsWith("<think>\nWhich city?"));
  const Json silent =
      post("/v1/chat/completions", "{" + kAsk + R"(,"include_reasoning":false})").json()["choices"][0]["message"];
  EXPECT_THAT(silent["content"].get<std::string>(), testing::StartsWith("I look."));
  EXPECT_FALSE(silent.contains("reasoning_content"));
}

// Goal: a forced call is begun in the prompt; the model writes the rest, and nothing follows its end.
TEST_F(ToolsTest, AForcedCallIsBegunForTheModel) {
  backend.engine.script = "\"city\": \"Oslo\"}}\n</tool_call>\nand more";
  for (const std::string& choice : {std::string(R"({"type":"function","function":{"name":"get_weather"}})")}) {
    const Json answer =
        post("/v1/chat/completions", "{" + kAsk + "," + kTools + R"(,"tool_choice":)" + choice + "}").json();
    const Json message = answer["choices"][0]["message"];
    ASSERT_TRUE(message.contains("tool_calls")) << answer;
    EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "get_weather");
    EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], "{\"city\": \"Oslo\"}");
    EXPECT_EQ(message["content"], nullptr);
    EXPECT_EQ(answer["choices"][0]["finish_reason"], "tool_calls");
    EXPECT_EQ(answer["choices"][0]["stop_reason"], nullptr);
  }
  backend.engine.script = "add\", \"arguments\": {}}\n</tool_call>";
  const Json required =
      post("/v1/chat/completions", "{" + kAsk + "," + kTools + R"(,"tool_choice":"required"})").json();
  EXPECT_EQ(required["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "add") << required;
}

TEST_F(ToolsTest, BadToolsNameTheirPath) {
  const auto error = [&](const std::string& members) {
    const Answer answer = post("/v1/chat/completions", "{" + kAsk + "," + members + "}");
    EXPECT_EQ(answer.status, 400) << members;
    return answer.json()["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(error(R"("tools":[{"type":"function"}])"), HasSubstr("tools[0].function is missing"));
  EXPECT_THAT(error(R"("tools":[{"type":"function","function":{"name":3}}])"),
              HasSubstr("tools[0].function.name is 3"));
  EXPECT_THAT(error(kTools + R"(,"tool_choice":"maybe")"), HasSubstr("tool_choice is \"maybe\""));
  EXPECT_THAT(error(kTools + R"(,"tool_choice":{"function":{"name":"sub"}})"), HasSubstr("not among tools"));
  EXPECT_THAT(error(R"("tool_choice":"required")"), HasSubstr("requires tools"));
}

// --- Anthropic ---

const std::string kAnthropicTools =
    R"("max_tokens":230,"tools":[{"name":"get_weather","description":"d","input_schema":{"type":"object"}}])";

TEST_F(ToolsTest, AnthropicBody) {
  const Answer answer = post("/v1/messages", "{" + kAsk + "," + kAnthropicTools + R"(,"thinking":{"type":"enabled"}})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json json = answer.json();
  EXPECT_EQ(json["type"], "message");
  EXPECT_EQ(json["stop_reason"], "tool_use");
  ASSERT_EQ(json["content"].size(), 4u) << answer.body;
  EXPECT_EQ(json["content"][0]["thinking"], "Which city?");
  EXPECT_EQ(json["content"][1]["text"], "I look.");
  EXPECT_EQ(json["content"][2]["input"], Json::parse(R"({"city":"Zürich"})"));
  EXPECT_EQ(json["content"][3]["name"], "get_weather");
  EXPECT_GT(json["usage"]["output_tokens"], 0);
  const Json quiet = post("/v1/messages", "{" + kAsk + "," + kAnthropicTools + "}").json();
  EXPECT_EQ(quiet["content"][0]["type"], "text");  // thinking was not asked for
}

// Goal: the ladder of events: every block is opened, gains and is closed before the next, and the pieces add up to the
// body.
TEST_F(ToolsTest, AnthropicStream) {
  const Answer answer =
      post("/v1/messages", "{" + kAsk + "," + kAnthropicTools + R"(,"thinking":{"type":"enabled"},"stream":true})");
  std::vector<Json> blocks;
  std::vector<std::string> names;
  bool open = false;
  for (const Json& event : answer.events()) {
    const std::string type = event["type"];
    EXPECT_THAT(answer.body, HasSubstr("event: " + type + "\ndata: "));
    if (type != "content_block_delta" && type != "content_block_start" && type != "content_block_stop")
      names.push_back(type);
    if (type == "content_block_start") {
      EXPECT_FALSE(open);
      EXPECT_EQ(event["index"], blocks.size());
      open = true;
      blocks.push_back(Json{{"type", event["content_block"]["type"]}, {"text", ""}});
    }
    if (type == "content_block_stop") {
      EXPECT_TRUE(open);
      open = false;
    }
    if (type == "content_block_delta") {
      EXPECT_TRUE(open);
      EXPECT_EQ(event["index"], blocks.size() - 1);
      for (const char* member : {"text", "thinking", "partial_json"})
        if (event["delta"].contains(member))
          blocks.back()["text"] = blocks.back()["text"].get<std::string>() + event["delta"][member].get<std::string>();
    }
    if (type == "message_delta") {
      EXPECT_EQ(event["delta"]["stop_reason"], "tool_use");
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"message_start", "message_delta", "message_stop"}));
  ASSERT_EQ(blocks.size(), 4u) << answer.body;
  EXPECT_EQ(blocks[0], Json::parse(R"({"type":"thinking","text":"Which city?"})"));
  EXPECT_EQ(blocks[1], Json::parse(R"({"type":"text","text":"I look."})"));
  EXPECT_EQ(Json::parse(blocks[2]["text"].get<std::string>()), Json::parse(R"({"city":"Zürich"})"));
  EXPECT_EQ(Json::parse(blocks[3]["text"].get<std::string>()), Json::parse(R"({"city":"Oslo"})"));
}

TEST_F(ToolsTest, AnthropicErrorsAndCounts) {
  const auto fails = [&](const std::string& body, int status) {
    const Answer answer = post("/v1/messages", body);
    EXPECT_EQ(answer.status, status) << answer.body;
    EXPECT_EQ(answer.json()["type"], "error");
    return answer.json()["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(fails("{" + kAsk + "}", 400), HasSubstr("max_tokens is missing"));
  EXPECT_THAT(fails(R"({"max_tokens":5,"messages":[{"role":"user","content":[{"type":"image"}]}]})", 400),
              HasSubstr("messages[0].content[0].type is \"image\""));
  EXPECT_THAT(fails(R"({"max_tokens":5,"messages":[{"role":"user","content":")" + std::string(300, 'x') + "\"}]}", 400),
              HasSubstr("this model's maximum context length is 256"));
  EXPECT_THAT(fails("{" + kAsk + R"(,"max_tokens":5,"model":"other"})", 404), HasSubstr("other"));
  const std::string turns =
      R"({"max_tokens":5,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"hi"}]})";
  EXPECT_EQ(post("/v1/messages/count_tokens", turns).json()["input_tokens"],
            post("/v1/messages", turns).json()["usage"]["input_tokens"]);
}

// Goal: tool results and calls of earlier turns reach the template in OpenAI's form.
TEST_F(ToolsTest, AnthropicTurnsBecomeMessages) {
  const Answer answer = post("/v1/messages/count_tokens", R"({"messages":[{"role":"user","content":"q"},
    {"role":"assistant","content":[{"type":"text","text":"look"},{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"42"}]},
                              {"type":"text","text":"go","cache_control":{"type":"ephemeral"}}]}]})");
  // <s>[user]q[assistant]look[tool]42[user]go[assistant]
  EXPECT_EQ(answer.json()["input_tokens"], 1 + 6 + 1 + 11 + 4 + 6 + 2 + 6 + 2 + 11) << answer.body;
}

// --- Ollama ---

const std::string kOllama = R"("model":"test-model:latest","options":{"seed":3},)";

TEST_F(ToolsTest, OllamaChat) {
  const Answer whole = post("/api/chat", "{" + kOllama + kAsk + "," + kTools + R"(,"stream":false})");
  ASSERT_EQ(whole.status, 200) << whole.body;
  const Json message = whole.json()["message"];
  EXPECT_EQ(message["content"], "I look.");
  EXPECT_EQ(message["thinking"], "Which city?");
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], Json::parse(R"({"city":"Zürich"})"));
  EXPECT_EQ(whole.json()["done_reason"], "stop");
  EXPECT_GT(whole.json()["eval_count"], 0);

  const std::vector<Json> lines = post("/api/chat", "{" + kOllama + kAsk + "," + kTools + "}").lines();
  std::string content, thinking;
  Json calls = Json::array();
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["done"], i + 1 == lines.size());
    content += lines[i]["message"].value("content", "");
    thinking += lines[i]["message"].value("thinking", "");
    if (lines[i]["message"].contains("tool_calls"))
      for (const Json& call : lines[i]["message"]["tool_calls"]) calls.push_back(call);
  }
  EXPECT_EQ(content, "I look.");
  EXPECT_EQ(thinking, "Which city?");
  EXPECT_EQ(calls, message["tool_calls"]);
  const Json quiet = post("/api/chat", "{" + kOllama + kAsk + R"(,"think":false,"stream":false})").json();
  EXPECT_FALSE(quiet["message"].contains("thinking"));
}

TEST_F(ToolsTest, OllamaGenerateAndModels) {
  backend.engine.script = "Hello";
  const Json whole = post("/api/generate", R"({"model":"test-model","prompt":"hi","stream":false})").json();
  EXPECT_EQ(whole["response"], "Hello");
  EXPECT_EQ(whole["prompt_eval_count"], 20);
  const Json raw = post("/api/generate", R"({"model":"test-model","prompt":"hi","raw":true,"stream":false})").json();
  EXPECT_EQ(raw["prompt_eval_count"], 3);
  std::string text;
  for (const Json& line : post("/api/generate", R"({"model":"alias","prompt":"hi"})").lines())
    text += line["response"].get<std::string>();
  EXPECT_EQ(text, "Hello");
  EXPECT_EQ(post("/api/generate", R"({"model":"test-model"})").json()["done_reason"], "load");
  EXPECT_EQ(post("/api/chat", R"({"model":"nope","messages":[]})").status, 404);
  EXPECT_THAT(post("/api/chat", R"({"model":"nope","messages":[]})").json()["error"].get<std::string>(),
              HasSubstr("model 'nope' not found"));
  EXPECT_THAT(
      post("/api/generate", R"({"model":"test-model","raw":true,"prompt":")" + std::string(300, 'x') + "\"}").body,
      HasSubstr("prompt has 301 tokens"));
  EXPECT_EQ(ask("GET", "/api/tags").json()["models"][0]["details"]["quantization_level"], "F16");
  EXPECT_EQ(ask("GET", "/api/ps").json()["models"][0]["context_length"], 256);
  EXPECT_EQ(post("/api/show", R"({"model":"test-model"})").json()["model_info"]["general.architecture"], "test");
  EXPECT_EQ(ask("GET", "/api/version").json()["version"], PAGODA_VERSION);
  EXPECT_EQ(ask("HEAD", "/").status, 200);
  EXPECT_EQ(post("/api/pull", R"({"model":"alias"})").lines().back()["status"], "success");
  EXPECT_EQ(ask("DELETE", "/api/delete", R"({"model":"alias"})").status, 400);
  EXPECT_THAT(ask("GET", "/api/chat").body, HasSubstr("use POST here"));
}

// --- what conversations lack ---

TEST(CompleteMessages, NamesResultsAndShortensIds) {
  const std::string text = R"([{"role":"assistant","content":"","reasoning":"r","tool_calls":[
      {"id":"call_0123456789","function":{"name":"f","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"call_0123456789","content":"1"}])";
  Json messages = Json::parse(text);
  complete_messages(messages, false);
  EXPECT_EQ(messages[1]["name"], "f");
  EXPECT_EQ(messages[0]["reasoning_content"], "r");
  EXPECT_EQ(messages[1]["tool_call_id"], "call_0123456789");
  complete_messages(messages, true);
  EXPECT_EQ(messages[1]["tool_call_id"], messages[0]["tool_calls"][0]["id"]);
  EXPECT_EQ(messages[1]["tool_call_id"].get<std::string>().size(), 9u);
  const Json once = messages;
  complete_messages(messages, true);
  EXPECT_EQ(messages, once);
}

}  // namespace
}  // namespace pagoda::api
