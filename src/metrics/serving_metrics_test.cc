#include "metrics/serving_metrics.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace pagoda::metrics {
namespace {

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

const std::string kLabels = R"(engine="0",model_name="m")";

// Goal: vLLM's names and labels, so that existing dashboards work. Method: exact lines of the exposition.
TEST(ServingMetrics, ExposesTheNamesAndLabelsOfVllm) {
  ServingMetrics metrics("m");
  metrics.set_running(3);
  metrics.set_waiting(2);
  metrics.set_kv_usage(0.25);
  metrics.set_cache_config(16, 100);
  metrics.add_computed_prompt_tokens(4);
  metrics.add_prefix_cache_queries(7);
  metrics.add_cached_prompt_tokens(3);
  metrics.add_generation_tokens(5);
  metrics.add_preemption();
  metrics.add_finished("stop");
  metrics.observe_time_to_first_token(0.03);
  metrics.observe_request_tokens(7, 5);
  const std::string text = metrics.expose();
  EXPECT_TRUE(has_line(text, "vllm:num_requests_running{" + kLabels + "} 3")) << text;
  EXPECT_TRUE(has_line(text, "vllm:num_requests_waiting{" + kLabels + "} 2"));
  EXPECT_TRUE(has_line(text, "vllm:kv_cache_usage_perc{" + kLabels + "} 0.25"));
  EXPECT_TRUE(
      has_line(text, R"(vllm:cache_config_info{block_size="16",engine="0",model_name="m",num_gpu_blocks="100"} 1)"));
  EXPECT_TRUE(has_line(text, "vllm:prompt_tokens_total{" + kLabels + "} 7"));
  EXPECT_TRUE(
      has_line(text, R"(vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_compute"} 4)"));
  EXPECT_TRUE(
      has_line(text, R"(vllm:prompt_tokens_by_source_total{engine="0",model_name="m",source="local_cache_hit"} 3)"));
  EXPECT_TRUE(has_line(text, "vllm:prompt_tokens_cached_total{" + kLabels + "} 3"));
  EXPECT_TRUE(has_line(text, "vllm:prefix_cache_queries_total{" + kLabels + "} 7"));
  EXPECT_TRUE(has_line(text, "vllm:prefix_cache_hits_total{" + kLabels + "} 3"));
  EXPECT_TRUE(has_line(text, "vllm:generation_tokens_total{" + kLabels + "} 5"));
  EXPECT_TRUE(has_line(text, "vllm:num_preemptions_total{" + kLabels + "} 1"));
  EXPECT_TRUE(has_line(text, R"(vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 1)"));
  EXPECT_TRUE(has_line(text, R"(vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"} 0)"));
  EXPECT_TRUE(has_line(text, "vllm:time_to_first_token_seconds_bucket{" + kLabels + R"(,le="0.02"} 0)"));
  EXPECT_TRUE(has_line(text, "vllm:time_to_first_token_seconds_bucket{" + kLabels + R"(,le="0.04"} 1)"));
  EXPECT_TRUE(has_line(text, "vllm:request_prompt_tokens_bucket{" + kLabels + R"(,le="10"} 1)"));
  EXPECT_TRUE(has_line(text, "# TYPE vllm:inter_token_latency_seconds histogram"));
}

// Goal: a negative increment neither throws nor moves a counter back (case M01).
TEST(ServingMetrics, IgnoresNegativeIncrements) {
  ServingMetrics metrics("m");
  metrics.add_computed_prompt_tokens(4);
  metrics.add_computed_prompt_tokens(-3);
  metrics.add_cached_prompt_tokens(-3);
  metrics.add_prefix_cache_queries(-3);
  metrics.add_generation_tokens(-1);
  EXPECT_TRUE(has_line(metrics.expose(), "vllm:prompt_tokens_total{" + kLabels + "} 4"));
  EXPECT_TRUE(has_line(metrics.expose(), "vllm:generation_tokens_total{" + kLabels + "} 0"));
}

// Goal: scraping while others count loses nothing. Method: 4 writers against a reader; run under TSan too.
TEST(ServingMetrics, CountsFromManyThreads) {
  ServingMetrics metrics("m");
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t) {
    writers.emplace_back([&metrics] {
      for (int i = 0; i < 500; ++i) {
        metrics.add_generation_tokens(1);
        metrics.add_finished("length");
        metrics.observe_inter_token_latency(0.02);
      }
    });
  }
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(metrics.expose().empty());
  for (std::thread& writer : writers) writer.join();
  const std::string text = metrics.expose();
  EXPECT_TRUE(has_line(text, "vllm:generation_tokens_total{" + kLabels + "} 2000"));
  EXPECT_TRUE(has_line(text, R"(vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 2000)"));
}

// Goal: each tier has a series of its own, with what it did and why its loads ended; without tiers there is none.
TEST(ServingMetrics, ShowsTiers) {
  ServingMetrics metrics("m");
  EXPECT_EQ(metrics.expose().find("kv_tier"), std::string::npos);
  TierCounters disk, host;
  disk.blocks_loaded = 7;
  disk.loads_ended[2] = 3;
  disk.works = false;
  host.bytes_held = 4096;
  metrics.watch_tier("disk", disk);
  metrics.watch_tier("host", host);
  const std::string text = metrics.expose();
  const auto line = [](const std::string& name, const std::string& tier, const std::string& rest = "") {
    return "pagoda:kv_tier_" + name + "{" + rest + kLabels + ",tier=\"" + tier + "\"} ";
  };
  EXPECT_TRUE(has_line(text, line("blocks_loaded_total", "disk") + "7")) << text;
  EXPECT_TRUE(has_line(text, line("blocks_loaded_total", "host") + "0"));
  EXPECT_TRUE(has_line(text, line("loads_total", "disk", "end=\"damaged\",") + "3")) << text;
  EXPECT_TRUE(has_line(text, line("up", "disk") + "0"));
  EXPECT_TRUE(has_line(text, line("up", "host") + "1"));
  EXPECT_TRUE(has_line(text, line("bytes", "host") + "4096"));
}

}  // namespace
}  // namespace pagoda::metrics
