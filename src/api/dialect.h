#pragma once
#include "api/http_message.h"
#include "core/result.h"

namespace pagoda::api {

/// Whose clients a route speaks to: decides how refusals look.
enum class Dialect { kOpenAI, kAnthropic, kOllama, kTgi };

/// The refusal as the dialect's clients read it. Statuses are http_status.h's, but TGI's 422 for what is invalid and
/// Anthropic's 529 for a full or unready server.
HttpResponse error_response(Dialect dialect, const Error& error);
HttpResponse error_response(Dialect dialect, int status, const Error& error);

}  // namespace pagoda::api
