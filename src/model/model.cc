#include "model/model.h"

#include "model/layer.h"

namespace pagoda::model {

Result<std::unique_ptr<Model>> Model::load(const weights::GgufFile& file, int32_t served_tokens,
                                           const kernels::Ops& ops, ThreadPool& pool,
                                           const std::function<void(double)>& progress) {
  PAGODA_TRY(ModelConfig config, read_config(file, served_tokens));
  PAGODA_TRY(Weights weights, Weights::load(file, config, ops, pool, progress));
  return std::unique_ptr<Model>(new Model(std::move(config), std::move(weights), ops));
}

void Model::forward(Worker& worker, const StepRows& step, std::span<const kernels::KvLayer> kv, Workspace& workspace,
                    WorkCounters& counters) const {
  Lane& lane = workspace.lane(worker);
  const Range mine = lane.rows_of(worker);
  for (int32_t t = mine.begin; t < mine.end; ++t) {
    const size_t i = static_cast<size_t>(t);
    weights_.embed(ops_, step.tokens[i], lane.x.row(t));
    if (config_.embedding_scale != 1.f) ops_.scale(lane.x.row(t), config_.embedding_scale, config_.width);
    for (size_t r = 0; r < config_.rope.size(); ++r)
      kernels::rope_angles(config_.rope[r].frequencies, step.positions[i], config_.rope[r].magnitude,
                           lane.cos_sin[r] + int64_t{t} * config_.rope_dims);
  }
  for (size_t l = 0; l < config_.layers.size(); ++l) {
    const int32_t index = static_cast<int32_t>(l);
    run_layer({config_, config_.layers[l], weights_.layer(index), ops_, kv[l], step, workspace, counters, index},
              worker);
  }
  lane.join(worker);
}

void Model::logits(Worker& worker, std::span<const int32_t> rows, Workspace& workspace) const {
  const Lane& lane = workspace.lane(worker);
  const int32_t count = static_cast<int32_t>(rows.size());
  const Mat<float> normed = workspace.logit_rows(count), out = workspace.logits(count);
  const Range mine = worker.share(count);
  for (int32_t r = mine.begin; r < mine.end; ++r)
    ops_.rms_norm({lane.x.row(rows[static_cast<size_t>(r)]), 1, config_.width, config_.width}, weights_.output_norm(),
                  config_.norm_eps, {normed.row(r), 1, config_.width, config_.width});
  const Linear& head = weights_.head();
  const ActViews h = make_activations(ops_, {normed.data, normed.rows, normed.cols, normed.row_stride}, mine,
                                      workspace.logit_block32(), workspace.logit_block256(), {&head});
  worker.barrier();
  const Range vocab = worker.share(config_.vocab, ops_.matmul.row_grain);
  project(ops_, head, h, vocab, out);
  if (config_.logit_scale != 1.f && !vocab.empty())
    for (int32_t r = 0; r < count; ++r) ops_.scale(out.row(r) + vocab.begin, config_.logit_scale, vocab.size());
  if (config_.final_softcap > 0 && !vocab.empty())
    for (int32_t r = 0; r < count; ++r) ops_.softcap(out.row(r) + vocab.begin, config_.final_softcap, vocab.size());
  worker.barrier();
}

}  // namespace pagoda::model
