#include "api/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/service_for_test.h"

namespace pagoda::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kHi = R"("messages":[{"role":"user","content":"hi"}])";

TEST_F(ServiceTest, ChatAnswersInOpenAisShape) {
  const Answer answer = post("/v1/chat/completions", "{" + kHi + R"(,"seed":7})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json json = answer.json();
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["model"], "test-model");
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["choices"][0]["message"]["content"], "Hello, world");
  EXPECT_EQ(json["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["choices"][0]["stop_reason"], nullptr);
  EXPECT_EQ(json["choices"][0]["logprobs"], nullptr);
  EXPECT_EQ(json["usage"]["completion_tokens"], 13);  // 12 bytes and </s>
  // <s>, "[user]", "hi", "[assistant]", each byte a token.
  EXPECT_EQ(json["usage"]["prompt_tokens"], 1 + 6 + 2 + 11);
  EXPECT_EQ(json["usage"]["total_tokens"], 20 + 13);
}

// Goal: the order and shape of chunks that clients depend on (cases S05, S07): the role with the first token only, one
// chunk a token, finish_reason null on all but one, usage on request only, "[DONE]" last.
TEST_F(ServiceTest, StreamHasOneChunkATokenAndTheRoleOnce) {
  const Answer answer = post("/v1/chat/completions", "{" + kHi + R"(,"stream":true})");
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
  const std::vector<Json> events = answer.events();
  ASSERT_EQ(events.size(), 13u) << answer.body;
  std::string text;
  for (size_t i = 0; i < events.size(); ++i) {
    const Json& choice = events[i]["choices"][0];
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(choice["delta"].contains("role"), i == 0);
    EXPECT_EQ(choice["finish_reason"].is_null(), i + 1 < events.size());
    EXPECT_FALSE(events[i].contains("usage"));
    EXPECT_EQ(events[i]["id"], events[0]["id"]);
    text += choice["delta"].value("content", "");
  }
  EXPECT_EQ(text, "Hello, world");
}

TEST_F(ServiceTest, StreamReportsUsageOnlyOnRequest) {
  const Json whole = post("/v1/chat/completions", "{" + kHi + "}").json();
  const auto with = [&](const std::string& options) {
    return post("/v1/chat/completions", "{" + kHi + R"(,"stream":true,"stream_options":)" + options + "}").events();
  };
  for (const Json& event : with(R"({"include_usage":false})")) EXPECT_FALSE(event.contains("usage"));
  const std::vector<Json> events = with(R"({"include_usage":true})");
  EXPECT_EQ(events.back()["choices"], Json::array());
  Json warm = whole["usage"];
  warm["prompt_tokens_details"]["cached_tokens"] = 19;  // the same prompt as before
  EXPECT_EQ(events.back()["usage"], warm);
  for (size_t i = 0; i + 1 < events.size(); ++i) EXPECT_FALSE(events[i].contains("usage"));
  const std::vector<Json> running = with(R"({"continuous_usage_stats":true})");
  EXPECT_EQ(running[2]["usage"]["completion_tokens"], 3);
}

// Goal: case K05: cached_tokens by salt, in bodies and streams, over several prompts and choices; a reset makes all
// cold.
TEST_F(ServiceTest, ReportsCachedTokensBySalt) {
  const auto cached = [&](const std::string& members) {
    const Answer answer = post("/v1/completions", R"({"max_tokens":2,)" + members + "}");
    EXPECT_EQ(answer.status, 200) << answer.body;
    const Json usage = answer.events().empty() ? answer.json()["usage"] : answer.events().back()["usage"];
    return usage["prompt_tokens_details"]["cached_tokens"].get<int>();
  };
  const std::string prompt = R"("prompt":")" + std::string(40, 'x') + "\"";  // and <s>: 41 tokens
  EXPECT_EQ(cached(prompt + R"(,"cache_salt":"A")"), 0);
  EXPECT_EQ(cached(prompt + R"(,"cache_salt":"A")"), 40);
  EXPECT_EQ(cached(prompt + R"(,"cache_salt":"B")"), 0);
  EXPECT_EQ(cached(prompt), 0);
  EXPECT_EQ(cached(prompt + R"(,"n":3)"), 40);
  EXPECT_EQ(cached(prompt + R"(,"stream":true,"stream_options":{"include_usage":true})"), 40);
  EXPECT_EQ(cached(prompt + R"(,"stream":true,"stream_options":{"continuous_usage_stats":true})"), 40);
  EXPECT_EQ(cached(prompt + R"(,"echo":true,"logprobs":1)"), 0);
  const std::string x = std::string(40, 'x');
  EXPECT_EQ(cached(R"("n":2,"prompt":[")" + x + R"(","y","x","xxz",")" + x + "\"]"), 40 + 1 + 1 + 3 + 40);
  const Json report = post("/v1/completions", "{" + prompt + R"(,"n":2})").json()["cache"];
  EXPECT_EQ(
      report,
      Json::parse(R"([{"cached_tokens":40,"from":{"pool":40,"host":0,"disk":0},"left_at":40,"why":"complete"}])"));
  const Json both = post("/v1/completions", R"({"prompt":["new text","x"],"cache_salt":"C","stream":true,)"
                                            R"("stream_options":{"include_usage":true}})")
                        .events()
                        .back()["cache"];
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0]["why"], "partial_block");
  EXPECT_EQ(both[0]["left_at"], 0);
  const Answer reset = post("/reset_prefix_cache", "");
  EXPECT_EQ(reset.status, 200);
  EXPECT_EQ(ask("GET", "/reset_prefix_cache").status, 405);
  EXPECT_EQ(cached(prompt), 0);
  EXPECT_EQ(cached(prompt + R"(,"cache_salt":"A")"), 0);
}

