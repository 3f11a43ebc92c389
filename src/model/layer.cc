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

template <class Body>
void each_row(const LayerRun& run, LoopWorker& worker, const Body& body) {
  worker.each(run.step.rows(), [&](Range rows) {
    for (int32_t t = rows.begin; t < rows.end; ++t) body(t);
  });
}

/// x += delta, or x += norm(delta) where the family has a post-norm, or x += scale delta; row t.
void add_residual(const LayerRun& run, const float* post_norm, int32_t t) {
  const Mat<float> delta = run.workspace.delta();
  const float* add = delta.row(t);
  if (post_norm != nullptr) {  // `normed` is free here: it is made anew from the sum
    float* scaled = run.workspace.normed().row(t);
    run.ops.rms_norm({add, 1, delta.cols, delta.cols}, post_norm, run.config.norm_eps,
                     {scaled, 1, delta.cols, delta.cols});
    add = scaled;
  }
  if (run.config.residual_scale != 1.f) {
    float* scaled = run.workspace.normed().row(t);
    if (add != scaled) std::copy_n(add, delta.cols, scaled);
    run.ops.scale(scaled, run.config.residual_scale, delta.cols);
    add = scaled;
  }
  run.ops.add(add, run.workspace.x().row(t), delta.cols);
}

/// normed = norm(x), row t, and its int8 forms.
void normalize(const LayerRun& run, const float* gain, const Activations& h, int32_t t) {
  run.ops.rms_norm(part(read_only(run.workspace.x()), {t, t + 1}), gain, run.config.norm_eps,
                   part(run.workspace.normed(), {t, t + 1}));
  h.quantize(run.ops, {t, t + 1});
}

/// Norms (if the family does) and rotates the heads in columns [range) of y [T, heads * Dh].
void finish_heads(const LayerRun& run, Range range, const float* norm, Mat<float> y) {
  const ModelConfig& c = run.config;
  const int32_t heads = range.size() / c.head_dim;
  if (heads == 0) return;
  const float* cos_sin = run.workspace.cos_sin(run.shape.rope).data;
  for (int32_t t = 0; t < y.rows; ++t) {
    float* head = y.row(t) + range.begin;
    if (norm != nullptr) {
      const Mat<float> rows{head, heads, c.head_dim, c.head_dim};
      run.ops.rms_norm(read_only(rows), norm, c.norm_eps, rows);
    }
    run.ops.rope(head, heads, c.head_dim, c.rope_dims, c.family->pairing, cos_sin + int64_t{t} * c.rope_dims);
  }
}

/// q, k, v of all rows, normed and rotated, whole heads at a time.
void project_qkv(const LayerRun& run, const Activations& h, LoopWorker& worker) {
  const LayerWeights& w = run.weights;
  const int32_t head_dim = run.config.head_dim, grain = run.ops.matmul.row_grain;
  Linear wk = w.wk;
  if (run.kv.bias.slots != nullptr) wk.bias = nullptr;  // attention adds it, turned, to the K it reads
  const Mat<float> q = run.workspace.q(w.wq.w.rows), k = run.workspace.k(w.wk.w.rows), v = run.workspace.v(w.wv.w.rows);
  worker.each(qkv_units(run.shape, head_dim, grain), [&](Range piece) {
    const QkvPart part = qkv_part(piece, run.shape, head_dim, grain);
    project(run.ops, w.wq, h, part.q, q);
    project(run.ops, wk, h, part.k, k);
    project(run.ops, w.wv, h, part.v, v);
    finish_heads(run, part.q, w.q_norm, q);
    finish_heads(run, part.k, w.k_norm, k);
  });
}

void store_kv(const LayerRun& run, LoopWorker& worker) {
  const Mat<float> k = run.workspace.k(run.weights.wk.w.rows), v = run.workspace.v(run.weights.wv.w.rows);
  each_row(run, worker, [&](int32_t t) {
    const size_t i = static_cast<size_t>(t);
    run.ops.kv_write(run.kv, run.step.block_of(run.kv.table, i), run.step.slots[i], k.row(t), v.row(t));
  });
}

