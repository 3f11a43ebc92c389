#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/kv_path.h"
#include "metrics/tier_counters.h"

namespace pagoda::engine {

/// Why a load ended where it did. Names: TierCounters::kEnds.
enum class LoadEnd : uint8_t {
  kWhole,    // every block that was asked for came
  kAbsent,   // the next one is not there
  kDamaged,  // it is there, but not as it was written; what is damaged is thrown away
  kForeign,  // something else lies in its place
  kRefused,  // the system did not let us read it, or the tier is switched off
};

using metrics::TierCounters;

/// A place for KV blocks beyond the pool: host memory, or a disk. It may lose whatever it was given, and be slow, but
/// what it hands out is what was saved under that name, byte for byte.
///
/// All but counters() are for one thread, the one that owns the pool, and none of them waits for a device.
class BlockTier {
 public:
  enum class LoadId : uint64_t {};
  struct LoadState {
    int32_t ready;               // blocks that can be taken now
    std::optional<LoadEnd> end;  // nothing comes after those
  };

  virtual ~BlockTier() = default;
  /// What it shows up as in metrics and answers: "host", "disk".
  virtual const char* name() const = 0;
  /// Of model and numbers: names must come from a space of it.
  virtual const Digest& fingerprint() const = 0;

  /// Keeps a block: `fill` writes its bytes into the tier's buffer, before save() returns. It is not called for a block
  /// that is there or has no room.
  virtual void save(const BlockName& name, const std::function<void(std::span<std::byte>)>& fill) = 0;
  /// Begins to read blocks, which follow one another, until one is missing.
  virtual LoadId load(std::vector<BlockName> names) = 0;
  virtual LoadState state(LoadId id) = 0;
  /// The next block of a load, which has one ready.
  virtual void take(LoadId id, const std::function<void(std::span<const std::byte>)>& use) = 0;
  /// The end of a load, finished or not; its id is gone.
  virtual void end(LoadId id) = 0;
  /// Loads that begin from now on find nothing that was saved before.
  virtual void forget_all() = 0;
  /// `news` is called from any thread when a load has more to give or has ended.
  virtual void on_news(std::function<void()> news) = 0;

  virtual TierCounters& counters() = 0;
};

}  // namespace pagoda::engine