// Goal: choices carry their index, in a stream and in a body, and a prompt counts once in usage (case M03).
TEST_F(ServiceTest, SeveralChoices) {
  const Json json = post("/v1/chat/completions", "{" + kHi + R"(,"n":3})").json();
  ASSERT_EQ(json["choices"].size(), 3u);
  EXPECT_EQ(json["usage"]["prompt_tokens"], 20);
  EXPECT_EQ(json["usage"]["completion_tokens"], 39);
  std::map<int, std::string> texts;
  std::map<int, int> ends;
  for (const Json& event : post("/v1/chat/completions", "{" + kHi + R"(,"n":3,"stream":true})").events()) {
    const Json& choice = event["choices"][0];
    texts[choice["index"].get<int>()] += choice["delta"].value("content", "");
    ends[choice["index"].get<int>()] += choice["finish_reason"].is_null() ? 0 : 1;
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(json["choices"][static_cast<size_t>(i)]["index"], i);
    EXPECT_EQ(texts[i], "Hello, world");
    EXPECT_EQ(ends[i], 1);
  }
}

// Goal: chat logprobs hold the exact doubles of the floats, with bytes, and as many likeliest tokens as asked for.
TEST_F(ServiceTest, ChatLogprobs) {
  const Json json =
      post("/v1/chat/completions", "{" + kHi + R"(,"logprobs":true,"top_logprobs":2,"max_tokens":2})").json();
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  const Json& content = json["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2u);
  EXPECT_EQ(content[0]["token"], "H");
  EXPECT_EQ(content[0]["bytes"], Json::array({'H'}));
  EXPECT_EQ(content[0]["logprob"].get<double>(), static_cast<double>(-0.3f));
  ASSERT_EQ(content[0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(content[0]["top_logprobs"][1]["token"], "b");
  EXPECT_EQ(content[0]["top_logprobs"][1]["logprob"].get<double>(), static_cast<double>(-1.4f));
}

// Goal: what lm-eval needs: echo with logprobs covers the prompt and the generated token, first entries null.
TEST_F(ServiceTest, EchoWithLogprobsCoversThePrompt) {
  const Json json =
      post("/v1/completions", R"({"prompt":[[1,68,69],[70]],"echo":true,"logprobs":1,"max_tokens":1})").json();
  ASSERT_EQ(json["choices"].size(), 2u);
  const Json& first = json["choices"][0];
  EXPECT_EQ(first["text"], "ABH");  // <s> is not shown
  EXPECT_EQ(first["logprobs"]["tokens"], Json::array({"<s>", "A", "B", "H"}));
  EXPECT_EQ(first["logprobs"]["token_logprobs"][0], nullptr);
  EXPECT_EQ(first["logprobs"]["token_logprobs"][1].get<double>(), static_cast<double>(-0.1f));
  EXPECT_EQ(first["logprobs"]["token_logprobs"][2].get<double>(), static_cast<double>(-0.2f));
  EXPECT_EQ(first["logprobs"]["token_logprobs"][3].get<double>(), static_cast<double>(-0.3f));
  EXPECT_EQ(first["logprobs"]["top_logprobs"][0], nullptr);
  EXPECT_EQ(first["logprobs"]["top_logprobs"][1].size(), 2u);  // the likeliest and the prompt's own
  EXPECT_EQ(first["logprobs"]["text_offset"], Json::array({0, 0, 1, 2}));
  EXPECT_EQ(json["choices"][1]["logprobs"]["tokens"], Json::array({"C", "H"}));
  EXPECT_EQ(json["usage"]["prompt_tokens"], 4);
}

TEST_F(ServiceTest, EchoWithoutNewTokensScoresThePrompt) {
  const Json json = post("/v1/completions", R"({"prompt":"AB","echo":true,"logprobs":0,"max_tokens":0})").json();
  EXPECT_EQ(json["choices"][0]["text"], "AB");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["choices"][0]["logprobs"]["tokens"].size(), 3u);
  EXPECT_EQ(json["usage"]["completion_tokens"], 0);
}

TEST_F(ServiceTest, CompletionsStopAndNameTheStop) {
  const Json json = post("/v1/completions", R"({"prompt":"x","stop":[", w"]})").json();
  EXPECT_EQ(json["object"], "text_completion");
  EXPECT_EQ(json["choices"][0]["text"], "Hello");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["choices"][0]["stop_reason"], ", w");
  const Json by_id =
      post("/v1/completions", R"({"prompt":"x","stop_token_ids":[)" + std::to_string(test_byte('o')) + "]}").json();
  EXPECT_EQ(by_id["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(by_id["choices"][0]["stop_reason"], test_byte('o'));
  const Json cut = post("/v1/completions", R"({"prompt":"x","max_tokens":5})").json();
  EXPECT_EQ(cut["choices"][0]["text"], "Hello");
  EXPECT_EQ(cut["choices"][0]["finish_reason"], "length");
}

TEST_F(ServiceTest, PromptLogprobsAndTokenIds) {
  const Json json =
      post("/v1/completions", R"({"prompt":"AB","prompt_logprobs":2,"return_token_ids":true,"max_tokens":2})").json();
  const Json& choice = json["choices"][0];
  EXPECT_EQ(choice["prompt_token_ids"], Json::array({1, 68, 69}));
  EXPECT_EQ(choice["token_ids"], Json::array({test_byte('H'), test_byte('e')}));
  ASSERT_EQ(choice["prompt_logprobs"].size(), 3u);
  EXPECT_EQ(choice["prompt_logprobs"][0], nullptr);
  EXPECT_EQ(choice["prompt_logprobs"][1]["68"]["logprob"].get<double>(), static_cast<double>(-0.1f));
  EXPECT_EQ(choice["prompt_logprobs"][1][std::to_string(test_byte('a'))]["rank"], 1);
}

// Goal: too long is 400 with the numbers, never a shortened prompt (cases D03, O03); a length nobody gave ends at the
// context's end.
TEST_F(ServiceTest, ContextLimits) {
  const Answer over = post("/v1/completions", R"({"prompt":")" + std::string(300, 'x') + "\"}");
  EXPECT_EQ(over.status, 400);
  EXPECT_EQ(over.json()["error"]["code"], "context_length_exceeded");
  EXPECT_THAT(over.body, HasSubstr("prompt has 301 tokens, this model's maximum context length is 256"));
  EXPECT_EQ(post("/v1/completions", R"({"prompt":[]})").status, 400);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"","add_special_tokens":false})").status, 400);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":""})").status, 200);  // <s>
  const Json filled = post("/v1/chat/completions", "{" + kHi + R"(,"ignore_eos":true})").json();
  EXPECT_EQ(filled["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(filled["usage"]["total_tokens"], 256);
}

TEST_F(ServiceTest, ReservationsAreLimited) {
  EXPECT_THAT(post("/v1/completions", R"({"prompt":")" + std::string(200, 'x') +
                                          R"(","n":128,"max_tokens":50,"stream":true,"echo":true,"logprobs":1})")
                  .body,
              HasSubstr("only with n = 1"));
}

