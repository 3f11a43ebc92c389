#pragma once
#include <cstdint>
#include <vector>

#include "engine/batch.h"
#include "model/step.h"

namespace pagoda::engine {

/// A row whose logits somebody needs.
struct LogitRow {
  int32_t row;          // of the step
  int32_t chunk;        // of the batch
  int32_t score_index;  // into its prompt_scores; -1 = not scored
  bool sample;
};

/// A Batch as one flat list of rows, and which of them need logits (ascending).
struct StepPlan {
  model::StepRows rows;
  std::vector<LogitRow> logit_rows;
};

/// What a batch must respect: broken promises stop the process (PAGODA_CHECK), they would be wrong bytes or wild
/// writes.
struct StepLimits {
  int32_t max_rows;
  int32_t total_blocks;  // pages, where a block is several
  int32_t vocab;
  int32_t max_model_len;
  kvcache::BlockShape shape{};
};

/// `out` gets one ChunkOutput a chunk, with room for its prompt scores.
StepPlan plan_rows(const Batch& batch, const StepLimits& limits, StepOutput& out);

}  // namespace pagoda::engine
