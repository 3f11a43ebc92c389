#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "apps/loaded_model.h"
#include "engine/block_store.h"
#include "engine/host_blocks.h"
#include "metrics/serving_metrics.h"
#include "scheduler/tiers.h"

namespace pagoda::apps {

/// How long an ending process goes on writing blocks that wait for the disk.
inline constexpr int64_t kFlushUs = 10'000'000;

/// Where KV blocks may lie besides the pool, as flags say it.
struct KvTierFlags {
  std::string folder;                             // --kv-dir, "" = no disk tier
  uint64_t folder_bytes_max = uint64_t{8} << 30;  // --kv-dir-max
  std::string swap_space = "0";                   // --swap-space
};

/// The tiers themselves; they outlive the scheduler that uses them, and the metrics that count them.
struct KvTiers {
  std::unique_ptr<engine::HostBlocks> host{};
  std::unique_ptr<engine::BlockStore> disk{};

  scheduler::Tiers view() const { return {.host = host.get(), .disk = disk.get()}; }
  void show_in(metrics::ServingMetrics& metrics) const;
};

/// Opens them for a loaded model; reads its file once more if there is a disk tier. Errors: a size that holds no block,
/// a size that is none.
Result<KvTiers> open_kv_tiers(const KvTierFlags& flags, const LoadedModel& model);

/// "4GiB", "500MB"; a bare number is GiB, as --swap-space is in vLLM.
Result<int64_t> parse_swap_space(const std::string& text);

/// What the blocks of this model are on disk. Reads the whole file.
engine::KvFingerprint fingerprint_of(const weights::GgufFile& file, const model::ModelConfig& config,
                                     kernels::KvTypes types);

}  // namespace pagoda::apps
