#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/ids.h"
#include "core/result.h"

namespace pagoda::workload {

/// One request of a production trace.
struct TraceRequest {
  double arrival_s;  // since the first one
  int32_t prompt_tokens;
  int32_t answer_tokens;
  std::vector<int64_t> blocks{};  // hashes of its prompt's stretches of kTraceBlockTokens: equal ones are equal text
};
inline constexpr int32_t kTraceBlockTokens = 512;

/// The first `requests` of a trace, by arrival. Formats, told by content:
///   Azure     csv: TIMESTAMP,ContextTokens,GeneratedTokens (Splitwise, ISCA 2024)
///   Mooncake  a JSON object a line: timestamp (ms), input_length, output_length, hash_ids (arXiv:2407.00079)
/// Errors: kNotFound, kCorruptFile naming the line.
Result<std::vector<TraceRequest>> read_trace(const std::string& path, int32_t requests);

/// How a trace is made to fit a small machine.
struct TraceScale {
  double lengths = 1;         // of prompts, answers and shared stretches, > 0
  double requests_per_s = 0;  // mean rate: times are stretched alike; 0 = all at once
  int32_t tokens_max = 0;     // longest prompt plus answer; prompts are cut
  int32_t vocab = 0;          // token ids are below it
};

/// A trace's request as the scheduler gets it: arbitrary tokens, the same for the same hash.
struct ScaledRequest {
  double arrival_s;
  std::vector<TokenId> prompt;
  int32_t max_tokens;
};
std::vector<ScaledRequest> scale_trace(const std::vector<TraceRequest>& trace, const TraceScale& scale);

}  // namespace pagoda::workload
