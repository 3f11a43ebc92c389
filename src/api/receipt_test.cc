// Goal: a receipt says everything that decides an answer, and nothing of it is lost on the way through JSON. Method: a
// request with every field set is written, read and compared; then each field is taken away or spoilt.
#include "api/receipt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/openai_fields.h"

namespace pagoda::api {
namespace {

using testing::HasSubstr;

ReceiptSource source() {
  return {.build = "pagoda test, numbers 1",
          .model = "m",
          .model_sha256 = [] { return std::string(64, 'a'); },
          .ready = [] { return true; },
          .kv_k = "int8",
          .kv_v = "f16",
          .max_model_len = 4096,
          .chat_template = "{{ messages }}"};
}

ModelFacts facts() { return {.names = {"m"}, .vocab_size = 1000, .max_model_len = 64}; }

GenerationRequest everything() {
  const Json body = Json::parse(R"({"temperature":0.7,"top_p":0.9,"min_p":0.05,"repetition_penalty":0.01,
    "presence_penalty":-0.3,"frequency_penalty":1.1,"top_k":40,"logit_bias":{"7":-100,"900":0.1},"seed":-5,"n":2,
    "stop":["a","\n\n"],"stop_token_ids":[3,4],"ignore_eos":true,"include_stop_str_in_output":true,
    "skip_special_tokens":false,"min_tokens":3})");
  Result<GenerationRequest> request = read_generation(JsonField(body), facts());
  EXPECT_TRUE(request.ok());
  EXPECT_TRUE(finish_generation(JsonField(body), request.value(), facts()).ok());
  return std::move(request).take();
}

Json written(const std::vector<TokenId>& prompt = {1, 2, 3}) {
  return receipt_json(
      source(), everything(), /*chat=*/true, /*echo=*/false, {receipt_prompt(prompt, 16)},
      {receipt_choice({5, 6}, scheduler::FinishReason::kStop), receipt_choice({}, scheduler::FinishReason::kLength)});
}

TEST(Receipt, SaysEverythingAndComesBackWhole) {
  const Json json = Json::parse(written().dump());
  const auto read = read_receipt(JsonField(json), facts());
  ASSERT_TRUE(read.ok()) << read.error().message;
  const Receipt& receipt = read.value();
  const GenerationRequest want = everything();
  EXPECT_EQ(sampling_json(receipt.generation), sampling_json(want));
  EXPECT_EQ(receipt.generation.sampling.temperature, 0.7f);
  EXPECT_EQ(receipt.generation.sampling.repetition_penalty, 0.01f);
  EXPECT_EQ(receipt.generation.sampling.logit_bias, want.sampling.logit_bias);
  EXPECT_EQ(receipt.generation.sampling.seed, static_cast<uint64_t>(-5));
  EXPECT_EQ(receipt.generation.sampling.min_tokens, 3);
  EXPECT_EQ(json["sampling"]["temperature"].dump(), "0.7");
  EXPECT_EQ(receipt.model, "m");
  EXPECT_EQ(receipt.kv_k, "int8");
  EXPECT_EQ(receipt.kv_v, "f16");
  EXPECT_EQ(receipt.max_model_len, 4096);
  EXPECT_EQ(receipt.chat_template_sha256, digest_of_text("{{ messages }}"));
  ASSERT_TRUE(receipt.prompts[0].ids);
  EXPECT_EQ(*receipt.prompts[0].ids, (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(receipt.prompts[0].max_tokens, 16);
  EXPECT_EQ(*receipt.choices[0].ids, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(receipt.choices[0].ended_by, "stop");
  EXPECT_EQ(receipt.choices[1].tokens, 0);
}

TEST(Receipt, ABeamSearchComesBackWhole) {
  GenerationRequest request;
  request.n = 2;
  request.beam = {.width = 4, .length_penalty = 0.6f, .early_stopping = true};
  Json json = receipt_json(
      source(), request, true, false, {receipt_prompt({1}, 16)},
      {receipt_choice({5}, scheduler::FinishReason::kStop), receipt_choice({6}, scheduler::FinishReason::kStop)});
  const auto read = read_receipt(JsonField(json), facts());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().generation.beam.width, 4);
  EXPECT_EQ(read.value().generation.beam.length_penalty, 0.6f);
  EXPECT_TRUE(read.value().generation.beam.early_stopping);
  json["sampling"].erase("beam_width");
  EXPECT_FALSE(read_receipt(JsonField(json), facts()).ok());
}

TEST(Receipt, DigestsAreThoseOfFourBytesAnId) {
  // sha256sum of 01 00 00 00 2a 01 00 00, and of nothing.
  EXPECT_EQ(digest_of_tokens(std::vector<TokenId>{1, 298}),
            "22c7b3b2bb6c9d31114068934621e31f149d1d245ecb5df100ac65137abbc3b2");
  EXPECT_EQ(digest_of_tokens({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of_text("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Receipt, LongListsAreTheirDigest) {
  const std::vector<TokenId> most(kReceiptIdsMax, 9), more(kReceiptIdsMax + 1, 9);
  EXPECT_TRUE(written(most)["prompts"][0].contains("token_ids"));
  const Json json = written(more);
  EXPECT_FALSE(json["prompts"][0].contains("token_ids"));
  const auto read = read_receipt(JsonField(json), facts());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().prompts[0].tokens, std::ssize(more));
  EXPECT_EQ(read.value().prompts[0].sha256, digest_of_tokens(more));
}

TEST(Receipt, RefusesWhatIsMissingOrWrong) {
  const auto why = [](const std::function<void(Json&)>& spoil) {
    Json json = written();
    spoil(json);
    const auto read = read_receipt(JsonField(json), facts());
    return read.ok() ? std::string() : read.error().message;
  };
  EXPECT_EQ(why([](Json&) {}), "");
  EXPECT_THAT(why([](Json& j) { j["format"] = 2; }), HasSubstr("format"));
  EXPECT_THAT(why([](Json& j) { j["model"]["sha256"] = "AB"; }), HasSubstr("model.sha256"));
  EXPECT_THAT(why([](Json& j) { j["prompts"][0]["token_ids"][1] = 1000; }), HasSubstr("token_ids"));
  EXPECT_THAT(why([](Json& j) { j["prompts"][0]["tokens"] = 4; }), HasSubstr("tokens"));
  EXPECT_THAT(why([](Json& j) { j["choices"].erase(1); }), HasSubstr("choices"));
  EXPECT_THAT(why([](Json& j) { j["sampling"]["temperature"] = 3; }), HasSubstr("temperature"));
  const Json whole = sampling_json({});
  for (const auto& item : whole.items())
    EXPECT_THAT(why([&](Json& j) { j["sampling"].erase(item.key()); }), HasSubstr(item.key()));
}

}  // namespace
}  // namespace pagoda::api
