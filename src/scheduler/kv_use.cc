#include "scheduler/kv_use.h"

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
  use.used = int64_t{blocks.held_blocks()} * kBlockTokens - use.internal - use.reserved;
  (short_of_blocks ? use.external : use.free) = int64_t{blocks.available_blocks()} * kBlockTokens;
  return use;
}

}  // namespace pagoda::scheduler
