#pragma once
#include <algorithm>
#include <initializer_list>

#include "core/ids.h"
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
  const LayerWeights* before;  // the layer before, whose FFN is still to be added to x; null for the first
  const kernels::Ops& ops;
  const kernels::KvLayer& kv;
  const StepRows& step;
  Workspace& workspace;
};

inline constexpr int32_t kLayerLoops = 10;  // calls of LoopWorker::each() in run_layer

/// One pre-norm decoder layer over all rows of a step, by all threads together:
///
///   x += wo attend(rope(wq h), rope(wk h), wv h),   h = norm(x)
///   x += w_down (act(w_gate h) * (w_up h)),         h = norm(x)
///
/// The second line's sum is left to whoever reads x next (the following layer, or add_ffn), who has the row at hand.
/// Every thread calls it; work is cut by rows of the weights, by (row tile, heads) or by rows of the step, never over
/// k, so that no cut changes a bit. Source: Vaswani et al. 2017, arXiv:1706.03762, in the form of arXiv:2302.13971.
void run_layer(const LayerRun& run, LoopWorker& worker);

/// x += what the FFN of the last layer left. One loop.
void add_ffn(const LayerRun& run, LoopWorker& worker);

/// Rows in each form that the matrices reading them want.
class Activations {
 public:
  /// Views over x [T, K] and storage for its int8 forms, to be filled by quantize(); `readers` decide which.
  Activations(Mat<const float> x, std::byte* block32, std::byte* block256,
              std::initializer_list<const Linear*> readers);
  void quantize(const kernels::Ops& ops, Range rows) const;
  const kernels::ActView& of(const Linear& linear) const;
  int32_t rows() const { return f32_.rows; }

 private:
  kernels::ActView f32_, block32_, block256_;
  bool want32_ = false, want256_ = false;
};

/// y[:, range] = x W[range]^T + bias[range]
void project(const kernels::Ops& ops, const Linear& linear, const Activations& x, Range range, Mat<float> y);

// Matrices are cut in units of 32 rows: a multiple of every kernel's row_grain that leaves no rest.
inline constexpr int32_t kUnitRows = 32;
/// Units that are worth a piece: with few tokens a stream from memory must be long enough to pay its start.
int32_t least_units(const kernels::Ops& ops, const Linear& linear, int32_t tokens);

/// project() in one loop; then(range) right after each piece.
template <class Then>
void project_all(const kernels::Ops& ops, const Linear& linear, const Activations& x, Mat<float> y, LoopWorker& worker,
                 const Then& then) {
  const int32_t rows = linear.w.rows;
  worker.each(div_ceil(rows, kUnitRows), {.least = least_units(ops, linear, x.rows())}, [&](Range units) {
    const Range range{units.begin * kUnitRows, std::min(rows, units.end * kUnitRows)};
    project(ops, linear, x, range, y);
    then(range);
  });
}

}  // namespace pagoda::model
