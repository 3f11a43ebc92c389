#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/cpu_engine.h"
#include "kernels/machine_rates.h"
#include "sizing/roofline.h"

namespace pagoda::apps {

/// Decode steps of one measurement.
inline constexpr int32_t kDecodeSteps = 24;

enum class Work : uint8_t { kPrefill, kDecode, kBatch };

/// One kind of work and its measurements, one a round.
struct LatencyCell {
  Work work;
  int32_t tokens;     // of the prompt, or in the cache at the first decode step
  int32_t sequences;  // decoding together
  struct Round {
    double seconds;         // of the prefill, or of a decode step
    double bandwidth_gb_s;  // plain reads of the weights before and after, their mean
  };
  std::vector<Round> rounds{};
};

/// What `bench latency` found out.
struct LatencyReport {
  std::string model;
  engine::EngineInfo info;
  sizing::ModelCost cost;
  kernels::ArithmeticRates rates;  // the better of before and after all rounds
  std::vector<LatencyCell> cells;
  std::vector<int64_t> steal_ticks;  // by round
  double steal_percent;              // of all CPUs' time over all rounds
  std::vector<double> load_seconds;  // from opening the file to an engine that can run
  double bandwidth_gb_s;             // median of all reads
  int64_t file_bytes;
  int64_t tensor_bytes;  // of the file, those of an untied embedding included
  int64_t kv_bytes;      // of the blocks that were used
  int64_t peak_bytes;    // resident, at its highest
};

/// Tokens a second: measured, what the machine could do at most in that round, and their ratio in percent.
struct Speed {
  double tok_s, limit_tok_s, percent;
};
Speed speed_of(const LatencyReport& report, const LatencyCell& cell, const LatencyCell::Round& round);
/// Medians over the rounds, each for itself.
Speed median_speed(const LatencyReport& report, const LatencyCell& cell);

/// A share of the least that is possible: seconds of loading, bytes of memory.
struct Share {
  double value, limit, percent;
};
Share load_share(const LatencyReport& report);
Share memory_share(const LatencyReport& report);

/// The whole table for people, as one JSON object, and as a drawing.
std::string latency_table(const LatencyReport& report);
std::string latency_json(const LatencyReport& report);
std::string latency_svg(const LatencyReport& report);

/// One prefill, one decode and one batch, in the keys that scripts read: prefill_tok_s, decode_tok_s,
/// batch_decode_tok_s, each one's _percent_of_limit, rounds, machine.
std::string latency_shape_json(const LatencyReport& report);

}  // namespace pagoda::apps
