#include "apps/kv_tiers.h"

#include <fmt/format.h>

#include <cmath>

#include "core/clock.h"
#include "core/log.h"
#include "engine/kv_storage.h"
#include "kernels/attention/kv_type.h"

namespace pagoda::apps {

engine::KvFingerprint fingerprint_of(const weights::GgufFile& file, const model::ModelConfig& config,
                                     kernels::KvTypes types) {
  return engine::kv_fingerprint(file, config, kernels::kv_types_name(types), engine::kv_block_bytes(config, types));
}

Result<int64_t> parse_swap_space(const std::string& text) {
  constexpr double kGib = 1 << 30;
  const auto wrong = [&text] {
    return Error{Code::kInvalidRequest, fmt::format("--swap-space is \"{}\", a size such as 4GiB is wanted", text),
                 "--swap-space"};
  };
  try {
    size_t used = 0;
    if (const double gib = std::stod(text, &used); used == text.size()) {
      if (!(gib >= 0 && gib < 1e6)) return wrong();
      return static_cast<int64_t>(gib * kGib);
    }
    std::string bytes = text;
    CLI::AsSizeValue(false)(bytes);
    return static_cast<int64_t>(std::stoull(bytes));
  } catch (const std::exception&) {
    return wrong();
  }
}

Result<KvTiers> open_kv_tiers(const KvTierFlags& flags, const LoadedModel& model) {
  KvTiers tiers;
  PAGODA_TRY(const int64_t swap_bytes, parse_swap_space(flags.swap_space));
  engine::KvFingerprint fingerprint{.digest = {}, .text = {}, .block_bytes = model.engine->block_bytes()};
  if (!flags.folder.empty()) {
    const int64_t began_us = SteadyClock{}.now_us();
    fingerprint = fingerprint_of(*model.file, model.engine->config(), model.engine->info().kv_types);
    log_info("kv-dir: {}, up to {:.1f} GB, fingerprint {} (read in {:.2f} s)", flags.folder,
             static_cast<double>(flags.folder_bytes_max) / 1e9, engine::hex(fingerprint.digest, 8),
             static_cast<double>(SteadyClock{}.now_us() - began_us) / 1e6);
    PAGODA_TRY(tiers.disk,
               engine::BlockStore::open(
                   {.folder = flags.folder, .bytes_max = static_cast<int64_t>(flags.folder_bytes_max)}, fingerprint));
  }
  if (swap_bytes > 0) {
    PAGODA_TRY(tiers.host, engine::HostBlocks::create(fingerprint.digest, fingerprint.block_bytes, swap_bytes));
    log_info("swap space: {} blocks", tiers.host->capacity_bytes() / fingerprint.block_bytes);
  }
  return tiers;
}

void KvTiers::show_in(metrics::ServingMetrics& metrics) const {
  for (engine::BlockTier* tier :
       {static_cast<engine::BlockTier*>(host.get()), static_cast<engine::BlockTier*>(disk.get())})
    if (tier != nullptr) metrics.watch_tier(tier->name(), tier->counters());
}

}  // namespace pagoda::apps
