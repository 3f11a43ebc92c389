#include "model/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <string>

#include "kernels/formats/dequantize.h"

namespace pagoda::model {

using kernels::TensorType;
using weights::GgufFile;
using weights::GgufTensor;

namespace {

constexpr int64_t kMatrixAlign = 4096;             // a matrix begins on a page of its own: two threads never share one
constexpr int64_t kPieceBytes = int64_t{1} << 20;  // of the file: small beside the weights, large beside a system call
constexpr int64_t kSettleDelayMs = 3000;           // a first answer goes before better pages
constexpr int64_t kFaultAround = int64_t{64} << 10;  // a page fault also maps again what lies up to here before it

Error corrupt(std::string message) { return Error{Code::kCorruptFile, std::move(message)}; }

std::string shape_text(const std::vector<int64_t>& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

/// Dimensions without trailing ones: [n, 1] is a vector of n.
std::vector<int64_t> trimmed(std::vector<int64_t> dims) {
  while (dims.size() > 1 && dims.back() == 1) dims.pop_back();
  return dims;
}

/// The part of concatenated units [first, first + n) that lies in `mine`, as rows of its own matrix.
Range intersect(Range mine, int32_t first, int32_t n, int32_t unit_rows, int32_t rows) {
  const int32_t begin = std::clamp(mine.begin - first, 0, n), end = std::clamp(mine.end - first, 0, n);
  return {std::min(rows, begin * unit_rows), std::min(rows, end * unit_rows)};
}

}  // namespace

int32_t qkv_units(const LayerConfig& layer, int32_t head_dim, int32_t row_grain) {
  const int32_t unit = std::lcm(head_dim, row_grain);
  return div_ceil(layer.heads * head_dim, unit) + 2 * div_ceil(layer.kv_heads * head_dim, unit);
}

QkvPart qkv_part(Range units, const LayerConfig& layer, int32_t head_dim, int32_t row_grain) {
  const int32_t unit = std::lcm(head_dim, row_grain);
  const int32_t q_rows = layer.heads * head_dim, kv_rows = layer.kv_heads * head_dim;
  const int32_t nq = div_ceil(q_rows, unit), nk = div_ceil(kv_rows, unit);
  return {intersect(units, 0, nq, unit, q_rows), intersect(units, nq, nk, unit, kv_rows),
          intersect(units, nq + nk, nk, unit, kv_rows)};
}

/// Builds Weights: first all names, types and shapes, then one buffer, then the packing, layer by layer.
class WeightLoader {
 public:
  WeightLoader(const GgufFile& file, const ModelConfig& config, const kernels::Ops& ops)
      : file_(file), config_(config), ops_(ops) {}

