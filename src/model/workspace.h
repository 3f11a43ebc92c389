#pragma once
#include <cstdint>
#include <vector>

#include "core/huge_buffer.h"
#include "core/result.h"
#include "core/thread_pool.h"
#include "kernels/ops.h"
#include "model/config.h"

namespace pagoda::model {

/// Scratch of a step: address space for the largest, laid out anew for each count of rows so that a small step touches
/// little memory. Nothing in it survives a step.
class Workspace {
 public:
  /// max_rows T, max_logit_rows R >= 1. Error kIo when the address space is refused.
  /// expands: kernels::attention_expands().
  static Result<Workspace> create(const ModelConfig& config, int32_t max_rows, int32_t max_logit_rows, int32_t threads,
                                  bool expands = false);

  /// Lays views out for a step of T rows, 1 <= T <= max_rows. No view of an earlier step may be used again.
  void begin_step(int32_t rows);
  int32_t rows() const { return rows_; }

  // [T, cols] views.
  Mat<float> x() const { return view(x_, shape_.width); }  // residual
  Mat<float> normed() const { return view(normed_, shape_.width); }
  std::byte* block32() const { return block32_; }    // int8 activations, kInt8Block32, of the widest matrix
  std::byte* block256() const { return block256_; }  // the same, kInt8Block256
  Mat<float> cos_sin(int32_t rope) const { return view(cos_sin_[static_cast<size_t>(rope)], shape_.rope_dims); }
  Mat<float> q(int32_t cols) const { return view(q_, cols); }
  Mat<float> k(int32_t cols) const { return view(k_, cols); }
  Mat<float> v(int32_t cols) const { return view(v_, cols); }
  Mat<float> attn_out(int32_t cols) const { return view(attn_out_, cols); }
  Mat<float> gate(int32_t cols) const { return view(gate_, cols); }
  Mat<float> up(int32_t cols) const { return view(up_, cols); }
  Mat<float> delta() const { return view(delta_, shape_.width); }  // what attention or FFN adds to x
  Mat<float> logits(int32_t rows) const { return {logits_, rows, shape_.vocab, shape_.vocab}; }
  Mat<float> logit_rows(int32_t rows) const {
    return {logit_rows_, rows, shape_.width, shape_.width};
  }  // normed x of those rows
  std::byte* logit_block32() const { return logit_block32_; }
  std::byte* logit_block256() const { return logit_block256_; }
  std::byte* attention_scratch(const LoopWorker& worker) const {
    return attention_scratch_[static_cast<size_t>(worker.index())];
  }
  int32_t max_rows() const { return max_rows_; }
  int32_t max_logit_rows() const { return max_logit_rows_; }
  int64_t bytes() const { return buffer_.bytes(); }

 private:
  Mat<float> view(float* data, int32_t cols) const { return {data, rows_, cols, cols}; }
  template <class Take>
  void lay_out(int32_t rows, Take&& take);

  struct Shape {
    int32_t width, vocab, head_dim, rope_dims, q_cols, kv_cols, ffn;
    int32_t widest;  // of the rows that are ever quantized
    bool expands;
  };
  Shape shape_{};
  HugeBuffer buffer_;
  float *x_ = nullptr, *normed_ = nullptr;
  std::byte *block32_ = nullptr, *block256_ = nullptr;
  std::vector<float*> cos_sin_;  // for each of ModelConfig::rope: [T, rope_dims/2, 2]
  std::vector<std::byte*> attention_scratch_;
  float *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *attn_out_ = nullptr, *gate_ = nullptr, *up_ = nullptr,
        *delta_ = nullptr;
  float *logits_ = nullptr, *logit_rows_ = nullptr;
  std::byte *logit_block32_ = nullptr, *logit_block256_ = nullptr;
  int32_t rows_ = 0, max_rows_ = 0, max_logit_rows_ = 0;
};

}  // namespace pagoda::model
