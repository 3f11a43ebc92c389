#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/result.h"
#include "engine/block_tier.h"
#include "engine/kv_fingerprint.h"

namespace pagoda::engine {

struct BlockStoreOptions {
  std::string folder;                       // --kv-dir
  int64_t bytes_max = int64_t{8} << 30;     // --kv-dir-max, over all fingerprints in the folder
  int64_t queue_bytes = int64_t{64} << 20;  // blocks waiting to be written, and again as many that were read ahead
  int64_t retry_us = 10'000'000;            // pause after a write that the system refused
};

/// The disk tier. Two threads of its own do all that may wait: one writes what save() queued, and drops what finds the
/// queue full; one reads, a block of each load in turn, so that a long load does not hold up a short one.
///
/// No trouble with the disk is an error of a request: what cannot be read is a miss, what cannot be written is dropped,
/// both are counted, and the log says so once a minute. A file found damaged is removed.
class BlockStore : public BlockTier {
 public:
  /// Creates the folder. One that cannot be written to is read from; one that cannot be read is all misses; both are
  /// tried again later.
  /// Error kInvalidRequest if bytes_max does not hold one block.
  static Result<std::unique_ptr<BlockStore>> open(const BlockStoreOptions& options, const KvFingerprint& fingerprint);
  /// Waits until all that was queued is written, or `timeout_us` have gone; false then. For a drain, and for tests.
  virtual bool flush(int64_t timeout_us) = 0;
};

}  // namespace pagoda::engine
