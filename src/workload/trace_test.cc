// Goal: traces are read as they are written, and scaled by one factor without losing what prompts share. Method: the
// shown traces' first lines, and small ones by hand.
#include "workload/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

namespace pagoda::workload {
namespace {

const std::string kFolder = std::string(PAGODA_SHARED_DIR) + "/cases/traces/";

TEST(Trace, ReadsAzureAndMooncake) {
  const auto azure = read_trace(kFolder + "AzureLLMInferenceTrace_code_dev.csv", 3);
  ASSERT_TRUE(azure.ok()) << azure.error().message;
  ASSERT_EQ(azure.value().size(), 3u);
  EXPECT_EQ(azure.value()[0].prompt_tokens, 4808);
  EXPECT_EQ(azure.value()[1].answer_tokens, 8);
  EXPECT_NEAR(azure.value()[1].arrival_s, 0.052, 1e-6);
  const auto mooncake = read_trace(kFolder + "mooncake_conversation_trace_dev.jsonl", 2);
  ASSERT_TRUE(mooncake.ok()) << mooncake.error().message;
  EXPECT_EQ(mooncake.value()[0].prompt_tokens, 6758);
  EXPECT_EQ(mooncake.value()[1].blocks.size(), 15u);
  EXPECT_FALSE(read_trace(kFolder + "none", 2).ok());
}

TEST(Trace, NamesTheLineThatIsNone) {
  const std::string path = ::testing::TempDir() + "trace.csv";
  for (const char* bad : {"nonsense", "2023-11-16 18:17:nan,1,2", "2023-11-16 18:17:03.9,-1,2",
                          R"({"timestamp":0,"input_length":1e30,"output_length":1})", R"({"timestamp":0)"}) {
    std::ofstream(path) << "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9,1,2\n" << bad << "\n";
    const auto trace = read_trace(path, 10);
    ASSERT_FALSE(trace.ok()) << bad;
    EXPECT_NE(trace.error().message.find("line 3"), std::string::npos);
  }
}

TEST(Trace, ScalesByOneFactorAndKeepsWhatIsShared) {
  const std::vector<TraceRequest> trace{{0, 1100, 100, {7, 8, 9}}, {10, 1024, 50, {7, 8}}, {20, 1024, 50, {7, 3}}};
  const auto scaled = scale_trace(trace, {.lengths = 0.125, .requests_per_s = 1, .tokens_max = 400, .vocab = 1000});
  ASSERT_EQ(scaled.size(), 3u);
  EXPECT_EQ(scaled[0].prompt.size(), 138u);
  EXPECT_EQ(scaled[0].max_tokens, 13);
  EXPECT_DOUBLE_EQ(scaled[1].arrival_s, 1);
  EXPECT_DOUBLE_EQ(scaled[2].arrival_s, 2);
  const auto common = [](const auto& a, const auto& b) { return std::ranges::mismatch(a, b).in1 - a.begin(); };
  EXPECT_EQ(common(scaled[0].prompt, scaled[1].prompt), 128);  // two stretches of 64
  EXPECT_EQ(common(scaled[0].prompt, scaled[2].prompt), 64);
  const auto cut = scale_trace(trace, {.lengths = 1, .tokens_max = 64, .vocab = 1000});
  EXPECT_LE(cut[0].prompt.size() + static_cast<size_t>(cut[0].max_tokens), 64u);
}

}  // namespace
}  // namespace pagoda::workload
