#pragma once
#include <array>
#include <atomic>
#include <cstdint>

namespace pagoda::metrics {

/// What a place for KV blocks beyond the pool did, ever. Read by any thread.
struct TierCounters {
  /// How loads end: engine::LoadEnd.
  static constexpr std::array<const char*, 5> kEnds{"whole", "absent", "damaged", "foreign", "refused"};

  std::atomic<int64_t> blocks_loaded{0}, bytes_loaded{0};
  std::atomic<int64_t> blocks_saved{0}, bytes_saved{0};
  std::array<std::atomic<int64_t>, kEnds.size()> loads_ended{};
  std::atomic<int64_t> loads_late{0};      // given up by who waited for them
  std::atomic<int64_t> reads{0};           // attempts that came back, whatever came of them
  std::atomic<int64_t> saves_dropped{0};   // the queue was full, or the tier pauses after a failure
  std::atomic<int64_t> saves_failed{0};    // the system refused
  std::atomic<int64_t> blocks_evicted{0};  // made room for others
  std::atomic<int64_t> bytes_held{0};      // a gauge
  std::atomic<bool> works{true};           // false: nothing is saved until it recovers
};

}  // namespace pagoda::metrics
