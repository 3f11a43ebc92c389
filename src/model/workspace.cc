#include "model/workspace.h"

#include <algorithm>

#include "core/ids.h"

namespace pagoda::model {

using kernels::ActFormat;

namespace {
constexpr int64_t kAlign = 128;  // two cache lines: the prefetcher takes pairs
}

/// Walks over every buffer in order and asks `take(bytes)` for its place. What a step of few rows touches lies together
/// at the front: the kernel zeroes fresh memory in pages of 2 MiB, and a page a buffer would cost a start 30 MiB of it.
template <class Take>
void Workspace::lay_out(int32_t rows, Take&& take) {
  const Shape& s = shape_;
  const auto floats = [&](int64_t count, int64_t cols) {
    return reinterpret_cast<float*>(take(count * cols * static_cast<int64_t>(sizeof(float))));
  };
  for (std::byte*& scratch : attention_scratch_)
    scratch = take(kernels::attention_scratch_bytes(s.head_dim, s.expands));
  x_ = floats(rows, s.width);
  normed_ = floats(rows, s.width);
  block32_ = take(kernels::act_bytes(ActFormat::kInt8Block32, rows, s.widest));
  block256_ = take(kernels::act_bytes(ActFormat::kInt8Block256, rows, s.widest));
  for (float*& angles : cos_sin_) angles = floats(rows, s.rope_dims);
  q_ = floats(rows, s.q_cols);
  k_ = floats(rows, s.kv_cols);
  v_ = floats(rows, s.kv_cols);
  attn_out_ = floats(rows, s.q_cols);
  gate_ = floats(rows, s.ffn);
  up_ = floats(rows, s.ffn);
  delta_ = floats(rows, s.width);
  logit_rows_ = floats(max_logit_rows_, s.width);
  logit_block32_ = take(kernels::act_bytes(ActFormat::kInt8Block32, max_logit_rows_, s.width));
  logit_block256_ = take(kernels::act_bytes(ActFormat::kInt8Block256, max_logit_rows_, s.width));
  logits_ = floats(max_logit_rows_, s.vocab);  // last: most steps want one row of many
}

Result<Workspace> Workspace::create(const ModelConfig& config, int32_t max_rows, int32_t max_logit_rows,
                                    int32_t threads, bool expands) {
  Workspace ws;
  ws.max_rows_ = max_rows;
  ws.max_logit_rows_ = max_logit_rows;
  const int32_t q_cols = config.max_heads() * config.head_dim;
  ws.shape_ = {.width = config.width,
               .vocab = config.vocab,
               .head_dim = config.head_dim,
               .rope_dims = config.rope_dims,
               .q_cols = q_cols,
               .kv_cols = config.max_kv_heads() * config.head_dim,
               .ffn = config.max_ffn(),
               .widest = std::max({config.width, q_cols, config.max_ffn()}),
               .expands = expands};
  ws.cos_sin_.resize(config.rope.size());
  ws.attention_scratch_.resize(static_cast<size_t>(threads));
  int64_t total = 0;
  ws.lay_out(max_rows, [&](int64_t bytes) {
    total += round_up(bytes, kAlign);
    return static_cast<std::byte*>(nullptr);
  });
  PAGODA_TRY(ws.buffer_, HugeBuffer::allocate(total));
  return ws;
}

void Workspace::begin_step(int32_t rows) {
  PAGODA_CHECK(rows >= 1 && rows <= max_rows_);
  if (rows == rows_) return;
  rows_ = rows;
  int64_t used = 0;
  lay_out(rows, [&](int64_t bytes) {
    std::byte* at = buffer_.data() + used;
    used += round_up(bytes, kAlign);
    return at;
  });
  PAGODA_CHECK(used <= buffer_.bytes());
}

}  // namespace pagoda::model
