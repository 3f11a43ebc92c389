#pragma once
#include <span>
#include <vector>

#include "scheduler/plan_step.h"

namespace pagoda::scheduler {

/// Who of the waiting enters with the next step. Pure, a part of plan_step().
struct Newcomers {
  std::vector<Sequence*> entering;
  int32_t reserve_blocks = 0;    // each holds so many from its first row on (SchedulingMode::kStatic: its batch's)
  bool short_of_blocks = false;  // see Plan
  int32_t deferred = 0;
};

/// `prompts` of those running are not done; `free_pages` are left by the decodes.
Newcomers find_newcomers(const std::vector<Sequence*>& running, const std::vector<Sequence*>& prompts,
                         std::span<Sequence* const> waiting, int32_t free_pages, int32_t total_pages,
                         const Limits& limits);

/// KV blocks of so many tokens.
inline int32_t blocks_for(int32_t tokens) { return div_ceil(tokens, kBlockTokens); }
/// Most pages that a sequence of so many tokens holds before it ends; all of its blocks' in modes that reserve ahead.
int32_t pages_for(int32_t tokens, const Limits& limits);
/// What a mode that reserves ahead takes for a prompt and its longest answer. The last token is never read back.
inline int32_t blocks_to_reserve(int32_t prompt_tokens, int32_t answer_tokens) {
  return blocks_for(prompt_tokens + std::max(0, answer_tokens - 1));
}

}  // namespace pagoda::scheduler
