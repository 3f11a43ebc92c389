#include "apps/json_lines.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <string>

namespace pagoda::apps {
namespace {

nlohmann::json answer_line(const std::string& line, const JsonLine& answer) {
  const nlohmann::json parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return {{"error", "the line is not valid JSON in UTF-8"}};
  auto result = answer(parsed);
  if (!result.ok()) return {{"error", result.error().message}};
  return std::move(result).take();
}

}  // namespace

int run_json_lines(const JsonLine& answer) {
  for (std::string line; std::getline(std::cin, line);) {
    fmt::print("{}\n", answer_line(line, answer).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    std::fflush(stdout);  // whoever wrote the line may wait for its answer before writing the next
  }
  return 0;
}

}  // namespace pagoda::apps
