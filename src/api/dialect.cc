#include "api/dialect.h"

#include "api/http_status.h"
#include "api/json_text.h"

namespace pagoda::api {
namespace {

std::string_view anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 504:
      return "timeout_error";
    case 529:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

std::string_view tgi_type(int status) {
  switch (status) {
    case 422:
      return "validation";
    case 429:
      return "overloaded";
    default:
      return status < 500 ? "validation" : "generation";
  }
}

Json body_of(Dialect dialect, int status, const Error& error) {
  Json body;
  if (dialect == Dialect::kAnthropic) {
    body["type"] = "error";
    body["error"] = Json{{"type", anthropic_type(status)}, {"message", error.message}};
  } else {
    body["error"] = error.message;
    if (dialect == Dialect::kTgi) body["error_type"] = tgi_type(status);
  }
  return body;
}

}  // namespace

HttpResponse error_response(Dialect dialect, const Error& error) {
  int status = http_status(error.code);
  if (dialect == Dialect::kTgi && status == 400) status = 422;
  if (dialect == Dialect::kAnthropic && status == 503) status = 529;
  return error_response(dialect, status, error);
}

HttpResponse error_response(Dialect dialect, int status, const Error& error) {
  HttpResponse response = error_response(status, error);
  if (dialect != Dialect::kOpenAI) response.body = dump(body_of(dialect, status, error));
  return response;
}

}  // namespace pagoda::api
