#pragma once
#include <functional>
#include <memory>
#include <span>

#include "core/thread_pool.h"
#include "kernels/ops.h"
#include "model/config.h"
#include "model/step.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace pagoda::model {

/// A decoder-only transformer: embedding, layers, final norm, head.
class Model {
 public:
  ///   served_tokens  see read_config()
  ///
  /// Errors: those of read_config and Weights::load. `file` must outlive the model.
  static Result<std::unique_ptr<Model>> load(const weights::GgufFile& file, int32_t served_tokens,
                                             const kernels::Ops& ops, ThreadPool& pool,
                                             const std::function<void(double)>& progress);

  const ModelConfig& config() const { return config_; }
  const Weights& weights() const { return weights_; }
  const kernels::Ops& ops() const { return ops_; }

  /// Calls of LoopWorker::each() in forward().
  int32_t loops() const;

  /// The residual stream of every row after the last layer, in the workspace. All threads call it.
  ///   kv  [L] the cache; the rows' K and V are written to it
  void forward(LoopWorker& worker, const StepRows& step, std::span<const kernels::KvLayer> kv,
               Workspace& workspace) const;

  static constexpr int32_t kLogitLoops = 2;  // calls of each() in logits()

  /// Logits [R, V] of some rows of the step (1 <= R <= max_logit_rows) into workspace.logits(R). All threads call it
  /// after forward(); the logits are complete when it returns.
  void logits(LoopWorker& worker, std::span<const int32_t> rows, Workspace& workspace) const;

 private:
  Model(ModelConfig config, Weights weights, const kernels::Ops& ops)
      : config_(std::move(config)), weights_(std::move(weights)), ops_(ops) {}

  ModelConfig config_;
  Weights weights_;
  kernels::Ops ops_;
};

}  // namespace pagoda::model
