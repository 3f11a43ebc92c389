#pragma once
#include "core/thread_pool.h"
#include "kernels/ops.h"
#include "model/config.h"
#include "model/step.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace pagoda::model {

/// Everything one layer works with in one step.
struct LayerRun {
  const ModelConfig& config;
  const LayerConfig& shape;
  const LayerWeights& weights;
  const kernels::Ops& ops;
  const kernels::KvLayer& kv;
  const StepRows& step;
  Workspace& workspace;
  WorkCounters& counters;
  int32_t index;
};

/// One pre-norm decoder layer over all rows of a step, by all threads together:
///
///   x += wo attend(rope(wq h), rope(wk h), wv h),   h = norm(x)
///   x += w_down (act(w_gate h) * (w_up h)),         h = norm(x)
///
/// Every thread calls it; work is split by rows of the weights, by (row tile, heads) or by rows of the step, never over
/// k, so that no split changes a bit. Source: Vaswani et al. 2017, arXiv:1706.03762, in the form of arXiv:2302.13971.
void run_layer(const LayerRun& run, Worker& worker);

/// Rows in each form that the matrices reading them want.
struct ActViews {
  kernels::ActView f32, block32, block256;
  const kernels::ActView& of(const Linear& linear) const;
};

/// Quantizes `mine` of x [T, K] for those of `readers` that want int8; views cover all T rows.
ActViews make_activations(const kernels::Ops& ops, Mat<const float> x, Range mine, std::byte* block32,
                          std::byte* block256, std::initializer_list<const Linear*> readers);

/// y[:, range] = x W[range]^T + bias[range]
void project(const kernels::Ops& ops, const Linear& linear, const ActViews& x, Range range, Mat<float> y);

}  // namespace pagoda::model
