#include "api/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/test_backend.h"

namespace pagoda::api {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// A blocking client that sends raw bytes.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    timeval patience{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Client() { close(); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void send(const std::string& bytes) { ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// Reads until `end` has come, or the other side closed.
  std::string read_until(const std::string& end) {
    while (end.empty() || text_.find(end) == std::string::npos) {
      char part[4096];
      const ssize_t n = recv(fd_, part, sizeof part, 0);
      if (n <= 0) break;
      text_.append(part, static_cast<size_t>(n));
    }
    const size_t at = end.empty() ? std::string::npos : text_.find(end);
    const size_t cut = at == std::string::npos ? text_.size() : at + end.size();
    const std::string out = text_.substr(0, cut);
    text_.erase(0, cut);
    return out;
  }
  std::string read_to_close() { return read_until(""); }

 private:
  int fd_;
  std::string text_{};
};

std::string post(const std::string& path, const std::string& body, const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}
const std::string kHealth = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
const std::string kOk = "{\"status\":\"ok\"}";

class ServerTest : public testing::Test {
 protected:
  explicit ServerTest(ServerOptions options = {}) {
    options.port = 0;
    options.drain_timeout_ms = 400;
    service.set_backend(backend.backend());
    auto listening = Server::listen(options, service);
    EXPECT_TRUE(listening.ok());
    server = std::move(listening).take();
    server->start({});
    server->serving_began();
  }
  ~ServerTest() override {
    server->begin_drain();
    server->wait();
    backend.stop();  // as serve does: no event may come once the server is gone
    server.reset();
  }
  Client connect() { return Client(server->port()); }
  std::string ask(const std::string& bytes) {
    Client client = connect();
    client.send(bytes);
    return client.read_to_close();
  }
  bool idle_within(int milliseconds) {
    for (int i = 0; i < milliseconds; i += 5) {
      const auto load = backend.scheduler->load();
      if (load.running == 0 && load.waiting == 0 && load.free_blocks == load.total_blocks) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  TestBackend backend{};
  Service service{Service::Options{}};
  std::unique_ptr<Server> server{};
};

TEST_F(ServerTest, AnswersRequestsInSequenceOnOneConnection) {
  Client client = connect();
  for (int i = 0; i < 3; ++i) {
    client.send("GET /health HTTP/1.1\r\nHost: x\r\nx-request-id: abc\r\nOrigin: http://y\r\n\r\n");
    const std::string answer = client.read_until(kOk);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answer, HasSubstr("x-request-id: abc\r\n"));
    EXPECT_THAT(answer, HasSubstr("Access-Control-Allow-Origin: *\r\n"));
    EXPECT_THAT(answer, HasSubstr("Connection: keep-alive\r\n"));
  }
  client.send(kHealth + kHealth + "GET /health HTTP/1.0\r\n\r\n");  // pipelined, the last one closes
  client.read_until(kOk);
  client.read_until(kOk);
  EXPECT_THAT(client.read_to_close(), HasSubstr("Connection: close"));
}

TEST_F(ServerTest, StreamsInChunksAndKeepsTheConnection) {
  Client client = connect();
  for (int i = 0; i < 2; ++i) {
    client.send(post("/v1/completions", R"({"prompt":"x","stream":true})"));
    const std::string answer = client.read_until("\r\n0\r\n\r\n");
    EXPECT_THAT(answer, HasSubstr("Content-Type: text/event-stream"));
    EXPECT_THAT(answer, HasSubstr("Cache-Control: no-cache\r\n"));
    EXPECT_THAT(answer, HasSubstr("X-Accel-Buffering: no\r\n"));
    EXPECT_THAT(answer, HasSubstr("Transfer-Encoding: chunked\r\n"));
    EXPECT_THAT(answer, EndsWith("data: [DONE]\n\n\r\n0\r\n\r\n"));
  }
  // An HTTP/1.0 client knows no chunks: the stream ends with the connection.
  const std::string body = R"({"prompt":"x","stream":true})";
  const std::string old =
      ask("POST /v1/completions HTTP/1.0\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  EXPECT_THAT(old, EndsWith("data: [DONE]\n\n"));
  EXPECT_EQ(old.find("chunked"), std::string::npos);
}

TEST_F(ServerTest, ReadsChunkedBodies) {
  Client client = connect();
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send("8\r\n{\"prompt\r\n");
  client.send("6\r\n\":\"x\"}\r\n0\r\n\r\n");
  EXPECT_THAT(client.read_until("}]"), HasSubstr("Hello, world"));
  client.send(kHealth);
  EXPECT_THAT(client.read_until(kOk), HasSubstr("200 OK"));
}

TEST_F(ServerTest, AnswersExpectContinue) {
  Client client = connect();
  client.send("POST /detokenize HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 15\r\n\r\n");
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("100 Continue"));
  client.send("{\"tokens\":[68]}");
  EXPECT_THAT(client.read_until("}"), HasSubstr("{\"prompt\":\"A\"}"));
}

// Goal: what request smuggling lives on is refused, and the connection closed. Method: one request a rule.
TEST_F(ServerTest, RefusesAmbiguousRequests) {
  const std::string bodies = "0\r\n\r\n";
  const std::pair<std::string, const char*> bad[] = {
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + bodies,
       "400 Bad"},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + bodies,
       "400 Bad"},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nabcde", "400 Bad"},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 5, 6\r\n\r\nabcde", "400 Bad"},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "400 Bad"},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "400 Bad"},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n", "400 Bad"},
      {"GET /health HTTP/1.1\nHost: x\n\n", "CR LF"},
      {"GET /health HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", "folded"},
      {"GET /health HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", "CR LF"},
      {"GET /health HTTP/1.1\r\n\r\n", "0 Host headers"},
      {"GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "2 Host headers"},
      {"GET http://x/health HTTP/1.1\r\nHost: x\r\n\r\n", "must be a path"},
      {"GET /health HTTP/3.0\r\nHost: x\r\n\r\n", "400 Bad"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2 is not supported"},
      {std::string("\x16\x03\x01\x02\x00\x01", 6), "not an HTTP/1.1 request"},
      {"GET /health HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n", "malformed"},
      {"GET /health HTTP/1.1\r\nHost: x\r\nA: " + std::string(17000, 'a') + "\r\n\r\n", "431 Request Header"},
      {"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", "413 Content Too Large"},
  };
  for (const auto& [bytes, want] : bad) {
    const std::string answer = ask(bytes);
    EXPECT_THAT(answer, HasSubstr(want)) << bytes.substr(0, 200);
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
    EXPECT_THAT(answer, HasSubstr("{\"error\":{\"message\":"));
  }
}

