#pragma once
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <unordered_set>

#include "api/http_message.h"
#include "api/server.h"
#include "api/service.h"

namespace pagoda::api {

class Connection;

/// What all connections of a server share; only the I/O thread touches it (the pool only runs what it is given).
struct ServerShared {
  ServerShared(const ServerOptions& server_options, Service& server_service)
      : options(server_options), service(server_service), pool(static_cast<size_t>(server_options.pool_threads)) {}

  const ServerOptions options;
  Service& service;
  std::unordered_set<Connection*> connections{};
  int64_t body_bytes = 0;         // reserved for bodies being read or judged
  int32_t busy = 0;               // requests between their head and the last byte of their answer
  boost::asio::io_context io{1};  // its end destroys what connections are left, so it is declared after what they use
  boost::asio::thread_pool pool;
  boost::asio::thread_pool compile_pool{1};  // grammars: none of the others waits for them
};

/// Wakes a connection from another thread without owning it: connections live and die on the I/O thread.
struct Waker {
  boost::asio::io_context& io;
  Connection* connection;  // I/O thread only; null once it is gone
};

/// One client's connection: requests in sequence, each read, judged, answered.
///
/// While an answer is generated one read stays pending, because a closed socket is the only "stop" every client has.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, ServerShared& shared);
  ~Connection();

  /// The connection's life. Started once, with the connection kept alive by the caller.
  boost::asio::awaitable<void> run();

  // Called by the server, on the I/O thread.
  void expire_if_late(std::chrono::steady_clock::time_point now);
  /// Ends the running generation with finish_reason "abort"; its last words are still sent.
  void abort_generation();
  void close();

 private:
  using Clock = std::chrono::steady_clock;

  boost::asio::awaitable<bool> serve_one_request();
  boost::asio::awaitable<bool> read_head(RequestParser& parser);
  boost::asio::awaitable<bool> read_body(RequestParser& parser, const HttpRequest& head);
  boost::asio::awaitable<bool> answer(HttpRequest request);
  boost::asio::awaitable<bool> refuse(const HttpRequest& head, HttpResponse response);
  boost::asio::awaitable<bool> send(HttpResponse response, Framing framing, bool head_only);
  boost::asio::awaitable<bool> generate(PreparedGeneration prepared, Framing framing);
  boost::asio::awaitable<bool> stream(PreparedGeneration& prepared, Inbox& inbox, Framing framing);
  boost::asio::awaitable<bool> collect(PreparedGeneration& prepared, Inbox& inbox, Framing framing);
  boost::asio::awaitable<bool> write(std::string bytes);
  boost::asio::awaitable<bool> read_some();
  boost::asio::awaitable<void> linger();
  boost::asio::awaitable<void> wait_for_news();
  boost::asio::awaitable<void> run_on_pool(std::function<void()> work) { return run_on(shared_.pool, std::move(work)); }
  boost::asio::awaitable<void> run_on(boost::asio::thread_pool& pool, std::function<void()> work);
  boost::asio::awaitable<void> handle_on_pool(const HttpRequest& request, Reply& reply);

  bool submit(PreparedGeneration& prepared, const std::shared_ptr<Inbox>& inbox, Error& why);
  void cancel_generation();
  void begin_watch();
  boost::asio::awaitable<void> end_watch();
  void on_watch(const boost::system::error_code& failure, size_t bytes);
  void notify();
  static void notify_later(const std::shared_ptr<Waker>& waker);
  void set_deadline(int32_t milliseconds) { deadline_ = Clock::now() + std::chrono::milliseconds(milliseconds); }
  bool must_close() const { return shared_.service.draining(); }

  boost::asio::ip::tcp::socket socket_;
  ServerShared& shared_;
  const std::shared_ptr<Waker> waker_;
  boost::asio::steady_timer news_;  // never expires; cancelled to wake the coroutine
  bool has_news_ = false;
  std::string buffer_{};  // bytes read and not consumed
  std::string chunk_;     // where reads land
  Clock::time_point deadline_;
  bool watching_ = false;
  bool peer_gone_ = false;
  bool unread_body_ = false;                   // an answer went out before the request was read to its end
  scheduler::Scheduler* scheduler_ = nullptr;  // of the running generation
  std::vector<scheduler::RequestId> running_{};
};

}  // namespace pagoda::api
