#pragma once
// A whole backend for tests: the real tokenizer on a byte vocabulary, the real scheduler and its worker thread, and an
// engine that speaks a script instead of computing.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "api/service.h"
#include "core/check.h"
#include "core/clock.h"
#include "engine/batch.h"
#include "metrics/serving_metrics.h"
#include "scheduler/scheduler.h"
#include "text/tokenizer.h"

namespace pagoda::api {

inline constexpr TokenId kTestBos = 1, kTestEos = 2, kTestFirstByte = 3;
inline TokenId test_byte(char c) { return kTestFirstByte + static_cast<unsigned char>(c); }

/// <unk> <s> </s> and the 256 byte tokens: every text is its bytes.
inline std::unique_ptr<text::Tokenizer> make_byte_tokenizer() {
  text::VocabSpec spec;
  spec.model = "llama";
  spec.tokens = {"<unk>", "<s>", "</s>"};
  spec.types = {text::TokenType::kUnknown, text::TokenType::kControl, text::TokenType::kControl};
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", b);
    spec.tokens.emplace_back(name);
    spec.types.push_back(text::TokenType::kByte);
  }
  spec.scores.assign(spec.tokens.size(), 0.f);
  spec.bos = kTestBos, spec.eos = kTestEos, spec.unknown = 0;
  spec.add_bos = true;
  spec.add_space_prefix = false;
  auto made = text::Tokenizer::create(std::move(spec));
  PAGODA_CHECK(made.ok());
  return std::move(made).take();
}

/// Answers every prompt with `script`, byte by byte, then </s>. A prompt that ends in '!' fails. Logprobs are functions
/// of the position.
class ScriptedEngine final : public engine::Engine {
 public:
  std::string script = "Hello, world";
  std::atomic<int32_t> step_ms{0};
  std::atomic<int64_t> steps{0};

  Result<engine::StepOutput> run(const engine::Batch& batch) override {
    ++steps;
    if (step_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(step_ms));
    engine::StepOutput out;
    for (const engine::SequenceChunk& chunk : batch.chunks) out.chunks.push_back(answer(chunk));
    return out;
  }

 private:
  engine::ChunkOutput answer(const engine::SequenceChunk& chunk) const {
    engine::ChunkOutput out;
    const auto prompt_tokens = static_cast<size_t>(chunk.prompt_tokens);
    if (chunk.history[prompt_tokens - 1] == test_byte('!')) {
      out.error = Error{Code::kInternal, "the model's logits are not numbers", ""};
      return out;
    }
    if (chunk.score != nullptr) {
      for (int32_t p = chunk.begin; p < chunk.begin + chunk.count && p < chunk.prompt_tokens; ++p) {
        out.prompt_scores.push_back({p, -0.1f * static_cast<float>(p + 1), tops(chunk.score->top), {}});
      }
    }
    if (chunk.sample) {
      const size_t said = chunk.history.size() - prompt_tokens;
      sampling::SampledToken token;
      token.id = said < script.size() ? test_byte(script[said]) : kTestEos;
      token.logprob = -0.3f;
      if (chunk.params->logprobs >= 0) token.top = tops(chunk.params->logprobs);
      out.token = token;
    }
    return out;
  }
  static std::vector<sampling::TokenLogprob> tops(int32_t count) {
    std::vector<sampling::TokenLogprob> top;
    for (int32_t i = 0; i < count; ++i)
      top.push_back({test_byte(static_cast<char>('a' + i)), -0.7f * static_cast<float>(i + 1)});
    return top;
  }
};

/// Renders "<s>[role]content" and so on, as a template would.
class PlainChatTemplate final : public ChatTemplate {
 public:
  Result<std::vector<text::PromptPart>> render(const Json& messages,
                                               const ChatTemplateOptions& options) const override {
    std::vector<text::PromptPart> parts{{"<s>", true}};
    for (const Json& message : messages) {
      parts.push_back({"[" + message["role"].get<std::string>() + "]", true});
      if (message["content"].is_string()) parts.push_back({message["content"].get<std::string>(), false});
    }
    if (options.add_generation_prompt) parts.push_back({"[assistant]", true});
    return parts;
  }
};

struct TestBackend {
  explicit TestBackend(scheduler::Limits limits = {.max_num_seqs = 8,
                                                   .max_num_batched_tokens = 64,
                                                   .max_model_len = 256,
                                                   .max_queued = 64,
                                                   .total_blocks = 256}) {
    scheduler = std::make_unique<scheduler::Scheduler>(engine, tokenizer.get(), limits, clock, metrics);
    worker = std::thread([this] { scheduler->run_until_stopped(); });
    facts.names = {"test-model", "alias"};
    facts.vocab_size = tokenizer->size();
    facts.max_model_len = limits.max_model_len;
    facts.context_limit = scheduler->context_limit();
  }
  ~TestBackend() { stop(); }
  void stop() {
    scheduler->stop();
    if (worker.joinable()) worker.join();
  }
  /// `template_source` only tells how answers are taken apart; "" = they are not.
  std::shared_ptr<const Backend> backend(const std::string& template_source = "") const {
    Backend made{tokenizer.get(),
                 &chat_template,
                 "{{ messages }}",
                 scheduler.get(),
                 const_cast<metrics::ServingMetrics*>(&metrics),
                 &clock,
                 facts,
                 "pagoda-test"};
    if (!template_source.empty()) made.answer_format = read_answer_format(template_source, *tokenizer);
    made.card = {.family = "test", .quantization = "F16", .parameter_size = "1M", .digest = "d1", .bytes = 7};
    return std::make_shared<Backend>(std::move(made));
  }

  std::unique_ptr<text::Tokenizer> tokenizer = make_byte_tokenizer();
  PlainChatTemplate chat_template{};
  ScriptedEngine engine{};
  SteadyClock clock{};
  metrics::ServingMetrics metrics{"test-model"};
  ModelFacts facts{};
  std::unique_ptr<scheduler::Scheduler> scheduler{};
  std::thread worker{};
};

}  // namespace pagoda::api
