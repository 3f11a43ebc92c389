#include "workload/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/mapped_file.h"

namespace pagoda::workload {
namespace {

constexpr double kNumberMax = 1e9;  // lengths, and a trace's milliseconds (11 days)

std::optional<TraceRequest> azure_line(const std::string& line) {
  int day = 0, hour = 0, minute = 0, prompt = 0, answer = 0;
  double second = 0;
  if (std::sscanf(line.c_str(), "%*d-%*d-%d %d:%d:%lf,%d,%d", &day, &hour, &minute, &second, &prompt, &answer) != 6 ||
      !(second >= 0 && second <= 60))
    return std::nullopt;
  return TraceRequest{((day * 24. + hour) * 60 + minute) * 60 + second, prompt, answer};
}

std::optional<TraceRequest> mooncake_line(const std::string& line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  const auto number = [&](const char* key) {
    const double value = json.is_object() && json.contains(key) && json[key].is_number() ? json[key].get<double>() : -1;
    return value < kNumberMax ? value : -1;
  };
  if (number("timestamp") < 0 || number("input_length") < 0 || number("output_length") < 0) return std::nullopt;
  TraceRequest request{number("timestamp") * 1e-3, static_cast<int32_t>(number("input_length")),
                       static_cast<int32_t>(number("output_length"))};
  if (json.contains("hash_ids"))
    for (const auto& id : json["hash_ids"]) {
      if (!id.is_number_integer()) return std::nullopt;
      request.blocks.push_back(id.get<int64_t>());
    }
  return request;
}

int32_t scaled(double tokens, double factor) {
  return static_cast<int32_t>(std::clamp(std::round(tokens * factor), 1.0, kNumberMax));
}

/// Token `at` of the stretch that `hash` names.
TokenId token_of(int64_t hash, int32_t at, int32_t vocab) {
  uint64_t x = static_cast<uint64_t>(hash) * 0x9E3779B97F4A7C15ull + static_cast<uint64_t>(at) + 1;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;  // SplitMix64
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return static_cast<TokenId>((x ^ (x >> 31)) % static_cast<uint64_t>(vocab));
}

}  // namespace

Result<std::vector<TraceRequest>> read_trace(const std::string& path, int32_t requests) {
  std::ifstream in(path);
  if (!in) return Error{Code::kNotFound, fmt::format("cannot open the trace {}", file_name(path)), "--trace"};
  std::vector<TraceRequest> trace;
  std::string line;
  for (int32_t number = 1; std::getline(in, line) && static_cast<int32_t>(trace.size()) < requests; ++number) {
    if (line.empty() || line.starts_with("TIMESTAMP")) continue;
    std::optional<TraceRequest> request = line.front() == '{' ? mooncake_line(line) : azure_line(line);
    if (!request || request->prompt_tokens < 0 || request->answer_tokens < 0)
      return Error{Code::kCorruptFile,
                   fmt::format("{}: line {} is no request of an Azure or Mooncake trace", file_name(path), number),
                   "--trace"};
    trace.push_back(std::move(*request));
  }
  if (trace.empty()) return Error{Code::kCorruptFile, fmt::format("{} holds no request", file_name(path)), "--trace"};
  std::ranges::stable_sort(trace, {}, &TraceRequest::arrival_s);
  const double first = trace.front().arrival_s;
  for (TraceRequest& request : trace) request.arrival_s -= first;
  return trace;
}

std::vector<ScaledRequest> scale_trace(const std::vector<TraceRequest>& trace, const TraceScale& scale) {
  const double span = trace.back().arrival_s;
  const double wanted = scale.requests_per_s > 0 ? static_cast<double>(trace.size() - 1) / scale.requests_per_s : 0;
  const int32_t stretch = scaled(kTraceBlockTokens, scale.lengths);
  std::vector<ScaledRequest> out;
  for (size_t i = 0; i < trace.size(); ++i) {
    const TraceRequest& from = trace[i];
    ScaledRequest to{span > 0 ? from.arrival_s / span * wanted : 0, {}, scaled(from.answer_tokens, scale.lengths)};
    to.max_tokens = std::min(to.max_tokens, scale.tokens_max / 2);
    const int32_t tokens = std::min(scaled(from.prompt_tokens, scale.lengths), scale.tokens_max - to.max_tokens);
    const int64_t own = -1 - static_cast<int64_t>(i);  // text that nobody else has
    for (int32_t t = 0; t < tokens; ++t) {
      const auto block = static_cast<size_t>(t / stretch);
      const bool shared = block < from.blocks.size();
      to.prompt.push_back(token_of(shared ? from.blocks[block] : own, shared ? t % stretch : t, scale.vocab));
    }
    out.push_back(std::move(to));
  }
  return out;
}

}  // namespace pagoda::workload