TEST_F(ServiceTest, AFailedSequenceIsAnError) {
  const Answer answer = post("/v1/completions", R"({"prompt":"boom!","stream":true})");
  EXPECT_THAT(answer.body, HasSubstr(R"("error":{"message":"the model's logits are not numbers")"));
}

TEST_F(ServiceTest, UnseededRequestsReportASeedThatReplays) {
  const Json one = post("/v1/completions", R"({"prompt":"x"})").json(),
             two = post("/v1/completions", R"({"prompt":"x"})").json();
  EXPECT_NE(one["seed"], two["seed"]);
  EXPECT_LT(one["seed"].get<int64_t>(), int64_t{1} << 53);
  Service a({.seed = 5}), b({.seed = 5});
  a.set_backend(backend.backend());
  b.set_backend(backend.backend());
  const HttpRequest request{.method = "POST", .path = "/v1/completions", .body = R"({"prompt":"x"})"};
  EXPECT_EQ(std::get<PreparedGeneration>(a.handle(request)).seed, std::get<PreparedGeneration>(b.handle(request)).seed);
}

TEST_F(ServiceTest, TokenRoutes) {
  const Json tokens = post("/tokenize", R"({"prompt":"<s>A","return_token_strs":true})").json();
  EXPECT_EQ(tokens["tokens"], Json::array({1, 68}));  // BOS is not added twice
  EXPECT_EQ(tokens["count"], 2);
  EXPECT_EQ(tokens["max_model_len"], 256);
  EXPECT_EQ(tokens["token_strs"], Json::array({"<s>", "A"}));
  EXPECT_EQ(post("/tokenize", R"({"prompt":"A","add_special_tokens":false})").json()["tokens"], Json::array({68}));
  EXPECT_EQ(post("/tokenize", R"({"prompt":"<s>","add_special_tokens":false,"parse_special":false})").json()["count"],
            3);
  EXPECT_EQ(post("/tokenize", "{" + kHi + "}").json()["count"], 20);
  // A user's "<s>" stays text.
  EXPECT_EQ(post("/tokenize", R"({"messages":[{"role":"user","content":"<s>"}]})").json()["count"], 21);
  EXPECT_EQ(post("/detokenize", R"({"tokens":[68,69]})").json()["prompt"], "AB");
  EXPECT_EQ(post("/detokenize", R"({"tokens":[259]})").status, 400);
  EXPECT_EQ(ask("GET", "/tokenizer_info").json()["eos_token"], "</s>");
}

TEST_F(ServiceTest, Routes) {
  EXPECT_EQ(ask("GET", "/health").status, 200);
  EXPECT_EQ(ask("GET", "/ready").status, 200);
  EXPECT_EQ(ask("GET", "/v1/models").json()["data"][0]["root"], "test-model");
  EXPECT_EQ(ask("GET", "/v1/models").json()["data"][1]["id"], "alias");
  EXPECT_EQ(ask("GET", "/v1/models/alias").json()["max_model_len"], 256);
  EXPECT_EQ(ask("GET", "/v1/models/other").status, 404);
  EXPECT_EQ(ask("GET", "/version").json()["version"], PAGODA_VERSION);
  EXPECT_THAT(ask("GET", "/metrics").body, HasSubstr("vllm:num_requests_running"));
  EXPECT_EQ(ask("GET", "/load").json()["server_load"], 0);
  EXPECT_EQ(ask("GET", "/nowhere").status, 404);
  EXPECT_EQ(ask("GET", "/v1/completions").status, 405);
  EXPECT_EQ(ask("POST", "/health").status, 405);
  EXPECT_EQ(ask("OPTIONS", "/v1/completions").status, 204);
  EXPECT_EQ(post("/v1/completions", "{").status, 400);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"x","model":"other"})").json()["error"]["code"], "model_not_found");
}

