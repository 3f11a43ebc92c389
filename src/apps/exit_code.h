#pragma once
#include <fmt/format.h>

#include "core/result.h"

namespace pagoda::apps {

/// What every verb exits with; never a signal.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;         // refused or failed, the reason is on standard error
inline constexpr int kUsage = 2;          // the command line makes no sense
inline constexpr int kInterrupted = 130;  // Ctrl-C, as shells say it

/// Says why `verb` gave up.
inline int fail(const char* verb, const Error& error) {
  fmt::print(stderr, "pagoda {}: {}\n", verb, error.message);
  return kFailed;
}

}  // namespace pagoda::apps