  Status find_all() {
    out_.layers_.resize(config_.layers.size());
    for (size_t l = 0; l < config_.layers.size(); ++l) PAGODA_TRY_STATUS(find_layer(l));
    PAGODA_TRY(out_.output_norm_, vector("output_norm.weight", config_.width));
    PAGODA_TRY(const GgufTensor* embed, matrix("token_embd.weight", config_.vocab, config_.width));
    if (file_.find_tensor("output.weight") != nullptr) {
      PAGODA_TRY_STATUS(linear(out_.head_, "output", config_.vocab, config_.width));
      out_.embedding_ = embed;
    } else {
      add(out_.head_, embed, 0, config_.vocab);  // tied
    }
    for (const char* read_by_config : {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"})
      used_.insert(read_by_config);
    for (const GgufTensor& tensor : file_.tensors())
      if (!used_.contains(tensor.name))
        return Error{Code::kUnsupported,
                     fmt::format("tensor {} has no use in architecture {}", tensor.name, config_.family->name)};
    return ok_status();
  }

  /// Address space for the packed matrices; nothing is touched.
  Status reserve() {
    PAGODA_TRY(out_.packed_, HugeBuffer::allocate(packed_bytes_));
    return ok_status();
  }

  /// Packs every matrix in pieces, a few pages of the file behind each thread: what is packed leaves the memory at
  /// once, so that the peak is the packed weights and not those plus the largest tensor.
  Status pack_all(ThreadPool& pool, const std::function<void(double)>& progress) {
    PAGODA_TRY_STATUS(reserve());
    out_.pages_ =
        std::make_unique<FreshPages>(std::span(out_.packed_.data(), static_cast<size_t>(out_.packed_.bytes())));
    for (Source& source : sources_) source.linear->w.data = out_.packed_.data() + source.offset;
    const std::vector<Piece> pieces = list_pieces();
    std::atomic<int64_t> done_bytes{0};
    pool.run_loops(1, [&](LoopWorker& worker) {
      worker.each(static_cast<int32_t>(pieces.size()), {.least = 1, .most = 1}, [&](Range range) {
        for (int32_t i = range.begin; i < range.end; ++i) {
          const int64_t bytes = pack_piece(pieces[static_cast<size_t>(i)]);
          const int64_t done = done_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
          if (worker.index() == 0 && progress) progress(static_cast<double>(done) / static_cast<double>(file_bytes_));
        }
      });
    });
    for (const Source& source : sources_) file_.release(source.tensor->data);
    out_.pages_->settle_later(kSettleDelayMs);
    if (progress) progress(1.);
    return ok_status();
  }

  Weights take() { return std::move(out_); }

 private:
  struct Source {
    const GgufTensor* tensor;
    int32_t first_row;  // of the tensor; a fused one is the source of several matrices
    Linear* linear;
    int64_t offset;
  };
  struct Piece {
    size_t source;
    Range rows;  // of the matrix, cut at the packer's grain
  };

  Status find_layer(size_t l) {
    const LayerConfig& shape = config_.layers[l];
    const Family& family = *config_.family;
    LayerWeights& w = out_.layers_[l];
    const std::string blk = fmt::format("blk.{}.", l);
    const int32_t d = config_.width, q = shape.heads * config_.head_dim, kv = shape.kv_heads * config_.head_dim;
    PAGODA_TRY(w.attn_norm, vector(blk + "attn_norm.weight", d));
    if (family.fused) {
      PAGODA_TRY_STATUS(linears(blk + "attn_qkv", d, {{&w.wq, q}, {&w.wk, kv}, {&w.wv, kv}}));
    } else {
      PAGODA_TRY_STATUS(linear(w.wq, blk + "attn_q", q, d, family.needs_qkv_bias));
      PAGODA_TRY_STATUS(linear(w.wk, blk + "attn_k", kv, d, family.needs_qkv_bias));
      PAGODA_TRY_STATUS(linear(w.wv, blk + "attn_v", kv, d, family.needs_qkv_bias));
    }
    PAGODA_TRY_STATUS(linear(w.wo, blk + "attn_output", d, q));
    PAGODA_TRY(w.ffn_norm, vector(blk + "ffn_norm.weight", d));
    if (family.fused) {
      PAGODA_TRY_STATUS(linears(blk + "ffn_up", d, {{&w.w_gate, shape.ffn}, {&w.w_up, shape.ffn}}));
    } else {
      PAGODA_TRY_STATUS(linear(w.w_gate, blk + "ffn_gate", shape.ffn, d));
      PAGODA_TRY_STATUS(linear(w.w_up, blk + "ffn_up", shape.ffn, d));
    }
    PAGODA_TRY_STATUS(linear(w.w_down, blk + "ffn_down", d, shape.ffn));
    if (family.qk_norm) {
      PAGODA_TRY(w.q_norm, vector(blk + "attn_q_norm.weight", config_.head_dim));
      PAGODA_TRY(w.k_norm, vector(blk + "attn_k_norm.weight", config_.head_dim));
    }
    if (family.post_norms) {
      PAGODA_TRY(w.post_attn_norm, vector(blk + "post_attention_norm.weight", d));
      PAGODA_TRY(w.post_ffn_norm, vector(blk + "post_ffw_norm.weight", d));
    }
    return ok_status();
  }

  struct Part {
    Linear* out;
    int32_t rows;
  };

  /// `name`.weight [sum of rows, k] and, if there is one or must be one, `name`.bias [sum of rows]; the parts lie one
  /// below the other.
  Status linears(const std::string& name, int32_t k, std::initializer_list<Part> parts, bool needs_bias = false) {
    int32_t n = 0;
    for (const Part& part : parts) n += part.rows;
    PAGODA_TRY(const GgufTensor* tensor, matrix(name + ".weight", n, k));
    const float* bias = nullptr;
    if (needs_bias || file_.find_tensor(name + ".bias") != nullptr) {
      PAGODA_TRY(bias, vector(name + ".bias", n));
    }
    int32_t first = 0;
    for (const Part& part : parts) {
      add(*part.out, tensor, first, part.rows);
      if (bias != nullptr) part.out->bias = bias + first;
      first += part.rows;
    }
    return ok_status();
  }

  Status linear(Linear& out, const std::string& name, int32_t n, int32_t k, bool needs_bias = false) {
    return linears(name, k, {{&out, n}}, needs_bias);
  }

  /// Rows [first, first + rows) of a tensor become a matrix.
  void add(Linear& out, const GgufTensor* tensor, int32_t first, int32_t rows) {
    out.w = {tensor->type, rows, tensor->cols(), nullptr};
    const int64_t bytes = ops_.matmul.packed_bytes(tensor->type, rows, tensor->cols());
    sources_.push_back({tensor, first, &out, packed_bytes_});
    file_bytes_ += rows * kernels::row_bytes(tensor->type, tensor->cols());
    packed_bytes_ += round_up(bytes, kMatrixAlign);
  }

  Result<const GgufTensor*> tensor(const std::string& name, const std::vector<int64_t>& dims) {
    const GgufTensor* found = file_.find_tensor(name);
    if (found == nullptr) return corrupt(fmt::format("tensor {} is missing", name));
    if (trimmed(found->dims) != trimmed(dims))
      return corrupt(
          fmt::format("tensor {} has shape {}, expected {}", name, shape_text(found->dims), shape_text(dims)));
    const kernels::TypeTraits* traits = kernels::type_traits(found->type);
    if (traits == nullptr || !traits->dequantizable || dims[0] % traits->block_elements != 0)
      return Error{Code::kUnsupported,
                   fmt::format("tensor {} has type {}, which cannot hold weights of {} columns", name,
                               traits ? traits->name : std::to_string(static_cast<uint32_t>(found->type)), dims[0])};
    used_.insert(name);
    return found;
  }

  Result<const GgufTensor*> matrix(const std::string& name, int32_t n, int32_t k) { return tensor(name, {k, n}); }

  /// Gains and biases are read at once, whatever their type, into f32.
  Result<const float*> vector(const std::string& name, int32_t n) {
    PAGODA_TRY(const GgufTensor* found, tensor(name, {n}));
    out_.vectors_.push_back(std::make_unique<float[]>(static_cast<size_t>(n)));
    out_.vector_bytes_ += int64_t{n} * static_cast<int64_t>(sizeof(float));
    kernels::dequantize_row(found->type, found->data.data(), n, out_.vectors_.back().get());
    return static_cast<const float*>(out_.vectors_.back().get());
  }

  /// All matrices in the order a step reads them, in pieces of whole groups of rows.
  std::vector<Piece> list_pieces() const {
    const int32_t grain = ops_.matmul.row_grain;
    std::vector<Piece> pieces;
    for (size_t source = 0; source < sources_.size(); ++source) {
      const kernels::PackedMatrix& w = sources_[source].linear->w;
      const int64_t fit = std::max<int64_t>(1, kPieceBytes / kernels::row_bytes(w.type, w.cols) / grain);
      const int32_t step = static_cast<int32_t>(std::min<int64_t>(fit * grain, w.rows));
      for (int32_t row = 0; row < w.rows; row += step) pieces.push_back({source, {row, std::min(w.rows, row + step)}});
    }
    return pieces;
  }

  /// Bytes of the file that were packed.
  int64_t pack_piece(const Piece& piece) const {
    const Source& from = sources_[piece.source];
    const kernels::PackedMatrix& to = from.linear->w;
    const int64_t row_bytes = kernels::row_bytes(to.type, to.cols);
    const std::span<const std::byte> all = from.tensor->data;
    const int64_t first = from.first_row * row_bytes, begin = first + piece.rows.begin * row_bytes;
    const int64_t end = first + piece.rows.end * row_bytes;
    std::byte* packed = out_.packed_.data() + from.offset;
    const int64_t group_bytes = ops_.matmul.packed_bytes(to.type, ops_.matmul.row_grain, to.cols);
    const int64_t first_group = piece.rows.begin / ops_.matmul.row_grain;
    const int64_t groups = div_ceil(piece.rows.end, ops_.matmul.row_grain) - first_group;
    out_.pages_->commit({packed + first_group * group_bytes, static_cast<size_t>(groups * group_bytes)});
    ops_.matmul.pack(to.type, all.data() + first, to.rows, to.cols, piece.rows, packed);
    const int64_t behind = std::max<int64_t>(0, begin - kFaultAround);
    file_.release(all.subspan(static_cast<size_t>(behind), static_cast<size_t>(end - behind)));
    return end - begin;
  }

  const GgufFile& file_;
  const ModelConfig& config_;
  const kernels::Ops& ops_;
  Weights out_;
  std::vector<Source> sources_;
  int64_t packed_bytes_ = 0, file_bytes_ = 0;
  std::set<std::string> used_;
};

Result<Weights> Weights::load(const GgufFile& file, const ModelConfig& config, const kernels::Ops& ops,
                              ThreadPool& pool, const std::function<void(double)>& progress) {
  WeightLoader loader(file, config, ops);
  PAGODA_TRY_STATUS(loader.find_all());
  PAGODA_TRY_STATUS(loader.pack_all(pool, progress));
  return loader.take();
}

Result<Weights> Weights::outline(const GgufFile& file, const ModelConfig& config, const kernels::Ops& ops) {
  WeightLoader loader(file, config, ops);
  PAGODA_TRY_STATUS(loader.find_all());
  PAGODA_TRY_STATUS(loader.reserve());
  return loader.take();
}

void Weights::embed(const kernels::Ops& ops, TokenId token, float* row) const {
  if (embedding_ == nullptr) return ops.matmul.unpack_row(head_.w, token, row);
  const int64_t bytes = kernels::row_bytes(embedding_->type, embedding_->cols());
  kernels::dequantize_row(embedding_->type, embedding_->data.data() + token * bytes, embedding_->cols(), row);
}

}  // namespace pagoda::model
