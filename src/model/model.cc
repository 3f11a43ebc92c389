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

int32_t Model::loops() const {
  return static_cast<int32_t>(config_.layers.size()) * kLayerLoops + 2;  // the embedding, the last residual
}

void Model::forward(LoopWorker& worker, const StepRows& step, std::span<const kernels::KvLayer> kv,
                    Workspace& workspace) const {
  worker.each(step.rows(), [&](Range rows) {
    for (int32_t t = rows.begin; t < rows.end; ++t) {
      const size_t i = static_cast<size_t>(t);
      weights_.embed(ops_, step.tokens[i], workspace.x().row(t));
      if (config_.embedding_scale != 1.f) ops_.scale(workspace.x().row(t), config_.embedding_scale, config_.width);
      for (size_t r = 0; r < config_.rope.size(); ++r)
        kernels::rope_angles(config_.rope[r].frequencies, step.positions[i], config_.rope[r].magnitude,
                             workspace.cos_sin(static_cast<int32_t>(r)).row(t));
    }
  });
  const auto run_of = [&](int32_t l) {
    const size_t i = static_cast<size_t>(l);
    const LayerWeights* before = l > 0 ? &weights_.layer(l - 1) : nullptr;
    return LayerRun{config_, config_.layers[i], weights_.layer(l), before, ops_, kv[i], step, workspace};
  };
  const int32_t layers = static_cast<int32_t>(config_.layers.size());
  for (int32_t l = 0; l < layers; ++l) run_layer(run_of(l), worker);
  add_ffn(run_of(layers - 1), worker);
}

void Model::logits(LoopWorker& worker, std::span<const int32_t> rows, Workspace& workspace) const {
  const int32_t count = static_cast<int32_t>(rows.size());
  const Mat<float> normed = workspace.logit_rows(count), out = workspace.logits(count);
  const Linear& head = weights_.head();
  const Activations h({normed.data, normed.rows, normed.cols, normed.row_stride}, workspace.logit_block32(),
                      workspace.logit_block256(), {&head});
  worker.each(count, [&](Range mine) {
    for (int32_t r = mine.begin; r < mine.end; ++r) {
      ops_.rms_norm({workspace.x().row(rows[static_cast<size_t>(r)]), 1, config_.width, config_.width},
                    weights_.output_norm(), config_.norm_eps, {normed.row(r), 1, config_.width, config_.width});
      h.quantize(ops_, {r, r + 1});
    }
  });
  project_all(ops_, head, h, out, worker, [&](Range vocab) {
    for (int32_t r = 0; r < count; ++r) {
      float* logits = out.row(r) + vocab.begin;
      if (config_.logit_scale != 1.f) ops_.scale(logits, config_.logit_scale, vocab.size());
      if (config_.final_softcap > 0) ops_.softcap(logits, config_.final_softcap, vocab.size());
    }
  });
}

}  // namespace pagoda::model
