#include "api/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "api/http_status.h"

namespace pagoda::api {
namespace http = boost::beast::http;
namespace {

constexpr size_t kRequestIdBytesMax = 128;

std::string printable_or_empty(std::string_view text) {
  const bool good = text.size() <= kRequestIdBytesMax &&
                    std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  return good ? std::string(text) : std::string();
}

}  // namespace

HttpResponse error_response(int status, const Error& error) {
  HttpResponse response;
  response.status = status;
  response.body = error_body(status, error);
  if (status == 503 || status == 429)
    response.headers.emplace_back("Retry-After", std::to_string(std::max(error.retry_after_s, 1)));
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

HttpResponse error_response(const Error& error) { return error_response(http_status(error.code), error); }

std::string format_head(const HttpResponse& response, const Framing& framing) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_phrase(response.status));
  const auto add = [&head](std::string_view name, std::string_view value) {
    head.append(name).append(": ").append(value).append("\r\n");
  };
  if (response.status != 204) add("Content-Type", response.content_type);
  if (framing.chunked) {
    add("Transfer-Encoding", "chunked");
  } else if (!framing.until_close && response.status != 204) {
    add("Content-Length", std::to_string(response.body.size()));
  }
  for (const auto& [name, value] : response.headers) add(name, value);
  if (framing.cors) add("Access-Control-Allow-Origin", "*");
  if (!framing.request_id.empty()) add("x-request-id", framing.request_id);
  add("Connection", framing.keep_alive ? "keep-alive" : "close");
  head.append("\r\n");
  return head;
}

std::string format_chunk(std::string_view data) {
  std::string chunk = fmt::format("{:x}\r\n", data.size());
  chunk.append(data).append("\r\n");
  return chunk;
}

struct RequestParser::Beast {
  http::request_parser<http::string_body> parser;
};

RequestParser::RequestParser() : beast_(std::make_unique<Beast>()) {
  beast_->parser.header_limit(kHeaderBytesMax);
  beast_->parser.body_limit(boost::none);  // set once the route is known
}
RequestParser::~RequestParser() = default;

RequestParser::State RequestParser::bad(int status, std::string message) {
  error_status_ = status;
  error_.message = std::move(message);
  return State::kBad;
}

RequestParser::State RequestParser::feed(std::string& buffer) {
  return head_done_ ? read_body(buffer) : scan_head(buffer);
}

// Beast's parser is lenient about line ends and folding; this scan is not, and it sees each byte once.
RequestParser::State RequestParser::scan_head(std::string& buffer) {
  if (scanned_ == 0) {
    while (buffer.starts_with("\r\n")) buffer.erase(0, 2);  // RFC 9112 2.2: empty lines before a request
    if (buffer.empty() || buffer == "\r") return State::kNeedMore;
    if (buffer[0] < 'A' || buffer[0] > 'Z') return bad(400, "this is not an HTTP/1.1 request");
  }
  for (; scanned_ < buffer.size(); ++scanned_) {
    const char c = buffer[scanned_];
    const char previous = scanned_ > 0 ? buffer[scanned_ - 1] : '\0';
    if (c == '\0') return bad(400, "the request head holds a zero byte");
    if ((c == '\n') != (previous == '\r')) return bad(400, "the request head holds a line that does not end in CR LF");
    if ((c == ' ' || c == '\t') && previous == '\n') return bad(400, "folded header lines are not accepted");
    if (c == '\n' && scanned_ >= 3 && buffer[scanned_ - 2] == '\n') return parse_head(buffer, scanned_ + 1);
    if (scanned_ >= kHeaderBytesMax) {
      return bad(431, fmt::format("the request head is larger than {} bytes", kHeaderBytesMax));
    }
  }
  return State::kNeedMore;
}

RequestParser::State RequestParser::parse_head(std::string& buffer, size_t head_bytes) {
  if (buffer.starts_with("PRI * HTTP/2")) return bad(400, "HTTP/2 is not supported, use HTTP/1.1");
  boost::beast::error_code failure;
  const size_t used = beast_->parser.put(boost::asio::buffer(buffer.data(), head_bytes), failure);
  if (failure && failure != http::error::need_more) return bad(400, "malformed request head: " + failure.message());
  if (!beast_->parser.is_header_done()) return bad(400, "malformed request head");
  buffer.erase(0, std::max(used, head_bytes));
  head_done_ = true;
  return check_head();
}

RequestParser::State RequestParser::check_head() {
  const auto& head = beast_->parser.get();
  const unsigned version = head.version();
  if (version != 10 && version != 11) return bad(400, "only HTTP/1.0 and HTTP/1.1 are supported");
  const auto hosts = head.count(http::field::host);
  if (hosts > 1 || (version == 11 && hosts == 0))
    return bad(400, fmt::format("{} Host headers, exactly 1 is required", hosts));
  const bool encoded = head.count(http::field::transfer_encoding) > 0;
  const auto lengths = head.count(http::field::content_length);
  if (lengths > 1) return bad(400, "more than one Content-Length header");
  if (encoded && lengths > 0) return bad(400, "both Transfer-Encoding and Content-Length");
  if (encoded && (!beast_->parser.chunked() || version == 10))
    return bad(400, "unsupported Transfer-Encoding, only chunked");

  const std::string_view target(head.target().data(), head.target().size());
  if (!target.starts_with('/') && target != "*") return bad(400, "the request target must be a path");
  const auto value = [&head](auto name) { return std::string(head[name].data(), head[name].size()); };
  request_.method = std::string(head.method_string().data(), head.method_string().size());
  request_.path = std::string(target.substr(0, target.find('?')));
  request_.minor_version = version == 11 ? 1 : 0;
  request_.keep_alive = beast_->parser.keep_alive();
  request_.expects_continue = boost::beast::iequals(head[http::field::expect], "100-continue");
  request_.has_origin = head.count(http::field::origin) > 0;
  request_.authorization = value(http::field::authorization);
  request_.x_api_key = value("x-api-key");
  request_.api_key = value("api-key");
  request_.request_id = printable_or_empty(value("x-request-id"));
  return State::kHead;
}

std::optional<uint64_t> RequestParser::content_length() const {
  if (beast_->parser.chunked()) return std::nullopt;
  const auto length = beast_->parser.content_length();
  return length ? *length : 0;
}

void RequestParser::set_body_limit(uint64_t bytes) { beast_->parser.body_limit(bytes); }

RequestParser::State RequestParser::read_body(std::string& buffer) {
  auto& parser = beast_->parser;
  parser.eager(true);
  while (!parser.is_done()) {
    boost::beast::error_code failure;
    const size_t used = parser.put(boost::asio::buffer(buffer.data(), buffer.size()), failure);
    buffer.erase(0, used);
    if (failure == http::error::need_more) return State::kNeedMore;
    if (failure == http::error::body_limit) return bad(413, "the request body is larger than this route accepts");
    if (failure) return bad(400, "malformed request body: " + failure.message());
    if (used == 0 && !parser.is_done()) return State::kNeedMore;
  }
  request_.body = std::move(parser.get().body());
  return State::kDone;
}

HttpRequest RequestParser::take_request() { return std::move(request_); }

}  // namespace pagoda::api