/// Into how many parts to cut the query heads that share a KV head, so that all threads have work. The whole group
/// reads K and V once, so it is cut only when there are too few (tile, KV head) pairs to go round.
int32_t group_parts(int32_t pairs, int32_t group, int32_t threads) {
  int32_t parts = 1;
  while (parts < group && pairs * parts < 4 * threads && pairs * parts % threads != 0) ++parts;
  return parts;
}

/// Rows of one tile, heads [head_begin, head_end) of KV head `kv_head`'s group.
void attend_tile(const LayerRun& run, const RowTile& tile, int32_t kv_head, Range heads, std::byte* scratch) {
  const int32_t q_cols = run.shape.heads * run.config.head_dim;
  const Mat<float> q = run.workspace.q(q_cols), out = run.workspace.attn_out(q_cols);
  kernels::AttentionArgs args{};
  args.q = q.row(tile.row);
  args.q_stride = q.row_stride;
  args.out = out.row(tile.row);
  args.out_stride = out.row_stride;
  args.rows = tile.rows;
  args.position = tile.position;
  args.head_begin = heads.begin;
  args.head_end = heads.end;
  args.kv_head = kv_head;
  args.block_table = tile.table(run.kv.table);
  args.scale = run.config.attention_scale;
  args.window = run.shape.window;
  args.softcap = run.config.attention_softcap;
  run.ops.attention(run.kv, args, scratch);
}

/// attn_out = attention of all rows, a unit at a time: (row tile, KV head, part of its group).
void attend(const LayerRun& run, LoopWorker& worker) {
  const int32_t group = run.shape.heads / run.shape.kv_heads, kv_heads = run.shape.kv_heads;
  const int32_t tiles = static_cast<int32_t>(run.step.tiles.size());
  const int32_t parts = group_parts(tiles * kv_heads, group, worker.count());
  std::byte* scratch = run.workspace.attention_scratch(worker);
  worker.each(tiles * kv_heads * parts, {.least = 1, .most = 1}, [&](Range units) {
    for (int32_t unit = units.begin; unit < units.end; ++unit) {
      const int32_t part = unit % parts, kv_head = unit / parts % kv_heads, first = kv_head * group;
      const Range heads{first + group * part / parts, first + group * (part + 1) / parts};
      attend_tile(run, run.step.tiles[static_cast<size_t>(unit / parts / kv_heads)], kv_head, heads, scratch);
    }
  });
}

/// gate = act(gate) * up, columns [range) of row t.
void activate(const LayerRun& run, Range range, int32_t t) {
  const Mat<float> gate = run.workspace.gate(run.shape.ffn), up = run.workspace.up(run.shape.ffn);
  const kernels::GatedActFn act =
      run.config.family->activation == Activation::kGelu ? run.ops.gelu_mul : run.ops.silu_mul;
  act(gate.row(t) + range.begin, up.row(t) + range.begin, gate.row(t) + range.begin, range.size());
}

/// Few rows are activated piece by piece, where all threads share the work; of many rows each is, right before it is
/// quantized.
bool activates_pieces(const LayerRun& run, const LoopWorker& worker) { return run.step.rows() < 2 * worker.count(); }

/// gate = w_gate h, up = w_up h.
void project_gate_up(const LayerRun& run, const Activations& h, LoopWorker& worker) {
  const Mat<float> gate = run.workspace.gate(run.shape.ffn), up = run.workspace.up(run.shape.ffn);
  project_all(run.ops, run.weights.w_gate, h, gate, worker, [&](Range range) {
    project(run.ops, run.weights.w_up, h, range, up);
    if (activates_pieces(run, worker))
      for (int32_t t = 0; t < run.step.rows(); ++t) activate(run, range, t);
  });
}

}  // namespace

