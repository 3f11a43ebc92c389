#include "model/workspace.h"

#include <algorithm>

#include "core/ids.h"

namespace pagoda::model {

using kernels::ActFormat;

/// Walks over every buffer in order and asks `take(bytes)` for its place: once to add up, once to assign.
template <class Take>
void Workspace::lay_out(const ModelConfig& c, int32_t threads, Take&& take) {
  const int32_t q_cols = c.max_heads() * c.head_dim, kv_cols = c.max_kv_heads() * c.head_dim, ffn = c.max_ffn();
  const int32_t widest = std::max({c.width, q_cols, ffn});
  const auto floats = [&](int64_t rows, int64_t cols) {
    return reinterpret_cast<float*>(take(rows * cols * static_cast<int64_t>(sizeof(float))));
  };
  x_ = floats(max_rows_, c.width);
  normed_ = floats(max_rows_, c.width);
  block32_ = take(kernels::act_bytes(ActFormat::kInt8Block32, max_rows_, widest));
  block256_ = take(kernels::act_bytes(ActFormat::kInt8Block256, max_rows_, widest));
  cos_sin_.clear();
  for (size_t r = 0; r < c.rope.size(); ++r) cos_sin_.push_back(floats(max_rows_, c.rope_dims));
  q_ = floats(max_rows_, q_cols);
  k_ = floats(max_rows_, kv_cols);
  v_ = floats(max_rows_, kv_cols);
  attn_out_ = floats(max_rows_, q_cols);
  gate_ = floats(max_rows_, ffn);
  up_ = floats(max_rows_, ffn);
  delta_ = floats(max_rows_, c.width);
  logits_ = floats(max_logit_rows_, c.vocab);
  logit_rows_ = floats(max_logit_rows_, c.width);
  logit_block32_ = take(kernels::act_bytes(ActFormat::kInt8Block32, max_logit_rows_, c.width));
  logit_block256_ = take(kernels::act_bytes(ActFormat::kInt8Block256, max_logit_rows_, c.width));
  attention_scratch_.resize(static_cast<size_t>(threads));
  for (std::byte*& scratch : attention_scratch_) scratch = take(kernels::attention_scratch_bytes(c.head_dim));
}

Result<Workspace> Workspace::create(const ModelConfig& config, int32_t max_rows, int32_t max_logit_rows,
                                    int32_t threads) {
  constexpr int64_t kAlign = 128;  // two cache lines: the prefetcher takes pairs
  Workspace ws;
  ws.max_rows_ = max_rows;
  ws.max_logit_rows_ = max_logit_rows;
  ws.width_ = config.width;
  ws.vocab_ = config.vocab;
  ws.rope_dims_ = config.rope_dims;
  int64_t total = 0;
  ws.lay_out(config, threads, [&](int64_t bytes) {
    total += round_up(bytes, kAlign);
    return static_cast<std::byte*>(nullptr);
  });
  PAGODA_TRY(ws.buffer_, HugeBuffer::allocate(total));
  int64_t used = 0;
  ws.lay_out(config, threads, [&](int64_t bytes) {
    std::byte* at = ws.buffer_.data() + used;
    used += round_up(bytes, kAlign);
    return at;
  });
  return ws;
}

void Workspace::begin_step(int32_t rows) {
  PAGODA_CHECK(rows >= 1 && rows <= max_rows_);
  rows_ = rows;
}

}  // namespace pagoda::model