TEST_F(ServiceTest, LoadingAndDraining) {
  Service fresh{Service::Options{}};
  for (const char* path : {"/health", "/ready", "/v1/models", "/metrics", "/version"}) {
    const Reply reply = fresh.handle({.method = "GET", .path = path});
    EXPECT_EQ(std::get<HttpResponse>(reply).status, 503) << path;
  }
  fresh.begin_drain();  // a signal while loading
  service.begin_drain();
  EXPECT_EQ(ask("GET", "/health").status, 200);
  EXPECT_EQ(ask("GET", "/ready").status, 503);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"x"})").status, 503);
}

// Goal: with a key, every route but /health wants it, from any of the three headers.
TEST_F(ServiceTest, ApiKey) {
  Service locked({.api_keys = {"other", "secret"}});
  locked.set_backend(backend.backend());
  const auto status = [&](HttpRequest request) {
    const Reply reply = locked.handle(request);
    return std::get<HttpResponse>(reply).status;
  };
  EXPECT_EQ(status({.method = "GET", .path = "/health"}), 200);
  for (const char* path : {"/ready", "/metrics", "/v1/models", "/version", "/nowhere"}) {
    EXPECT_EQ(status({.method = "GET", .path = path}), 401) << path;
    EXPECT_EQ(status({.method = "GET", .path = path, .authorization = "Bearer wrong"}), 401) << path;
    EXPECT_EQ(status({.method = "GET", .path = path, .authorization = "secret"}), 401) << path;
  }
  EXPECT_EQ(status({.method = "GET", .path = "/v1/models", .authorization = "Bearer secret"}), 200);
  EXPECT_EQ(status({.method = "GET", .path = "/v1/models", .authorization = "bearer secret"}), 200);
  EXPECT_EQ(status({.method = "GET", .path = "/v1/models", .x_api_key = "secret"}), 200);
  EXPECT_EQ(status({.method = "GET", .path = "/v1/models", .api_key = "secret"}), 200);
  EXPECT_EQ(status({.method = "POST", .path = "/v1/completions", .body = "{}"}), 401);
}

