#include "model/layer.h"

#include <algorithm>

#include "core/ids.h"

namespace pagoda::model {
namespace {

using kernels::ActFormat;

Mat<const float> read_only(Mat<float> m) { return {m.data, m.rows, m.cols, m.row_stride}; }

/// The rows [range) of a matrix as a matrix.
template <class T>
Mat<T> part(Mat<T> m, Range range) {
  return {m.data + range.begin * m.row_stride, range.size(), m.cols, m.row_stride};
}

/// normed = norm(x), rows `mine`.
void normalize(const LayerRun& run, const Lane& lane, const float* gain, Range mine) {
  if (mine.empty()) return;
  run.ops.rms_norm(part(read_only(lane.x), mine), gain, run.config.norm_eps, part(lane.normed, mine));
}

/// x += delta, or x += norm(delta) where the family has a post-norm, or x += scale delta; rows `mine`.
void add_residual(const LayerRun& run, const Lane& lane, const float* post_norm, Range mine) {
  const Mat<float> delta = run.workspace.delta();
  for (int32_t t = mine.begin; t < mine.end; ++t) {
    const float* add = delta.row(t);
    if (post_norm != nullptr) {  // `normed` is free here: it is made anew from the sum
      float* scaled = lane.normed.row(t);
      run.ops.rms_norm({add, 1, delta.cols, delta.cols}, post_norm, run.config.norm_eps,
                       {scaled, 1, delta.cols, delta.cols});
      add = scaled;
    }
    if (run.config.residual_scale != 1.f) {
      float* scaled = lane.normed.row(t);
      if (add != scaled) std::copy_n(add, delta.cols, scaled);
      run.ops.scale(scaled, run.config.residual_scale, delta.cols);
      add = scaled;
    }
    run.ops.add(add, lane.x.row(t), delta.cols);
  }
}

/// Norms (if the family does) and rotates the heads in columns [range) of y [T, heads * Dh].
void finish_heads(const LayerRun& run, const Lane& lane, Range range, const float* norm, Mat<float> y) {
  const ModelConfig& c = run.config;
  const int32_t heads = range.size() / c.head_dim;
  if (heads == 0) return;
  const float* cos_sin = lane.cos_sin[static_cast<size_t>(run.shape.rope)];
  for (int32_t t = 0; t < y.rows; ++t) {
    float* head = y.row(t) + range.begin;
    if (norm != nullptr) {
      const Mat<float> rows{head, heads, c.head_dim, c.head_dim};
      run.ops.rms_norm(read_only(rows), norm, c.norm_eps, rows);
    }
    run.ops.rope(head, heads, c.head_dim, c.rope_dims, c.family->pairing, cos_sin + int64_t{t} * c.rope_dims);
  }
}

/// q, k, v of all rows, normed and rotated: each thread makes whole heads.
void project_qkv(const LayerRun& run, const Lane& lane, const ActViews& h, const Worker& worker) {
  const LayerWeights& w = run.weights;
  const QkvShare mine = qkv_share(worker, run.shape, run.config.head_dim, run.ops.matmul.row_grain);
  const Mat<float> q = run.workspace.q(w.wq.w.rows), k = run.workspace.k(w.wk.w.rows), v = run.workspace.v(w.wv.w.rows);
  project(run.ops, w.wq, h, mine.q, q);
  project(run.ops, w.wk, h, mine.k, k);
  project(run.ops, w.wv, h, mine.v, v);
  finish_heads(run, lane, mine.q, w.q_norm, q);
  finish_heads(run, lane, mine.k, w.k_norm, k);
}

void store_kv(const LayerRun& run, const Worker& worker) {
  const Mat<float> k = run.workspace.k(run.weights.wk.w.rows), v = run.workspace.v(run.weights.wv.w.rows);
  const Range mine = worker.share(run.step.rows());
  for (int32_t t = mine.begin; t < mine.end; ++t) {
    const size_t i = static_cast<size_t>(t);
    run.ops.kv_write(run.kv, run.step.blocks[i], run.step.slots[i], k.row(t), v.row(t));
  }
}

/// Into how many parts to cut the query heads that share a KV head, so that all threads have work. The whole group
/// reads K and V once, so it is cut only when there are too few (tile, KV head) pairs to go round.
int32_t group_parts(int32_t pairs, int32_t group, int32_t threads) {
  int32_t parts = 1;
  while (parts < group && pairs * parts < 4 * threads && pairs * parts % threads != 0) ++parts;
  return parts;
}

/// attn_out = attention of all rows, in units of (row tile, part of a head group) taken from a counter.
void attend(const LayerRun& run, const Worker& worker) {
  const int32_t head_dim = run.config.head_dim, group = run.shape.heads / run.shape.kv_heads;
  const Mat<float> q = run.workspace.q(run.shape.heads * head_dim), out = run.workspace.attn_out(q.cols);
  const int32_t tiles = static_cast<int32_t>(run.step.tiles.size());
  const int32_t parts = group_parts(tiles * run.shape.kv_heads, group, worker.count());
  const int32_t units_a_tile = run.shape.kv_heads * parts;
  for (int32_t unit; (unit = run.counters.take(run.index)) < tiles * units_a_tile;) {
    const RowTile& tile = run.step.tiles[static_cast<size_t>(unit / units_a_tile)];
    const int32_t kv_head = unit % units_a_tile / parts, piece = unit % parts;
    kernels::AttentionArgs args{};
    args.q = q.row(tile.row);
    args.q_stride = q.row_stride;
    args.out = out.row(tile.row);
    args.out_stride = out.row_stride;
    args.rows = tile.rows;
    args.position = tile.position;
    args.head_begin = kv_head * group + group * piece / parts;
    args.head_end = kv_head * group + group * (piece + 1) / parts;
    args.kv_head = kv_head;
    args.block_table = tile.blocks;
    args.scale = run.config.attention_scale;
    args.window = run.shape.window;
    args.softcap = run.config.attention_softcap;
    run.ops.attention(run.kv, args, run.workspace.attention_scratch(worker));
  }
}

/// gate = act(w_gate h) * (w_up h), this thread's columns.
void gated_ffn(const LayerRun& run, const ActViews& h, Range mine) {
  const Mat<float> gate = run.workspace.gate(run.shape.ffn), up = run.workspace.up(run.shape.ffn);
  const kernels::GatedActFn act =
      run.config.family->activation == Activation::kGelu ? run.ops.gelu_mul : run.ops.silu_mul;
  project(run.ops, run.weights.w_gate, h, mine, gate);
  project(run.ops, run.weights.w_up, h, mine, up);
  for (int32_t t = 0; t < gate.rows; ++t)
    act(gate.row(t) + mine.begin, up.row(t) + mine.begin, gate.row(t) + mine.begin, mine.size());
}

}  // namespace

const kernels::ActView& ActViews::of(const Linear& linear) const {
  switch (kernels::act_format(linear.w.type)) {
    case ActFormat::kInt8Block32:
      return block32;
    case ActFormat::kInt8Block256:
      return block256;
    case ActFormat::kF32:
      break;
  }
  return f32;
}

ActViews make_activations(const kernels::Ops& ops, Mat<const float> x, Range mine, std::byte* block32,
                          std::byte* block256, std::initializer_list<const Linear*> readers) {
  ActViews views{kernels::act_view_f32(x), kernels::act_view(ActFormat::kInt8Block32, x.rows, x.cols, block32),
                 kernels::act_view(ActFormat::kInt8Block256, x.rows, x.cols, block256)};
  bool want32 = false, want256 = false;
  for (const Linear* reader : readers) {
    want32 |= kernels::act_format(reader->w.type) == ActFormat::kInt8Block32;
    want256 |= kernels::act_format(reader->w.type) == ActFormat::kInt8Block256;
  }
  if (want32 && !mine.empty()) ops.quantize_act(x, mine, views.block32);
  if (want256 && !mine.empty()) ops.quantize_act(x, mine, views.block256);
  return views;
}

void project(const kernels::Ops& ops, const Linear& linear, const ActViews& x, Range range, Mat<float> y) {
  if (range.empty()) return;
  ops.matmul.matmul(linear.w, x.of(linear), range, y);
  if (linear.bias == nullptr) return;
  for (int32_t t = 0; t < y.rows; ++t) ops.add(linear.bias + range.begin, y.row(t) + range.begin, range.size());
}

void run_layer(const LayerRun& run, Worker& worker) {
  const LayerWeights& w = run.weights;
  Workspace& ws = run.workspace;
  Lane& lane = ws.lane(worker);
  const Range mine = lane.rows_of(worker);
  const int32_t grain = run.ops.matmul.row_grain;

  normalize(run, lane, w.attn_norm, mine);
  const ActViews h =
      make_activations(run.ops, read_only(lane.normed), mine, lane.block32, lane.block256, {&w.wq, &w.wk, &w.wv});
  lane.join(worker);
  project_qkv(run, lane, h, worker);
  worker.barrier();
  store_kv(run, worker);
  worker.barrier();
  attend(run, worker);
  worker.barrier();
  const Mat<float> attn_out = ws.attn_out(run.shape.heads * run.config.head_dim);
  const ActViews a = make_activations(run.ops, read_only(attn_out), mine, lane.block32, lane.block256, {&w.wo});
  lane.join(worker);
  project(run.ops, w.wo, a, worker.share(w.wo.w.rows, grain), ws.delta());
  worker.barrier();
  add_residual(run, lane, w.post_attn_norm, mine);

  normalize(run, lane, w.ffn_norm, mine);
  const ActViews f =
      make_activations(run.ops, read_only(lane.normed), mine, lane.block32, lane.block256, {&w.w_gate, &w.w_up});
  lane.join(worker);
  gated_ffn(run, f, worker.share(run.shape.ffn, grain));
  worker.barrier();
  const ActViews g =
      make_activations(run.ops, read_only(ws.gate(run.shape.ffn)), mine, lane.block32, lane.block256, {&w.w_down});
  lane.join(worker);
  project(run.ops, w.w_down, g, worker.share(w.w_down.w.rows, grain), ws.delta());
  worker.barrier();
  add_residual(run, lane, w.post_ffn_norm, mine);
}

}  // namespace pagoda::model
