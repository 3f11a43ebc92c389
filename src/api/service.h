#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "api/chat_template.h"
#include "api/http_message.h"
#include "api/inbox.h"
#include "api/openai_request.h"
#include "api/openai_response.h"
#include "api/receipt.h"
#include "core/clock.h"
#include "metrics/serving_metrics.h"
#include "scheduler/scheduler.h"
#include "text/tokenizer.h"

namespace pagoda::api {

/// A loaded model, ready to be served. Everything pointed to outlives the service.
struct Backend {
  const text::Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;  // null for a base model
  std::string chat_template_source{};
  scheduler::Scheduler* scheduler = nullptr;
  metrics::ServingMetrics* metrics = nullptr;
  const Clock* clock = nullptr;
  ModelFacts facts{};
  std::string fingerprint{};                        // system_fingerprint of every answer
  std::shared_ptr<const ReceiptSource> receipts{};  // null = answers carry none
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

using Reply = std::variant<HttpResponse, PreparedGeneration>;

/// The routes without sockets: a request in, a response or a generation to run out. Thread-safe.
class Service {
 public:
  struct Options {
    std::vector<std::string> api_keys{};  // none = open; else one of them is wanted on every route but /health
    std::optional<uint64_t> seed{};       // unseeded requests draw from this stream instead of the machine's entropy
  };

  explicit Service(Options options);

  /// Until this is called every route answers 503.
  void set_backend(std::shared_ptr<const Backend> backend);
  /// From here on new generations are refused with 503 and /ready says so.
  void begin_drain();
  bool draining() const { return draining_.load(std::memory_order_relaxed); }

  /// What can be said from the head alone: wrong key, unknown route, wrong method, loading. Absent = go on.
  std::optional<HttpResponse> refuse_early(const HttpRequest& head) const;
  /// Bytes of body the route accepts.
  static uint64_t body_limit(const HttpRequest& head);
  /// The route does no work worth a thread of its own: answer on the spot, whatever else is going on.
  static bool is_cheap(const HttpRequest& head);

  /// Answers, or prepares the generation. Costs up to a parse, a rendering and a tokenization of body_limit() bytes.
  Reply handle(const HttpRequest& request);

 private:
  std::shared_ptr<const Backend> backend() const;
  /// Which of the keys the request carries; absent if none.
  std::optional<size_t> key_of(const HttpRequest& head) const;
  /// Whose share of the machine it takes: with several keys the key's, else `user`'s, which the client chooses freely.
  void set_account(const HttpRequest& head, std::vector<scheduler::Request>& requests) const;
  uint64_t draw_seed();

  HttpResponse health() const;
  HttpResponse ready() const;
  HttpResponse load() const;

  Reply chat(const HttpRequest& request, const Backend& backend);
  Reply completions(const HttpRequest& request, const Backend& backend);

  const Options options_;
  std::atomic<bool> draining_{false};
  mutable std::mutex mutex_;  // backend_ and random_
  std::shared_ptr<const Backend> backend_{};
  std::mt19937_64 random_{};
};

/// A fresh id such as "chatcmpl-4f…": 24 hexadecimal digits.
std::string random_id(std::string_view prefix);

}  // namespace pagoda::api
