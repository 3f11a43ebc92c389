#include "api/connection.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "api/random_id.h"
#include "core/log.h"

// GCC 12 destroys temporaries of a co_await full-expression twice: no capturing lambda and no other owning temporary
// may stand inside one. Name them first.

namespace pagoda::api {
namespace asio = boost::asio;
using asio::awaitable;
namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr size_t kReadBytes = 16384;
constexpr size_t kPipelinedBytesMax = 65536;  // read ahead while an answer is generated
constexpr int64_t kLingerBytesMax = 16 << 20;
constexpr int32_t kLingerMs = 2000;

/// The calling thread, and nobody else, gets the CPU only where others leave it.
void yield_to_others() {
  constexpr int kNice = 15;
  static thread_local const int done = setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
  (void)done;
}

Framing framing_of(const HttpRequest& request, bool must_close) {
  Framing framing;
  framing.request_id = request.request_id.empty() ? random_id("req-") : request.request_id;
  framing.keep_alive = request.keep_alive && !must_close;
  framing.cors = request.has_origin;
  return framing;
}

/// Counts a request as busy, and its body's reservation, until it is answered.
class Busy {
 public:
  explicit Busy(ServerShared& shared) : shared_(shared) { ++shared_.busy; }
  ~Busy() {
    --shared_.busy;
    release();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  bool reserve(int64_t bytes) {
    if (shared_.body_bytes + bytes > shared_.options.body_bytes_max) return false;
    shared_.body_bytes += bytes;
    reserved_ += bytes;
    return true;
  }
  void release() {
    shared_.body_bytes -= reserved_;
    reserved_ = 0;
  }

 private:
  ServerShared& shared_;
  int64_t reserved_ = 0;
};

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, ServerShared& shared)
    : socket_(std::move(socket)),
      shared_(shared),
      waker_(std::make_shared<Waker>(Waker{shared.io, this})),
      news_(shared.io, asio::steady_timer::time_point::max()),
      chunk_(kReadBytes, '\0') {
  shared_.connections.insert(this);
  set_deadline(shared_.options.head_timeout_ms);
}

Connection::~Connection() {
  waker_->connection = nullptr;
  cancel_generation();
  shared_.connections.erase(this);
}

awaitable<void> Connection::run() {
  bool go_on = true;
  while (go_on) {
    try {
      go_on = co_await serve_one_request();
    } catch (const std::exception& error) {  // std::bad_alloc and library throws end here
      log_error("connection: {}", error.what());
      go_on = false;
    }
  }
  cancel_generation();
  if (unread_body_ && !peer_gone_) co_await linger();
  close();
}

awaitable<bool> Connection::serve_one_request() {
  RequestParser parser;
  set_deadline(buffer_.empty() ? shared_.options.idle_timeout_ms : shared_.options.head_timeout_ms);
  if (!co_await read_head(parser)) co_return false;
  Busy busy(shared_);
  const HttpRequest head = parser.request();
  if (auto refusal = shared_.service.refuse_early(head)) {
    const bool bodyless = parser.content_length() == uint64_t{0};
    if (!bodyless) co_return co_await refuse(head, *std::move(refusal));
    Framing framing = framing_of(head, must_close());
    co_return co_await send(*std::move(refusal), std::move(framing), head.method == "HEAD");
  }
  const uint64_t limit = Service::body_limit(head);
  const uint64_t length = parser.content_length().value_or(limit);
  if (length > limit) {
    const Error error{Code::kInvalidRequest,
                      "the request body has " + std::to_string(length) + " bytes, limit " + std::to_string(limit), ""};
    HttpResponse refusal = error_response(dialect_of(head.path), 413, error);
    co_return co_await refuse(head, std::move(refusal));
  }
  if (!busy.reserve(static_cast<int64_t>(length))) {
    HttpResponse refusal =
        error_response(dialect_of(head.path), Error{Code::kUnavailable, "too many request bodies at once", ""});
    co_return co_await refuse(head, std::move(refusal));
  }
  parser.set_body_limit(limit);
  if (!co_await read_body(parser, head)) co_return false;
  HttpRequest request = parser.take_request();
  co_return co_await answer(std::move(request));
}

awaitable<bool> Connection::read_head(RequestParser& parser) {
  bool first_byte = !buffer_.empty();
  while (true) {
    const RequestParser::State state = parser.feed(buffer_);
    if (state == RequestParser::State::kHead) co_return true;
    if (state == RequestParser::State::kBad) {
      HttpResponse refusal = error_response(parser.error_status(), parser.error());
      const HttpRequest nobody;
      co_await refuse(nobody, std::move(refusal));
      co_return false;
    }
    if (!co_await read_some()) co_return false;
    if (!first_byte) set_deadline(shared_.options.head_timeout_ms);
    first_byte = true;
  }
}

awaitable<bool> Connection::read_body(RequestParser& parser, const HttpRequest& head) {
  set_deadline(shared_.options.body_timeout_ms);
  bool asked = !head.expects_continue;
  while (true) {
    const RequestParser::State state = parser.feed(buffer_);
    if (state == RequestParser::State::kDone) co_return true;
    if (state == RequestParser::State::kBad) {
      HttpResponse refusal = error_response(dialect_of(head.path), parser.error_status(), parser.error());
      co_await refuse(head, std::move(refusal));
      co_return false;
    }
    if (!asked) {
      std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
      if (!co_await write(std::move(go_on))) co_return false;
      set_deadline(shared_.options.body_timeout_ms);
      asked = true;
    }
    if (!co_await read_some()) co_return false;
  }
}

/// Answers before the request was read to its end: the connection cannot be used again.
awaitable<bool> Connection::refuse(const HttpRequest& head, HttpResponse response) {
  unread_body_ = true;
  Framing framing = framing_of(head, true);
  co_await send(std::move(response), std::move(framing), head.method == "HEAD");
  co_return false;
}

awaitable<bool> Connection::answer(HttpRequest request) {
  Framing framing = framing_of(request, must_close());
  const bool head_only = request.method == "HEAD";
  const bool old_client = request.minor_version == 0;
  set_deadline(shared_.options.body_timeout_ms);
  Reply reply{HttpResponse{}};
  if (Service::is_cheap(request)) {
    reply = shared_.service.handle(request);
  } else {
    co_await handle_on_pool(request, reply);
    request.body = std::string();
  }
  if (auto* response = std::get_if<HttpResponse>(&reply)) {
    co_return co_await send(std::move(*response), std::move(framing), head_only);
  }
  framing.until_close = old_client;
  if (old_client) framing.keep_alive = false;
  co_return co_await generate(std::move(std::get<PreparedGeneration>(reply)), std::move(framing));
}

awaitable<bool> Connection::send(HttpResponse response, Framing framing, bool head_only) {
  framing.chunked = framing.until_close = false;
  std::string bytes = format_head(response, framing);
  if (!head_only) bytes += response.body;
  const bool written = co_await write(std::move(bytes));
  co_return written&& framing.keep_alive;
}

bool Connection::submit(PreparedGeneration& prepared, const std::shared_ptr<Inbox>& inbox, Error& why) {
  scheduler_ = prepared.scheduler;
  int32_t first_choice = 0;
  for (scheduler::Request& request : prepared.requests) {
    const int32_t n = request.n;
    request.sink = inbox->sink(first_choice);
    Result<scheduler::RequestId> id = scheduler_->submit(std::move(request));
    if (!id.ok()) {
      cancel_generation();
      why = id.error();
      return false;
    }
    running_.push_back(id.value());
    first_choice += n;
  }
  prepared.requests.clear();
  return true;
}

void Connection::cancel_generation() {
  for (const scheduler::RequestId id : running_) scheduler_->cancel(id);
  running_.clear();
}

void Connection::abort_generation() {
  if (scheduler_ == nullptr) return;
  for (const scheduler::RequestId id : running_) scheduler_->cancel(id);
}

awaitable<bool> Connection::generate(PreparedGeneration prepared, Framing framing) {
  std::function<void()> wake = [waker = waker_] { notify_later(waker); };
  const auto inbox = std::make_shared<Inbox>(prepared.choices, prepared.stream, prepared.keep_sampled, std::move(wake));
  Error why{Code::kInternal, "", ""};
  if (!submit(prepared, inbox, why)) {
    HttpResponse refusal = prepared.writer->refuse(why);
    co_return co_await send(std::move(refusal), std::move(framing), false);
  }
  begin_watch();
  bool go_on = false;
  if (prepared.stream) {
    go_on = co_await stream(prepared, *inbox, std::move(framing));
  } else {
    go_on = co_await collect(prepared, *inbox, std::move(framing));
  }
  if (inbox->finished()) running_.clear();
  cancel_generation();  // the client went away
  co_await end_watch();
  co_return go_on && !peer_gone_ && !must_close();
}

awaitable<bool> Connection::stream(PreparedGeneration& prepared, Inbox& inbox, Framing framing) {
  framing.chunked = !framing.until_close;
  bool head_sent = false;
  while (true) {
    deadline_ = Clock::time_point::max();  // a model may think as long as it likes
    const bool last = inbox.finished();
    std::vector<Delta> deltas = inbox.take();
    if (peer_gone_) co_return false;
    if (deltas.empty() && !last) {
      co_await wait_for_news();
      continue;
    }
    std::string bytes;
    if (!head_sent) {
      if (!deltas.empty() && deltas.front().error) {  // failed before the first token: a plain refusal
        HttpResponse refusal = prepared.writer->refuse(*deltas.front().error);
        co_return co_await send(std::move(refusal), std::move(framing), false);
      }
      HttpResponse head;
      head.content_type = prepared.writer->stream_type();
      head.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
      bytes = format_head(head, framing);
      head_sent = true;
    }
    std::string events;
    std::function<void()> write_events = [&] {
      events = prepared.writer->add(std::move(deltas));
      if (last) events += prepared.writer->stream_end();
    };
    if (prepared.writer->may_wait()) {
      co_await run_on_pool(std::move(write_events));
    } else {
      write_events();
    }
    bytes += framing.chunked && !events.empty() ? format_chunk(events) : events;
    // The last chunk goes right behind [DONE]: clients wait for it before they use the connection again.
    if (last && framing.chunked) bytes += format_chunk("");
    if (!co_await write(std::move(bytes))) co_return false;
    if (last) co_return framing.keep_alive;
  }
}

awaitable<bool> Connection::collect(PreparedGeneration& prepared, Inbox& inbox, Framing framing) {
  deadline_ = Clock::time_point::max();
  while (!inbox.finished() && !inbox.failed()) {  // what a failed one leaves running is cancelled by generate()
    if (peer_gone_) co_return false;
    co_await wait_for_news();
  }
  std::vector<Delta> deltas = inbox.take();
  HttpResponse response;
  for (const Delta& delta : deltas) {
    if (delta.error) {
      response = prepared.writer->refuse(*delta.error);
    } else if (delta.finish == scheduler::FinishReason::kCancelled) {
      response = prepared.writer->refuse(Error{Code::kUnavailable, "the server is shutting down", ""});
    }
  }
  if (response.status == 200) {
    ResponseWriter& writer = *prepared.writer;
    std::function<void()> work = [&] {
      writer.add(std::move(deltas));
      response.body = writer.body();
    };
    co_await run_on_pool(std::move(work));
  }
  co_return co_await send(std::move(response), std::move(framing), false);
}

awaitable<bool> Connection::write(std::string bytes) {
  set_deadline(shared_.options.write_timeout_ms);
  const auto buffer = asio::buffer(bytes);
  const auto [failure, written] = co_await asio::async_write(socket_, buffer, kAwait);
  if (failure) peer_gone_ = true;
  co_return !failure;
}

awaitable<bool> Connection::read_some() {
  const auto buffer = asio::buffer(chunk_);
  const auto [failure, bytes] = co_await socket_.async_read_some(buffer, kAwait);
  if (failure) {
    peer_gone_ = true;
    co_return false;
  }
  buffer_.append(chunk_, 0, bytes);
  co_return true;
}

/// A close with unread bytes resets the connection and may eat the answer: read them away for a moment first.
awaitable<void> Connection::linger() {
  boost::system::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  set_deadline(kLingerMs);
  int64_t read = 0;
  while (read < kLingerBytesMax) {
    buffer_.clear();
    if (!co_await read_some()) co_return;
    read += std::ssize(buffer_);
  }
}

// --- waking the coroutine ---

void Connection::notify() {
  has_news_ = true;
  news_.cancel();
}

void Connection::notify_later(const std::shared_ptr<Waker>& waker) {
  asio::post(waker->io, [waker] {
    if (waker->connection != nullptr) waker->connection->notify();
  });
}

awaitable<void> Connection::wait_for_news() {
  if (!has_news_) co_await news_.async_wait(kAwait);
  has_news_ = false;
}

awaitable<void> Connection::handle_on_pool(const HttpRequest& request, Reply& reply) {
  constexpr int kRounds = 3;  // a compiled grammar can be forgotten before it is asked for, not often
  for (int round = 0;; ++round) {
    Service& service = shared_.service;
    std::function<void()> work = [&reply, &service, &request] { reply = service.handle(request); };
    co_await run_on_pool(std::move(work));
    auto* needed = std::get_if<GrammarNeeded>(&reply);
    if (needed == nullptr) co_return;
    if (round == kRounds) break;
    std::function<void()> compile = [needed] {
      yield_to_others();
      needed->cache->compile(needed->source);
    };
    co_await run_on(shared_.compile_pool, std::move(compile));
  }
  reply = error_response(Error{Code::kUnavailable, "too many grammars at the same time", ""});
}

awaitable<void> Connection::run_on(asio::thread_pool& pool, std::function<void()> work) {
  struct Outcome {
    std::atomic<bool> done{false};
    std::exception_ptr thrown{};
  };
  const auto outcome = std::make_shared<Outcome>();
  asio::post(pool, [waker = waker_, outcome, work = std::move(work)] {
    try {
      work();
    } catch (...) {
      outcome->thrown = std::current_exception();
    }
    outcome->done.store(true, std::memory_order_release);
    notify_later(waker);
  });
  // The work refers to this coroutine's frame: whatever else wakes us, wait for it.
  while (!outcome->done.load(std::memory_order_acquire)) co_await wait_for_news();
  if (outcome->thrown) std::rethrow_exception(outcome->thrown);
}

// --- noticing that the client went away ---

void Connection::begin_watch() {
  if (buffer_.size() >= kPipelinedBytesMax) return;
  watching_ = true;
  const auto buffer = asio::buffer(chunk_);
  socket_.async_read_some(buffer, [self = shared_from_this()](const boost::system::error_code& failure, size_t bytes) {
    self->on_watch(failure, bytes);
  });
}

void Connection::on_watch(const boost::system::error_code& failure, size_t bytes) {
  watching_ = false;
  buffer_.append(chunk_, 0, bytes);
  if (failure && failure != asio::error::operation_aborted) peer_gone_ = true;
  if (!failure && scheduler_ != nullptr && !running_.empty()) begin_watch();
  notify();
}

awaitable<void> Connection::end_watch() {
  scheduler_ = nullptr;
  boost::system::error_code ignored;
  if (watching_) socket_.cancel(ignored);
  while (watching_) co_await wait_for_news();
}

// --- called by the server ---

void Connection::expire_if_late(Clock::time_point now) {
  if (now > deadline_) close();
}

void Connection::close() {
  boost::system::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  peer_gone_ = true;
  notify();
}

}  // namespace pagoda::api
