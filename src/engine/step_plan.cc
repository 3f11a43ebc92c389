#include "engine/step_plan.h"

#include <algorithm>

#include "core/check.h"

namespace pagoda::engine {
namespace {

void check(const SequenceChunk& chunk, const StepLimits& limits) {
  PAGODA_CHECK(chunk.begin >= 0 && chunk.count >= 1);
  const int64_t end = int64_t{chunk.begin} + chunk.count;
  PAGODA_CHECK(end <= static_cast<int64_t>(chunk.history.size()) && end <= limits.max_model_len);
  PAGODA_CHECK(!chunk.sample || end == static_cast<int64_t>(chunk.history.size()));
  PAGODA_CHECK(!chunk.sample || chunk.params != nullptr);
  PAGODA_CHECK(end <= static_cast<int64_t>(chunk.blocks.size()) * kBlockTokens);
  for (const BlockId block : chunk.blocks) PAGODA_CHECK(static_cast<int64_t>(block) < limits.total_blocks);
  PAGODA_CHECK(std::ssize(chunk.further_blocks) == limits.shape.pages() - 1);
  for (int32_t table = 1; table < limits.shape.pages(); ++table) {
    const std::vector<BlockId>& blocks = chunk.further_blocks[static_cast<size_t>(table) - 1];
    PAGODA_CHECK(end <= static_cast<int64_t>(blocks.size()) * kBlockTokens);
    const int32_t first = table < limits.shape.always ? 0 : limits.shape.first_seen(chunk.begin);
    for (size_t i = static_cast<size_t>(first); static_cast<int64_t>(i) * kBlockTokens < end; ++i)
      PAGODA_CHECK(static_cast<int64_t>(blocks[i]) < limits.total_blocks);
  }
  PAGODA_CHECK(chunk.prompt_tokens >= 1 && chunk.prompt_tokens <= static_cast<int64_t>(chunk.history.size()));
}

void add_rows(const SequenceChunk& chunk, int32_t vocab, model::StepRows& rows) {
  for (int32_t i = 0; i < chunk.count; ++i) {
    const int32_t position = chunk.begin + i;
    const TokenId token = chunk.history[static_cast<size_t>(position)];
    PAGODA_CHECK(token >= 0 && token < vocab);
    if (i % model::kTileRows == 0)
      rows.tiles.push_back({rows.rows(), std::min(model::kTileRows, chunk.count - i), position, chunk.blocks.data(),
                            chunk.further_blocks.data()});
    rows.tokens.push_back(token);
    rows.positions.push_back(position);
    const auto block = static_cast<size_t>(position / kBlockTokens);
    rows.blocks.push_back(chunk.blocks[block]);
    for (size_t table = 0; table < rows.further_blocks.size(); ++table)
      rows.further_blocks[table].push_back(chunk.further_blocks[table][block]);
    rows.slots.push_back(position % kBlockTokens);
  }
}

}  // namespace

StepPlan plan_rows(const Batch& batch, const StepLimits& limits, StepOutput& out) {
  StepPlan plan;
  plan.rows.further_blocks.resize(static_cast<size_t>(limits.shape.pages()) - 1);
  for (const BlockCopy& copy : batch.copies) {
    PAGODA_CHECK(static_cast<int64_t>(copy.from) < limits.total_blocks);
    PAGODA_CHECK(static_cast<int64_t>(copy.to) < limits.total_blocks && copy.from != copy.to);
  }
  out.chunks.resize(batch.chunks.size());
  for (size_t c = 0; c < batch.chunks.size(); ++c) {
    const SequenceChunk& chunk = batch.chunks[c];
    check(chunk, limits);
    const int32_t first_row = plan.rows.rows();
    add_rows(chunk, limits.vocab, plan.rows);
    for (int32_t i = 0; i < chunk.count; ++i) {
      const int32_t position = chunk.begin + i;
      const bool scored = chunk.score != nullptr && position < chunk.prompt_tokens;
      const bool sampled = chunk.sample && i == chunk.count - 1;
      if (!scored && !sampled) continue;
      std::vector<PromptScore>& scores = out.chunks[c].prompt_scores;
      const int32_t score_index = scored ? static_cast<int32_t>(scores.size()) : -1;
      if (scored) scores.push_back({.position = position, .next_logprob = 0, .top = {}, .ids = {}});
      plan.logit_rows.push_back({first_row + i, static_cast<int32_t>(c), score_index, sampled});
    }
  }
  PAGODA_CHECK(plan.rows.rows() <= limits.max_rows);
  std::ranges::stable_sort(plan.rows.tiles, std::greater{},
                           [](const model::RowTile& t) { return int64_t{t.position} * t.rows; });
  return plan;
}

}  // namespace pagoda::engine
