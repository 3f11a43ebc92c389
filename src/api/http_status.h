#pragma once
#include <string>
#include <string_view>

#include "core/result.h"

namespace pagoda::api {

/// The one place where an error becomes an HTTP status.
int http_status(Code code);

/// Reason phrase of the statuses Pagoda sends.
std::string_view reason_phrase(int status);

/// OpenAI's error body: {"error":{"message","type","param","code"}}. `code` is OpenAI's word where it has one
/// ("context_length_exceeded" for kTooLarge, "model_not_found", "invalid_api_key"), else null.
std::string error_body(int status, const Error& error);

}  // namespace pagoda::api
