#pragma once
#include <cstdint>
#include <vector>

#include "core/huge_buffer.h"
#include "core/result.h"
#include "core/thread_pool.h"
#include "kernels/ops.h"
#include "model/config.h"

namespace pagoda::model {

/// Where per-row work (norms, quantization, residual) happens. A step of one row gives each thread a lane of its own:
/// all do the same small work redundantly, which is cheaper than a barrier. Larger steps share one lane and split its
/// rows.
struct Lane {
  Mat<float> x;                 // [T, D] residual
  Mat<float> normed;            // [T, D]
  std::byte* block32;           // int8 activations, kInt8Block32
  std::byte* block256;          // int8 activations, kInt8Block256
  std::vector<float*> cos_sin;  // for each of ModelConfig::rope: [T, rope_dims/2, 2]
  bool shared;

  /// The rows this thread works on in the lane.
  Range rows_of(const Worker& worker) const { return shared ? worker.share(x.rows) : Range{0, x.rows}; }
  /// Others may read this thread's rows of the lane from here on.
  void join(Worker& worker) const {
    if (shared) worker.barrier();
  }
};

/// Scratch of a step, allocated once for the largest; nothing in it survives a step.
class Workspace {
 public:
  /// max_rows T, max_logit_rows R >= 1. Error kIo when the address space is refused.
  static Result<Workspace> create(const ModelConfig& config, int32_t max_rows, int32_t max_logit_rows, int32_t threads);

  /// Lays lanes and views out for a step of T rows.
  void begin_step(int32_t rows);
  Lane& lane(const Worker& worker) { return lanes_[rows_ == 1 ? static_cast<size_t>(worker.index()) + 1 : 0]; }

  /// A [T, cols] view of one of the buffers that all threads share.
  Mat<float> q(int32_t cols) const { return view(q_, cols); }
  Mat<float> k(int32_t cols) const { return view(k_, cols); }
  Mat<float> v(int32_t cols) const { return view(v_, cols); }
  Mat<float> attn_out(int32_t cols) const { return view(attn_out_, cols); }
  Mat<float> gate(int32_t cols) const { return view(gate_, cols); }
  Mat<float> up(int32_t cols) const { return view(up_, cols); }
  Mat<float> delta() const { return view(delta_, width_); }  // what attention or FFN adds to x
  Mat<float> logits(int32_t rows) const { return {logits_, rows, vocab_, vocab_}; }
  Mat<float> logit_rows(int32_t rows) const { return {logit_rows_, rows, width_, width_}; }  // normed x of those rows
  std::byte* logit_block32() const { return logit_block32_; }
  std::byte* logit_block256() const { return logit_block256_; }
  std::byte* attention_scratch(const Worker& worker) const {
    return attention_scratch_[static_cast<size_t>(worker.index())];
  }
  int32_t max_rows() const { return max_rows_; }
  int32_t max_logit_rows() const { return max_logit_rows_; }
  int64_t bytes() const { return buffer_.bytes(); }

 private:
  Mat<float> view(float* data, int32_t cols) const { return {data, rows_, cols, cols}; }
  template <class Take>
  void lay_out(const ModelConfig& config, int32_t threads, Take&& take);

  HugeBuffer buffer_;
  std::vector<Lane> lanes_;  // the shared one, then one row a thread
  std::vector<std::byte*> attention_scratch_;
  float *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *attn_out_ = nullptr, *gate_ = nullptr, *up_ = nullptr,
        *delta_ = nullptr;
  float *logits_ = nullptr, *logit_rows_ = nullptr;
  std::byte *logit_block32_ = nullptr, *logit_block256_ = nullptr;
  int32_t rows_ = 0, max_rows_ = 0, max_logit_rows_ = 0, width_ = 0, vocab_ = 0;
};

}  // namespace pagoda::model
