#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "api/backend.h"
#include "api/http_message.h"
#include "api/routes.h"

namespace pagoda::api {

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
  Reply answer(const Route& route, const HttpRequest& request);

  const Options options_;
  std::atomic<bool> draining_{false};
  mutable std::mutex mutex_;  // backend_ and random_
  std::shared_ptr<const Backend> backend_{};
  std::mt19937_64 random_{};
};

}  // namespace pagoda::api
