#pragma once
// A service over a whole backend (test_backend.h), asked without sockets.
#include <gtest/gtest.h>

#include <condition_variable>
#include <sstream>

#include "api/service.h"
#include "api/test_backend.h"

namespace pagoda::api {

struct Answer {
  int status = 0;
  std::string body{};
  /// The lines of newline-delimited JSON.
  std::vector<Json> lines() const {
    std::vector<Json> all;
    std::istringstream text(body);
    for (std::string line; std::getline(text, line);) all.push_back(Json::parse(line, nullptr, false));
    return all;
  }
  Json json() const { return Json::parse(body, nullptr, false); }
  /// The documents of a stream, without "[DONE]".
  std::vector<Json> events() const {
    std::vector<Json> all;
    for (size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
      const size_t end = body.find("\n\n", at);
      const std::string text = body.substr(at + 6, end - at - 6);
      if (text != "[DONE]") all.push_back(Json::parse(text, nullptr, false));
      at = end;
    }
    return all;
  }
};

class ServiceTest : public testing::Test {
 protected:
  explicit ServiceTest(const std::string& template_source = "") {
    service.set_backend(backend.backend(template_source));
  }

  Answer ask(const std::string& method, const std::string& path, const std::string& body = "",
             const std::string& key = "") {
    return run(service.handle({.method = method, .path = path, .authorization = key, .body = body}));
  }
  Answer post(const std::string& path, const std::string& body) { return ask("POST", path, body); }

  /// What a connection does, without one.
  Answer run(Reply reply) {
    if (auto* response = std::get_if<HttpResponse>(&reply)) return {response->status, response->body};
    PreparedGeneration& prepared = std::get<PreparedGeneration>(reply);
    std::mutex mutex;
    std::condition_variable news;
    const auto inbox = std::make_shared<Inbox>(prepared.choices, prepared.stream, prepared.keep_sampled, [&] {
      const std::lock_guard lock(mutex);
      news.notify_all();
    });
    int32_t first = 0;
    for (scheduler::Request& request : prepared.requests) {
      const int32_t n = request.n;
      request.sink = inbox->sink(first);
      const auto id = prepared.scheduler->submit(std::move(request));
      if (!id.ok()) return {429, id.error().message};
      first += n;
    }
    Answer answer{200};
    for (bool last = false; !last;) {
      last = inbox->finished();
      answer.body += prepared.writer->add(inbox->take());
      std::unique_lock lock(mutex);
      if (!last) news.wait_for(lock, std::chrono::milliseconds(5));
    }
    answer.body += prepared.stream ? prepared.writer->stream_end() : prepared.writer->body();
    return answer;
  }

  TestBackend backend{};
  Service service{Service::Options{}};
};

}  // namespace pagoda::api
