#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace pagoda::api {

/// A request as the routes see it.
struct HttpRequest {
  std::string method{};
  std::string path{};         // target without the query
  int32_t minor_version = 1;  // of HTTP/1
  bool keep_alive = true;
  bool expects_continue = false;
  bool has_origin = false;  // a browser asks: CORS headers are wanted
  std::string authorization{};
  std::string x_api_key{};
  std::string api_key{};
  std::string request_id{};  // x-request-id, "" unless printable and short
  std::string body{};
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};
};

/// The refusal of one request.
HttpResponse error_response(const Error& error);
HttpResponse error_response(int status, const Error& error);

/// How a response's head is framed on this connection.
struct Framing {
  std::string request_id{};
  bool keep_alive = true;
  bool chunked = false;      // Transfer-Encoding: chunked instead of Content-Length
  bool until_close = false;  // neither: the body ends with the connection (HTTP/1.0)
  bool cors = false;
};

/// Status line and headers with the empty line. Values are ours or were checked when they came in.
std::string format_head(const HttpResponse& response, const Framing& framing);

/// `data` as one chunk of a chunked body; "" gives the last chunk.
std::string format_chunk(std::string_view data);

/// Reads one HTTP/1.x request from a byte stream. Strict where leniency is what request smuggling lives on: no bare
/// line feeds, no folded headers, not both Content-Length and Transfer-Encoding, one Host.
class RequestParser {
 public:
  static constexpr size_t kHeaderBytesMax = 16384;

  RequestParser();
  ~RequestParser();

  enum class State {
    kNeedMore,  // of the head or of the body
    kHead,      // the head is complete: set_body_limit(), then feed() again
    kDone,
    kBad,  // refuse with error_status() and error(), then close
  };
  /// Consumes what it can from the front of `buffer`.
  State feed(std::string& buffer);

  /// Bytes of the body, if the head told; absent for a chunked one.
  std::optional<uint64_t> content_length() const;
  /// Bodies beyond it are refused with 413. Meaningful after kHead.
  void set_body_limit(uint64_t bytes);

  const HttpRequest& request() const { return request_; }
  HttpRequest take_request();
  int error_status() const { return error_status_; }
  const Error& error() const { return error_; }

 private:
  State bad(int status, std::string message);
  State scan_head(std::string& buffer);
  State parse_head(std::string& buffer, size_t head_bytes);
  State check_head();
  State read_body(std::string& buffer);

  struct Beast;
  std::unique_ptr<Beast> beast_;
  HttpRequest request_{};
  size_t scanned_ = 0;
  bool head_done_ = false;
  int error_status_ = 400;
  Error error_{Code::kInvalidRequest, "", ""};
};

}  // namespace pagoda::api
