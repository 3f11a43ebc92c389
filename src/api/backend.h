#pragma once
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/answer_format.h"
#include "api/chat_template.h"
#include "api/grammar_cache.h"
#include "api/http_message.h"
#include "api/openai_request.h"
#include "api/receipt.h"
#include "api/response_writer.h"
#include "core/clock.h"
#include "metrics/serving_metrics.h"
#include "scheduler/scheduler.h"
#include "text/tokenizer.h"

namespace pagoda::api {

/// What the model's file says of it, for routes that describe models. "" and 0 = unknown.
struct ModelCard {
  std::string family{};          // "llama"
  std::string quantization{};    // "Q4_K_M"
  std::string parameter_size{};  // "1.5B"
  std::string digest{};          // hexadecimal SHA-256 of what identifies the file
  int64_t parameters = 0;
  int64_t bytes = 0;
  int32_t embedding_width = 0;
};

/// A loaded model, ready to be served. Everything pointed to outlives the service.
struct Backend {
  const text::Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;  // null for a base model
  std::string chat_template_source{};
  scheduler::Scheduler* scheduler = nullptr;
  metrics::ServingMetrics* metrics = nullptr;
  const Clock* clock = nullptr;
  ModelFacts facts{};
  std::string fingerprint{};                            // system_fingerprint of every answer
  std::shared_ptr<const ReceiptSource> receipts{};      // null = answers carry none
  std::shared_ptr<const AnswerFormat> answer_format{};  // null: answers are not taken apart
  ModelCard card{};
  std::shared_ptr<GrammarCache> grammars{};  // null: structured answers are refused
};

/// A request that was judged, rendered and tokenized, and only needs sinks.
struct PreparedGeneration {
  std::vector<scheduler::Request> requests{};  // one a prompt
  std::unique_ptr<ResponseWriter> writer{};
  scheduler::Scheduler* scheduler = nullptr;
  bool stream = false;
  bool keep_sampled = false;  // the writer needs ids or logprobs
  int32_t choices = 0;        // over all prompts
  uint64_t seed = 0;
};

/// The request's grammar has to be compiled first, where nobody else waits; then the request is handled again.
struct GrammarNeeded {
  grammar::Source source;
  std::shared_ptr<GrammarCache> cache;
};

using Reply = std::variant<HttpResponse, PreparedGeneration, GrammarNeeded>;

/// Sets `generation.grammar` if one is wanted and compiled; otherwise says that it must be compiled first. Errors: what
/// is wrong with it.
Result<std::optional<GrammarNeeded>> find_grammar(GenerationRequest& generation, const Backend& backend);

}  // namespace pagoda::api