TEST_F(ServerTest, RefusesWithoutReadingAHugeBody) {
  Client client = connect();
  client.send("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n");
  client.send(std::string(200000, 'x'));
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("404 Not Found"));
}

// Goal: a client that leaves frees its sequence and blocks within a step, streaming or not, also while queued.
TEST_F(ServerTest, ADisconnectCancels) {
  backend.engine.step_ms = 5;
  backend.engine.script = std::string(150, 'a');
  for (const char* body :
       {R"({"prompt":"x","max_tokens":150,"stream":true})", R"({"prompt":"x","max_tokens":150,"n":4})"}) {
    Client client = connect();
    client.send(post("/v1/completions", body));
    for (int i = 0; i < 400 && backend.scheduler->load().running == 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_GT(backend.scheduler->load().running, 0);
    client.close();
    EXPECT_TRUE(idle_within(300));
  }
}

// Goal: a deadline is a 504 where nothing was sent yet, and an event that says so in a stream that has begun.
TEST_F(ServerTest, DeadlinesAreTold) {
  backend.engine.step_ms = 10;
  Client plain = connect(), stream = connect();
  plain.send(post("/v1/completions", R"({"prompt":"x","max_tokens":100,"ignore_eos":true,"deadline_ms":50})"));
  plain.read_until("the deadline of 50 ms passed while it was computed");
  stream.send(
      post("/v1/completions", R"({"prompt":"x","max_tokens":100,"ignore_eos":true,"deadline_ms":80,"stream":true})"));
  stream.read_until("timeout_error");
}

// Goal: a client that reads nothing for a while loses nothing, and others are not held up meanwhile.
TEST_F(ServerTest, ASlowReaderGetsEverything) {
  backend.engine.script = std::string(200, 'a');
  Client slow = connect();
  slow.send(post("/v1/completions", R"({"prompt":"x","max_tokens":200,"n":32,"stream":true,"logprobs":20})"));
  EXPECT_THAT(ask("GET /health HTTP/1.0\r\n\r\n"), HasSubstr(kOk));
  EXPECT_TRUE(idle_within(8000));
  const std::string answer = slow.read_until("data: [DONE]");
  size_t ends = 0;
  for (size_t at = 0; (at = answer.find("\"finish_reason\":\"length\"", at)) != std::string::npos; ++at) ++ends;
  EXPECT_EQ(ends, 32u);
}

TEST_F(ServerTest, AFailureBeforeTheFirstTokenIsAStatus) {
  EXPECT_THAT(ask(post("/v1/completions", R"({"prompt":"boom!","stream":true})", "Connection: close\r\n")),
              StartsWith("HTTP/1.1 500 "));
  EXPECT_THAT(ask(post("/v1/completions", R"({"prompt":"boom!"})", "Connection: close\r\n")),
              StartsWith("HTTP/1.1 500 "));
}

TEST_F(ServerTest, ManyClientsAtOnce) {
  backend.engine.step_ms = 1;
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int c = 0; c < 32; ++c) {
    threads.emplace_back([&, c] {
      Client client = connect();
      client.send(post("/v1/chat/completions", R"({"stream":true,"messages":[{"role":"user","content":"hi"}]})"));
      if (c % 4 == 3) return;  // leaves at once
      if (client.read_until("0\r\n\r\n").ends_with("data: [DONE]\n\n\r\n0\r\n\r\n")) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 24);
  EXPECT_TRUE(idle_within(1000));
}

TEST_F(ServerTest, DrainLetsStreamsFinishAndRefusesNewOnes) {
  backend.engine.step_ms = 10;
  Client running = connect(), waiting = connect();
  waiting.send(kHealth);
  waiting.read_until(kOk);
  running.send(post("/v1/completions", R"({"prompt":"x","stream":true})"));
  running.read_until("data: ");
  server->begin_drain();
  while (!service.draining()) std::this_thread::yield();
  waiting.send(post("/v1/completions", R"({"prompt":"x"})"));
  const std::string refused = waiting.read_to_close();
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(refused, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_THAT(refused, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(running.read_to_close(), HasSubstr("\"finish_reason\":\"stop\""));
  server->wait();
}

TEST_F(ServerTest, DrainEndsWhatDoesNotFinishInTime) {
  backend.engine.step_ms = 20;
  backend.engine.script = std::string(250, 'a');
  Client client = connect();
  client.send(post("/v1/completions", R"({"prompt":"x","stream":true,"max_tokens":200})"));
  client.read_until("data: ");
  server->begin_drain();
  const std::string rest = client.read_to_close();
  EXPECT_THAT(rest, HasSubstr("\"finish_reason\":\"abort\""));
  EXPECT_THAT(rest, HasSubstr("data: [DONE]"));
  server->wait();
}

TEST(Server, SaysThatAPortIsInUse) {
  Service service{Service::Options{}};
  ServerOptions options;
  options.port = 0;
  const auto first = Server::listen(options, service);
  ASSERT_TRUE(first.ok());
  options.port = first.value()->port();
  const auto second = Server::listen(options, service);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr("127.0.0.1 port " + std::to_string(options.port)));
  EXPECT_THAT(second.error().message, HasSubstr("in use"));
}

struct SmallServerTest : ServerTest {
  SmallServerTest()
      : ServerTest({.connections_max = 3, .idle_timeout_ms = 300, .head_timeout_ms = 300, .body_timeout_ms = 300}) {}
};

// Goal: half requests and idle connections are closed in time, and one connection too many is told so.
TEST_F(SmallServerTest, ClosesWhatHangsAndTurnsAwayWhatIsTooMuch) {
  Client idle = connect(), half_head = connect(), half_body = connect();
  half_head.send("GET /hea");
  half_body.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_THAT(ask(kHealth), HasSubstr("too many connections"));
  EXPECT_EQ(idle.read_to_close(), "");
  EXPECT_EQ(half_head.read_to_close(), "");
  EXPECT_EQ(half_body.read_to_close(), "");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_THAT(ask("GET /health HTTP/1.0\r\n\r\n"), HasSubstr(kOk));
}

}  // namespace
}  // namespace pagoda::api
