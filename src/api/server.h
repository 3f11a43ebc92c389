#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "api/service.h"
#include "core/result.h"

namespace pagoda::api {

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address, or "localhost"
  uint16_t port = 8000;            // 0 = any free one
  int32_t connections_max = 4096;
  int64_t body_bytes_max = 256 << 20;  // of all bodies being read or judged together; beyond it 503
  int32_t pool_threads = 2;            // parse, render, tokenize
  // Milliseconds.
  int32_t idle_timeout_ms = 120'000;  // between requests of a kept connection
  int32_t head_timeout_ms = 15'000;   // from a request's first byte to the end of its head
  int32_t body_timeout_ms = 60'000;
  int32_t write_timeout_ms = 120'000;  // for a client that does not read
  int32_t drain_timeout_ms = 30'000;
};

/// HTTP/1.1 on one I/O thread; parsing, rendering and tokenization happen on a small pool, so that a long prompt does
/// not hold up /health. All connection state belongs to the I/O thread.
class Server {
 public:
  /// Binds and listens. Errors: kIo (address in use, unknown host), naming host and port.
  static Result<std::unique_ptr<Server>> listen(const ServerOptions& options, Service& service);
  virtual ~Server() = default;

  /// The port listened on.
  virtual uint16_t port() const = 0;
  /// Starts the I/O thread and the handling of SIGINT and SIGTERM.
  ///
  ///   first signal    drain: on_drain is called on the I/O thread, generations refused, running ones finished within
  ///                   drain_timeout_ms, then wait() returns
  ///   second signal   on_second_signal(signal number): expected to end the process
  ///
  /// Before serving_began() the first signal counts as the second: there is nothing to finish.
  struct Hooks {
    std::function<void(int)> on_drain{};
    std::function<void(int)> on_second_signal{};
  };
  virtual void start(Hooks hooks) = 0;
  virtual void serving_began() = 0;
  /// Begins the drain as a signal would. Any thread.
  virtual void begin_drain() = 0;
  /// Returns once the drain is over; no connection is left.
  virtual void wait() = 0;
};

}  // namespace pagoda::api