// Goal: with several keys the share is the key's, whatever the client calls itself; with one it is the `user`'s.
TEST_F(ServiceTest, AccountsAreKeysOrUsers) {
  const auto account = [&](std::vector<std::string> keys, const std::string& key) {
    Service one({.api_keys = std::move(keys)});
    one.set_backend(backend.backend());
    const Reply reply = one.handle(
        {.method = "POST", .path = "/v1/completions", .x_api_key = key, .body = R"({"prompt":["a","b"],"user":"me"})"});
    const auto& requests = std::get<PreparedGeneration>(reply).requests;
    EXPECT_EQ(requests[0].account, requests[1].account);
    return requests[1].account;
  };
  EXPECT_EQ(account({}, ""), "me");
  EXPECT_EQ(account({"k1"}, "k1"), "me");
  EXPECT_EQ(account({"k1", "k2"}, "k2"), "k2");
}

/// Answers that carry receipts.
class ReceiptTest : public ServiceTest {
 protected:
  ReceiptTest() {
    auto with = std::make_shared<Backend>(*backend.backend());
    with->receipts = std::make_shared<ReceiptSource>(ReceiptSource{.build = "pagoda test",
                                                                   .model = "m",
                                                                   .model_sha256 = [] { return std::string(64, '0'); },
                                                                   .ready = [] { return true; },
                                                                   .kv_k = "f16",
                                                                   .kv_v = "f16",
                                                                   .max_model_len = 256,
                                                                   .chat_template = "{{ messages }}"});
    service.set_backend(with);
  }
  Receipt receipt_of(const Json& document) {
    const auto read = read_receipt(JsonField(document["receipt"]), backend.facts);
    EXPECT_TRUE(read.ok()) << read.error().message << document.dump();
    return read.ok() ? read.value() : Receipt{};
  }
};

