#include "api/http_status.h"

#include <nlohmann/json.hpp>

namespace pagoda::api {
namespace {

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "unavailable_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

/// OpenAI's word for it, "" if it has none.
std::string_view openai_code(const Error& error) {
  if (error.code == Code::kTooLarge) return "context_length_exceeded";
  if (error.code == Code::kNotFound && error.param == "model") return "model_not_found";
  if (error.code == Code::kUnauthorized) return "invalid_api_key";
  return {};
}

}  // namespace

int http_status(Code code) {
  switch (code) {
    case Code::kInvalidRequest:
      return 400;
    case Code::kNotFound:
      return 404;
    case Code::kUnauthorized:
      return 401;
    case Code::kCorruptFile:
      return 500;
    case Code::kUnsupported:
      return 400;
    case Code::kTooLarge:
      return 400;
    case Code::kNoCapacity:
      return 429;
    case Code::kUnavailable:
      return 503;
    case Code::kCancelled:
      return 503;
    case Code::kDeadline:
      return 504;
    case Code::kIo:
      return 500;
    case Code::kInternal:
      return 500;
  }
  return 500;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return status < 500 ? "Error" : "Internal Server Error";
  }
}

std::string error_body(int status, const Error& error) {
  nlohmann::ordered_json inner;
  inner["message"] = error.message;
  inner["type"] = error_type(status);
  inner["param"] = error.param.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(error.param);
  const std::string_view word = openai_code(error);
  inner["code"] = word.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(word);
  nlohmann::ordered_json body;
  body["error"] = std::move(inner);
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace pagoda::api
