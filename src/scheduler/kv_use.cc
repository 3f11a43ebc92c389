#include "scheduler/kv_use.h"

#include <algorithm>

namespace pagoda::scheduler {

metrics::KvUse kv_use_of(const std::vector<Sequence*>& running, const kvcache::PrefixCache& blocks,
                         bool short_of_blocks) {
  metrics::KvUse use;
  for (const Sequence* seq : running) {
    const int32_t begun = div_ceil(seq->cached_tokens, kBlockTokens);
    // What ended sequences of a static batch keep is lost like padding.
    use.internal += seq->ended() ? int64_t{begun} * kBlockTokens : begun * kBlockTokens - seq->cached_tokens;
    use.reserved += int64_t{seq->blocks_held() - begun} * kBlockTokens;
  }
  const auto slots_of = [&](int64_t pages) { return pages * kBlockTokens / blocks.shape().pages(); };
  const int64_t total = slots_of(blocks.total_pages()), available = slots_of(blocks.available_pages());
  use.used = std::max<int64_t>(0, total - available - use.internal - use.reserved);
  (short_of_blocks ? use.external : use.free) = available;
  return use;
}

}  // namespace pagoda::scheduler
