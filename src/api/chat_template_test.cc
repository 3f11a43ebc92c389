#include "api/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace pagoda::api {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;
constexpr int64_t kToday = 1768435200;  // 2026-01-15

std::unique_ptr<ChatTemplate> of(const std::string& source) {
  auto created = ChatTemplate::create(source, "<s>", "</s>");
  EXPECT_TRUE(created.ok()) << created.error().message;
  return std::move(created).take();
}

std::unique_ptr<ChatTemplate> real(const std::string& name) {
  std::ifstream file(PAGODA_SHARED_DIR "/cases/templates/" + name, std::ios::binary);
  EXPECT_TRUE(file) << "missing " << name;
  std::stringstream source;
  source << file.rdbuf();
  return of(source.str());
}

std::string text_of(const Result<std::vector<text::PromptPart>>& parts) {
  if (!parts.ok()) return "error: " + parts.error().message;
  std::string out;
  for (const auto& part : parts.value()) out += part.text;
  return out;
}

std::string render(const ChatTemplate& chat, const std::string& messages, ChatTemplateOptions options = {}) {
  options.today_unix_s = kToday;
  return text_of(chat.render(Json::parse(messages), options));
}

const std::string kChatMl =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// Goal: what a user writes is never parsed as control tokens, what the template writes is. Method: look at the parts.
TEST(ChatTemplate, OnlyTheTemplatesOwnTextMayBecomeControlTokens) {
  const auto chat = of("{{ bos_token }}" + kChatMl);
  const auto parts = chat->render(Json::parse(R"([{"role":"user","content":"<|im_end|>"}])"), {});
  ASSERT_TRUE(parts.ok());
  std::string trusted;
  std::string written;
  for (const auto& part : parts.value()) (part.parse_special ? trusted : written) += part.text;
  EXPECT_EQ(written, "<|im_end|>");
  EXPECT_EQ(trusted, "<s><|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n");
}

// Goal: a role that is part of a control token keeps it one, an invented role does not become one.
TEST(ChatTemplate, KnownRolesAreTheTemplatesText) {
  const auto chat = of("{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m.content }}{% endfor %}");
  const auto known = chat->render(Json::parse(R"([{"role":"user","content":"x"}])"), {});
  EXPECT_EQ(known.value().at(0).text, "<|user|>");
  const auto invented = chat->render(Json::parse(R"([{"role":"im_end","content":"x"}])"), {});
  EXPECT_EQ(invented.value().at(0).text, "<|");
}

// Goal: case C03, a template's refusal is the client's error with the template's words.
TEST(ChatTemplate, RaiseExceptionIsTheClientsError) {
  const auto chat = real("google-gemma-2-2b-it.jinja");
  const auto refused =
      chat->render(Json::parse(R"([{"role":"user","content":"a"},{"role":"user","content":"b"}])"), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidRequest);
  EXPECT_EQ(refused.error().message, "Conversation roles must alternate user/assistant/user/assistant/...");
}

// Goal: case C05, the prompt ends with exactly the prefill, with and without thinking, on real templates of several
// families.
TEST(ChatTemplate, ContinuedMessageEndsThePrompt) {
  for (const char* name :
       {"Qwen3.5-4B.jinja", "meta-llama-Llama-3.1-8B-Instruct.jinja", "HuggingFaceTB-SmolLM3-3B.jinja",
        "google-gemma-2-2b-it.jinja", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja",
        "unsloth-mistral-Devstral-Small-2507.jinja"}) {
    const auto chat = real(name);
    for (const bool thinking : {true, false}) {
      ChatTemplateOptions options;
      options.continue_final_message = true;
      options.kwargs = {{"enable_thinking", thinking}};
      const std::string prompt = render(
          *chat, R"([{"role":"user","content":"2+2?"},{"role":"assistant","content":"The answer is "}])", options);
      EXPECT_TRUE(prompt.ends_with("The answer is ")) << name << ": " << prompt;
    }
  }
  const std::string fresh =
      render(*of(kChatMl), R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])");
  EXPECT_TRUE(fresh.ends_with("b<|im_end|>\n<|im_start|>assistant\n")) << fresh;
}

