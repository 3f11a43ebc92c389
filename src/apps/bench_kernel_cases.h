#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/huge_buffer.h"
#include "core/result.h"
#include "core/thread_pool.h"
#include "kernels/ops.h"
#include "model/config.h"
#include "sizing/roofline.h"
#include "weights/gguf.h"

namespace pagoda::apps {

/// One operator at one real shape: what it costs and how to call it once on all threads.
struct KernelCase {
  std::string name;         // "matmul attn_q attn_output", "rope", ...
  std::string type;         // of weights, cache or activations: "Q4_K"
  std::string shape;        // "1536 x 8960"
  int32_t rows;             // tokens, or query rows
  sizing::KernelCost cost;  // of one call, all threads together
  int64_t resident_bytes;   // a thread touches again and again; 0 = operands come from DRAM
  int32_t calls;            // that one measurement makes at least, each on operands of its own
  std::function<void(Worker&, int32_t call)> body;
};

/// Weights and activations of a real model, and the operators of its layers as cases. Weights are the file's own;
/// activations and cache are fixed pseudo-random numbers: no kernel here takes a path that depends on them.
class KernelCases {
 public:
  /// Packs every matrix of the file. `file` must outlive it. Errors: those of read_config, kIo.
  static Result<std::unique_ptr<KernelCases>> create(const weights::GgufFile& file, const kernels::Ops& ops,
                                                     ThreadPool& pool);

  std::vector<KernelCase> all();

  /// The packed matrices: reading them is the plain read that DRAM cases are held to.
  std::span<const std::byte> packed() const { return {packed_.data(), static_cast<size_t>(packed_bytes_)}; }
  /// The cache's bytes: whoever has read them has no matrix left in a CPU's cache.
  std::span<const std::byte> kv() const { return {kv_.data(), static_cast<size_t>(kv_.bytes())}; }

 private:
  struct Matrix {
    const weights::GgufTensor* tensor;
    kernels::PackedMatrix packed;
    int64_t offset;
  };
  /// Matrices of one shape and type, layer after layer.
  struct MatrixClass {
    std::string names;
    std::vector<const Matrix*> members;
  };

  KernelCases(model::ModelConfig config, const kernels::Ops& ops, int32_t threads)
      : config_(std::move(config)), ops_(ops), threads_(threads) {}
  Status pack(const weights::GgufFile& file, ThreadPool& pool);
  Status make_buffers();
  std::vector<MatrixClass> classes() const;

  void add_matmuls(std::vector<KernelCase>& cases);
  void add_norms(std::vector<KernelCase>& cases);
  void add_rope_and_kv(std::vector<KernelCase>& cases);
  void add_activations(std::vector<KernelCase>& cases);
  void add_attention(std::vector<KernelCase>& cases);
  void add_head(std::vector<KernelCase>& cases);
  void add_row_case(std::vector<KernelCase>& cases, std::string name, std::string type, std::string shape, int32_t rows,
                    int64_t row_bytes, std::function<void(int32_t row)> body);
  void add_attention_case(std::vector<KernelCase>& cases, const model::LayerConfig& layer, int32_t context,
                          int32_t rows);
  kernels::KvLayer kv_layer(const model::LayerConfig& layer) const;

  model::ModelConfig config_;
  kernels::Ops ops_;
  int32_t threads_;
  std::vector<Matrix> matrices_;
  HugeBuffer packed_;
  int64_t packed_bytes_ = 0;

  // [rows, widest_] each
  std::vector<float> x_, y_, z_;
  int32_t widest_ = 0;
  std::vector<float> gain_, cos_sin_;
  std::vector<std::unique_ptr<std::vector<float>>> outputs_;  // of matmuls: [rows, N]
  std::vector<std::unique_ptr<HugeBuffer>> activations_;      // quantized rows
  HugeBuffer kv_, scratch_;
  std::vector<BlockId> block_table_;
};

}  // namespace pagoda::apps