Activations::Activations(Mat<const float> x, std::byte* block32, std::byte* block256,
                         std::initializer_list<const Linear*> readers)
    : f32_(kernels::act_view_f32(x)),
      block32_(kernels::act_view(ActFormat::kInt8Block32, x.rows, x.cols, block32)),
      block256_(kernels::act_view(ActFormat::kInt8Block256, x.rows, x.cols, block256)) {
  for (const Linear* reader : readers) {
    want32_ |= kernels::act_format(reader->w.type) == ActFormat::kInt8Block32;
    want256_ |= kernels::act_format(reader->w.type) == ActFormat::kInt8Block256;
  }
}

void Activations::quantize(const kernels::Ops& ops, Range rows) const {
  if (rows.empty()) return;
  const Mat<const float> x{f32_.f32, f32_.rows, f32_.cols, f32_.f32_stride};
  if (want32_) ops.quantize_act(x, rows, block32_);
  if (want256_) ops.quantize_act(x, rows, block256_);
}

const kernels::ActView& Activations::of(const Linear& linear) const {
  switch (kernels::act_format(linear.w.type)) {
    case ActFormat::kInt8Block32:
      return block32_;
    case ActFormat::kInt8Block256:
      return block256_;
    case ActFormat::kF32:
      break;
  }
  return f32_;
}

int32_t least_units(const kernels::Ops& ops, const Linear& linear, int32_t tokens) {
  constexpr int32_t kManyTokens = 12;
  constexpr int64_t kStreamBytes = 32 << 10;
  if (tokens >= kManyTokens) return 1;
  const int64_t unit_bytes = ops.matmul.packed_bytes(linear.w.type, kUnitRows, linear.w.cols);
  return static_cast<int32_t>(div_ceil(kStreamBytes, unit_bytes));
}

void project(const kernels::Ops& ops, const Linear& linear, const Activations& x, Range range, Mat<float> y) {
  if (range.empty()) return;
  ops.matmul.matmul(linear.w, x.of(linear), range, y);
  if (linear.bias == nullptr) return;
  for (int32_t t = 0; t < y.rows; ++t) ops.add(linear.bias + range.begin, y.row(t) + range.begin, range.size());
}

void add_ffn(const LayerRun& run, LoopWorker& worker) {
  each_row(run, worker, [&](int32_t t) { add_residual(run, run.weights.post_ffn_norm, t); });
}

void run_layer(const LayerRun& run, LoopWorker& worker) {
  const LayerWeights& w = run.weights;
  Workspace& ws = run.workspace;
  const auto activations = [&](Mat<float> x, std::initializer_list<const Linear*> readers) {
    return Activations(read_only(x), ws.block32(), ws.block256(), readers);
  };
  const auto nothing = [](Range) {};

  const Activations h = activations(ws.normed(), {&w.wq, &w.wk, &w.wv});
  each_row(run, worker, [&](int32_t t) {
    if (run.before != nullptr) add_residual(run, run.before->post_ffn_norm, t);
    normalize(run, w.attn_norm, h, t);
  });
  project_qkv(run, h, worker);
  store_kv(run, worker);
  attend(run, worker);
  const Activations a = activations(ws.attn_out(run.shape.heads * run.config.head_dim), {&w.wo});
  each_row(run, worker, [&](int32_t t) { a.quantize(run.ops, {t, t + 1}); });
  project_all(run.ops, w.wo, a, ws.delta(), worker, nothing);

  const Activations f = activations(ws.normed(), {&w.w_gate, &w.w_up});
  each_row(run, worker, [&](int32_t t) {
    add_residual(run, w.post_attn_norm, t);
    normalize(run, w.ffn_norm, f, t);
  });
  project_gate_up(run, f, worker);
  const Activations g = activations(ws.gate(run.shape.ffn), {&w.w_down});
  each_row(run, worker, [&](int32_t t) {
    if (!activates_pieces(run, worker)) activate(run, {0, run.shape.ffn}, t);
    g.quantize(run.ops, {t, t + 1});
  });
  project_all(run.ops, w.w_down, g, ws.delta(), worker, nothing);
}

}  // namespace pagoda::model
