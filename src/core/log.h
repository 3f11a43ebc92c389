#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/result.h"

namespace pagoda {

/// Log lines go to standard error; standard output carries answers only.
enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// "debug", "info", "warning" (or "warn"), "error", "off"; anything else is an error that lists them.
Result<LogLevel> parse_log_level(const std::string& name);

void set_log_level(LogLevel level);
void log_line(LogLevel level, std::string_view line);

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace pagoda