// Goal: an answer ends with a receipt of exactly its tokens and settings, whole or streamed, and without one on
// request.
TEST_F(ReceiptTest, EveryWholeAnswerHasOne) {
  const Json whole = post("/v1/chat/completions", "{" + kHi + R"(,"seed":7,"n":2,"temperature":0.5})").json();
  const Receipt receipt = receipt_of(whole);
  std::vector<TokenId> said;
  for (const char c : std::string("Hello, world")) said.push_back(test_byte(c));
  said.push_back(kTestEos);
  ASSERT_EQ(receipt.choices.size(), 2u);
  for (const ReceiptChoice& choice : receipt.choices) {
    EXPECT_EQ(choice.ids, said);
    EXPECT_EQ(choice.ended_by, "stop");
  }
  EXPECT_EQ(receipt.prompts[0].tokens, whole["usage"]["prompt_tokens"]);
  EXPECT_EQ(receipt.prompts[0].max_tokens, 256 - receipt.prompts[0].tokens);
  EXPECT_EQ(receipt.generation.sampling.seed, 7u);
  EXPECT_EQ(receipt.generation.sampling.temperature, 0.5f);
  const Json unseeded = post("/v1/completions", R"({"prompt":["a","b"],"max_tokens":3,"echo":true})").json();
  const Receipt two = receipt_of(unseeded);
  EXPECT_EQ(static_cast<int64_t>(two.generation.sampling.seed), unseeded["seed"]);
  EXPECT_TRUE(two.echo);
  EXPECT_EQ(two.chat_template_sha256, "");
  ASSERT_EQ(two.prompts.size(), 2u);
  EXPECT_EQ(two.choices[1].ended_by, "length");
  EXPECT_FALSE(post("/v1/completions", R"({"prompt":"a","receipt":false})").json().contains("receipt"));
}

TEST_F(ReceiptTest, AStreamsLastEventHasIt) {
  for (const std::string usage : {"", R"(,"stream_options":{"include_usage":true})"}) {
    const std::vector<Json> events =
        post("/v1/chat/completions", "{" + kHi + R"(,"n":3,"stream":true)" + usage + "}").events();
    for (size_t i = 0; i + 1 < events.size(); ++i) EXPECT_FALSE(events[i].contains("receipt"));
    const Receipt receipt = receipt_of(events.back());
    ASSERT_EQ(receipt.choices.size(), 3u);
    for (const ReceiptChoice& choice : receipt.choices) EXPECT_EQ(choice.tokens, 13);
    EXPECT_EQ(events.back().contains("usage"), !usage.empty());
  }
  const std::vector<Json> failed = post("/v1/completions", R"({"prompt":["a","b!"],"stream":true})").events();
  for (const Json& event : failed) EXPECT_FALSE(event.contains("receipt"));
}

// Goal: a client that does not read costs a bounded number of deltas and loses nothing. Method: 1000 events, none
// taken.
TEST(Inbox, MergesWhatIsNotRead) {
  const auto inbox = std::make_shared<Inbox>(2, true, true, [] {});
  const auto sink = inbox->sink(0);
  std::string want[2];
  for (int i = 0; i < 1000; ++i) {
    scheduler::Event event;
    event.choice = i % 2;
    event.text = std::to_string(i) + " ";
    event.token = sampling::SampledToken{.id = i};
    event.completion_tokens = i / 2 + 1;
    if (i >= 998) event.finish = scheduler::FinishReason::kStop;
    want[i % 2] += event.text;
    sink->push(std::move(event));
  }
  EXPECT_TRUE(inbox->finished());
  const std::vector<Delta> deltas = inbox->take();
  EXPECT_LE(deltas.size(), Inbox::kUnmergedMax + 2);
  std::string got[2];
  size_t tokens = 0;
  for (const Delta& delta : deltas) {
    got[delta.choice] += delta.text;
    tokens += delta.sampled.size();
  }
  EXPECT_EQ(got[0], want[0]);
  EXPECT_EQ(got[1], want[1]);
  EXPECT_EQ(tokens, 1000u);
  EXPECT_TRUE(inbox->take().empty());
}

}  // namespace
}  // namespace pagoda::api
