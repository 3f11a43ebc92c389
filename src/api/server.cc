#include "api/server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <csignal>
#include <thread>

#include "api/connection.h"
#include "core/log.h"

namespace pagoda::api {
namespace asio = boost::asio;
using asio::ip::tcp;
namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr int32_t kSweepMs = 200;
constexpr int32_t kAcceptRetryMs = 100;
constexpr int32_t kLastWordsMs = 2000;  // for aborted generations to say so

/// Each connection costs a descriptor: take what the system allows.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

asio::awaitable<void> serve_connection(std::shared_ptr<Connection> connection) { co_await connection->run(); }

class AsioServer final : public Server {
 public:
  AsioServer(const ServerOptions& options, Service& service)
      : shared_(options, service), acceptor_(shared_.io), signals_(shared_.io), sweep_timer_(shared_.io) {}

  ~AsioServer() override {
    shared_.io.stop();
    if (thread_.joinable()) thread_.join();
    shared_.pool.join();
    shared_.compile_pool.join();
  }

  Status open() {
    const auto refused = [this](const std::string& why) {
      return Error{Code::kIo,
                   fmt::format("cannot listen on {} port {}: {}", shared_.options.host, shared_.options.port, why)};
    };
    boost::system::error_code failure;
    tcp::resolver resolver(shared_.io);
    const auto found =
        resolver.resolve(shared_.options.host, std::to_string(shared_.options.port), tcp::resolver::passive, failure);
    if (failure || found.empty()) return refused(failure.message());
    tcp::endpoint endpoint = found.begin()->endpoint();
    for (const auto& one : found) {  // "localhost" means 127.0.0.1 to most clients
      if (one.endpoint().address().is_v4()) endpoint = one.endpoint();
    }
    acceptor_.open(endpoint.protocol(), failure);
    if (!failure) acceptor_.set_option(tcp::acceptor::reuse_address(true), failure);
    if (!failure) acceptor_.bind(endpoint, failure);
    if (!failure) acceptor_.listen(asio::socket_base::max_listen_connections, failure);
    if (failure) return refused(failure.message());
    return ok_status();
  }

  uint16_t port() const override { return acceptor_.local_endpoint().port(); }

  void start(Hooks hooks) override {
    hooks_ = std::move(hooks);
    raise_descriptor_limit();
    asio::co_spawn(shared_.io, accept_loop(), asio::detached);
    asio::co_spawn(shared_.io, sweep_loop(), asio::detached);
    signals_.add(SIGINT);
    signals_.add(SIGTERM);
    await_signal();
    thread_ = std::thread([this] { run_io(); });
  }

  void serving_began() override {
    asio::post(shared_.io, [this] { serving_ = true; });
  }

  void begin_drain() override {
    asio::post(shared_.io, [this] { drain(SIGTERM); });
  }

  void wait() override {
    if (thread_.joinable()) thread_.join();
    shared_.pool.join();
    shared_.compile_pool.join();
  }

 private:
  void run_io() {
    while (true) {
      try {
        shared_.io.run();
        return;
      } catch (const std::exception& error) {
        log_error("io: {}", error.what());
      }
    }
  }

  asio::awaitable<void> accept_loop() {
    while (acceptor_.is_open()) {
      auto [failure, socket] = co_await acceptor_.async_accept(kAwait);
      if (failure == asio::error::operation_aborted) co_return;
      if (failure) {  // out of descriptors: those in use will come back
        asio::steady_timer pause(shared_.io, std::chrono::milliseconds(kAcceptRetryMs));
        co_await pause.async_wait(kAwait);
        continue;
      }
      boost::system::error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      if (std::ssize(shared_.connections) >= shared_.options.connections_max) {
        turn_away(socket);
        continue;
      }
      auto connection = std::make_shared<Connection>(std::move(socket), shared_);
      asio::co_spawn(shared_.io, serve_connection(std::move(connection)), asio::detached);
    }
  }

  /// A fresh socket's buffer takes this at once; it is not worth a coroutine.
  static void turn_away(tcp::socket& socket) {
    HttpResponse response = error_response(Error{Code::kUnavailable, "too many connections", ""});
    Framing framing;
    framing.keep_alive = false;
    const std::string bytes = format_head(response, framing) + response.body;
    boost::system::error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(bytes), ignored);
  }

  /// Deadlines are looked at here, all together: a timer a connection would cost two system calls an event.
  asio::awaitable<void> sweep_loop() {
    while (true) {
      sweep_timer_.expires_after(std::chrono::milliseconds(kSweepMs));
      co_await sweep_timer_.async_wait(kAwait);
      const auto now = std::chrono::steady_clock::now();
      for (Connection* connection : std::vector<Connection*>(shared_.connections.begin(), shared_.connections.end())) {
        connection->expire_if_late(now);
      }
      if (draining_ && drain_is_over(now)) {
        for (Connection* connection : shared_.connections) connection->close();
        shared_.io.stop();
        co_return;
      }
    }
  }

  bool drain_is_over(std::chrono::steady_clock::time_point now) {
    if (shared_.busy == 0) return true;
    if (now < drain_until_) return false;
    if (aborted_) return true;  // the last words had their time
    log_warning("drain: {} requests did not finish in time and end with finish_reason \"abort\"", shared_.busy);
    for (Connection* connection : shared_.connections) connection->abort_generation();
    aborted_ = true;
    drain_until_ = now + std::chrono::milliseconds(kLastWordsMs);
    return false;
  }

  void await_signal() {
    signals_.async_wait([this](const boost::system::error_code& failure, int signal) {
      if (failure) return;
      if (draining_ || !serving_) {
        if (hooks_.on_second_signal) hooks_.on_second_signal(signal);
      } else {
        drain(signal);
      }
      await_signal();
    });
  }

  void drain(int signal) {
    if (draining_) return;
    draining_ = true;
    drain_until_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(shared_.options.drain_timeout_ms);
    shared_.service.begin_drain();
    if (hooks_.on_drain) hooks_.on_drain(signal);
    sweep_timer_.cancel();
  }

  ServerShared shared_;
  tcp::acceptor acceptor_;
  asio::signal_set signals_;
  asio::steady_timer sweep_timer_;
  Hooks hooks_{};
  std::thread thread_{};
  bool serving_ = false;
  bool draining_ = false;
  bool aborted_ = false;
  std::chrono::steady_clock::time_point drain_until_{};
};

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(const ServerOptions& options, Service& service) {
  auto server = std::make_unique<AsioServer>(options, service);
  PAGODA_TRY_STATUS(server->open());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace pagoda::api
