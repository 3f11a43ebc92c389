#pragma once
#include <functional>
#include <nlohmann/json.hpp>

#include "core/result.h"

namespace pagoda::apps {

/// What a --jsonl verb does with one line.
using JsonLine = std::function<Result<nlohmann::json>(const nlohmann::json&)>;

/// Reads standard input line by line and prints one JSON value a line: `answer`'s, or {"error": reason} for a line that
/// is no JSON or that `answer` refuses. Goes on after a bad line; returns the exit code, 0 once the input ends.
int run_json_lines(const JsonLine& answer);

}  // namespace pagoda::apps