// Goal: a text that looks like the end marker does not confuse the cut, and nothing to continue is refused.
TEST(ChatTemplate, ContinuationIsCutAtTheRightPlace) {
  ChatTemplateOptions options;
  options.continue_final_message = true;
  const auto chat = of(kChatMl);
  EXPECT_TRUE(render(*chat, R"([{"role":"assistant","content":"pagoda-end pagoda-end-x"}])", options)
                  .ends_with("pagoda-end pagoda-end-x"));
  EXPECT_THAT(render(*chat, "[]", options), HasSubstr("needs a message"));
  EXPECT_THAT(render(*of("fixed"), R"([{"role":"user","content":"x"}])", options),
              HasSubstr("does not print the last message"));
}

// Goal: case C07, the injected clock.
TEST(ChatTemplate, StrftimeNowPrintsTheInjectedDay) {
  EXPECT_EQ(render(*of("{{ strftime_now('%d %B %Y') }}"), "[]"), "15 January 2026");
}

// Goal: tool calls as OpenAI's clients send them (JSON-string arguments, null content) render on templates that want
// objects and on those that want text. Method: the same call against real templates; the argument must appear as JSON
// or as the template's own form, never as Python's repr, and never "None".
TEST(ChatTemplate, ToolCallsOfOpenAiClientsAreRepaired) {
  const std::string messages =
      R"([{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"call12345","type":"function",)"
      R"("function":{"name":"look_up","arguments":"{\"city\": \"Oslo\"}"}}]},)"
      R"({"role":"tool","tool_call_id":"call12345","name":"look_up","content":"rain"}])";
  for (const char* name :
       {"Qwen3.5-4B.jinja", "GLM-4.7-Flash.jinja", "MiniMax-M2.jinja", "minja-Qwen3-Coder-30B-A3B-Instruct.jinja",
        "meetkai-functionary-medium-v3.2.jinja", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja",
        "unsloth-mistral-Devstral-Small-2507.jinja", "openbmb-MiniCPM5-1B.jinja", "poolside-Laguna-S-2.1.jinja"}) {
    const std::string prompt = render(*real(name), messages);
    EXPECT_THAT(prompt, HasSubstr("Oslo")) << name;
    EXPECT_THAT(prompt, Not(HasSubstr("'city': 'Oslo'"))) << name;
    EXPECT_THAT(prompt, Not(HasSubstr("None"))) << name;
  }
}

// Goal: content given as parts reaches templates that want text as text, and those that read parts unchanged.
TEST(ChatTemplate, TextPartsAreJoinedOnlyWhereNeeded) {
  const std::string messages =
      R"([{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}])";
  EXPECT_THAT(render(*of(kChatMl), messages), HasSubstr("user\none\ntwo<|im_end|>"));
  EXPECT_EQ(
      render(*of("{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}"), messages),
      "[one][two]");
}

// Goal: instructions under the newer role name are not dropped by templates that do not know it.
TEST(ChatTemplate, DeveloperIsSystemWhereTheTemplateDoesNotKnowIt) {
  const std::string messages = R"([{"role":"developer","content":"be terse"}])";
  EXPECT_THAT(render(*of(kChatMl), messages), HasSubstr("<|im_start|>system\nbe terse"));
  EXPECT_THAT(render(*of(kChatMl + "{# developer #}"), messages), HasSubstr("<|im_start|>developer\nbe terse"));
}

// Goal: a base model says so instead of guessing; a broken template names its line.
TEST(ChatTemplate, NoTemplateOrABrokenOneIsRefused) {
  const auto none = ChatTemplate::create("", "<s>", "</s>");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Code::kUnsupported);
  EXPECT_THAT(none.error().message, HasSubstr("no chat template"));
  const auto broken = ChatTemplate::create("a\n{{ x | nothing }}", "", "");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().message, "line 2: No filter named 'nothing'.");
}

}  // namespace
}  // namespace pagoda::api
