#include "apps/bench_kernel_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "core/ids.h"
#include "kernels/formats/tensor_type.h"

namespace pagoda::apps {
namespace {

using kernels::ActFormat;
using kernels::ActView;

constexpr int32_t kRowsMax = 256;
constexpr int32_t kMatmulRows[] = {1, 4, 16, 256};
constexpr int32_t kHeadRows[] = {1, 4, 16};  // only rows that sample need logits
constexpr int32_t kLaneRows = kBlockTokens;  // from one thread's row to the next one's where each has its own
constexpr int64_t kMacsACase = 20'000'000'000;
constexpr int64_t kKvBytes = int64_t{64} << 20;  // that a pass over the cache reads: twice the largest L3 share we know
constexpr int64_t kPageAlign = 4096;

/// Numbers in [-1, 1), the same every time.
class Noise {
 public:
  float next() {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int32_t>(state_) >> 8) / 8388608.f;
  }

 private:
  uint32_t state_ = 20261130;
};

Range lane(int32_t thread) { return {thread * kLaneRows, thread * kLaneRows + 1}; }

std::string format_name(ActFormat format) {
  return format == ActFormat::kF32 ? "f32" : format == ActFormat::kInt8Block32 ? "int8/32" : "int8/256";
}

/// Without "blk.N." and ".weight".
std::string short_name(const std::string& tensor) {
  std::string name = tensor.substr(0, tensor.rfind('.'));
  if (name.starts_with("blk.")) name = name.substr(name.find('.', 4) + 1);
  return name;
}

bool is_head(const weights::GgufFile& file, const weights::GgufTensor& tensor) {
  return tensor.name == (file.find_tensor("output.weight") != nullptr ? "output.weight" : "token_embd.weight");
}

int64_t visible_pairs(const model::LayerConfig& layer, int32_t context, int32_t rows) {
  int64_t pairs = 0;
  for (int32_t r = 0; r < rows; ++r) {
    const int32_t before = context - rows + r + 1;
    pairs += layer.window > 0 ? std::min(before, layer.window) : before;
  }
  return pairs;
}

}  // namespace

Result<std::unique_ptr<KernelCases>> KernelCases::create(const weights::GgufFile& file, const kernels::Ops& ops,
                                                         ThreadPool& pool) {
  PAGODA_TRY(model::ModelConfig config, model::read_config(file, 0));
  std::unique_ptr<KernelCases> cases(new KernelCases(std::move(config), ops, pool.threads()));
  PAGODA_TRY_STATUS(cases->pack(file, pool));
  PAGODA_TRY_STATUS(cases->make_buffers());
  return cases;
}

Status KernelCases::pack(const weights::GgufFile& file, ThreadPool& pool) {
  int64_t bytes = 0;
  for (const weights::GgufTensor& tensor : file.tensors()) {
    const bool layer = tensor.name.starts_with("blk.") && tensor.dims.size() == 2 && tensor.rows() > 1;
    if (!layer && !is_head(file, tensor)) continue;
    const int64_t size = ops_.matmul.packed_bytes(tensor.type, tensor.rows(), tensor.cols());
    matrices_.push_back({&tensor, {tensor.type, tensor.rows(), tensor.cols(), nullptr}, bytes});
    bytes += round_up(size, kPageAlign);
  }
  packed_bytes_ = bytes;
  PAGODA_TRY(packed_, HugeBuffer::allocate(bytes + kPageAlign));  // prefetches look past the end
  for (Matrix& matrix : matrices_) matrix.packed.data = packed_.data() + matrix.offset;
  pool.run([&](Worker& worker) {
    for (const Matrix& m : matrices_) {
      const Range mine = worker.share(m.packed.rows, ops_.matmul.row_grain);
      if (!mine.empty())
        ops_.matmul.pack(m.packed.type, m.tensor->data.data(), m.packed.rows, m.packed.cols, mine,
                         packed_.data() + m.offset);
    }
  });
  return ok_status();
}

Status KernelCases::make_buffers() {
  for (const Matrix& m : matrices_) widest_ = std::max(widest_, m.packed.cols);
  widest_ = std::max({widest_, (config_.max_heads() + config_.max_kv_heads()) * config_.head_dim, config_.max_ffn()});
  const size_t rows = static_cast<size_t>(std::max(kRowsMax, threads_ * kLaneRows));
  const size_t values = std::max(rows * static_cast<size_t>(widest_), static_cast<size_t>(threads_) * config_.vocab);
  Noise noise;
  for (std::vector<float>* v : {&x_, &y_, &z_}) {
    v->resize(values);
    for (float& value : *v) value = noise.next();
  }
  gain_.assign(static_cast<size_t>(widest_), 1.f);
  cos_sin_.resize(rows * static_cast<size_t>(config_.rope_dims));
  for (size_t r = 0; r < rows; ++r)
    kernels::rope_angles(config_.rope[0].frequencies, static_cast<int32_t>(r), config_.rope[0].magnitude,
                         &cos_sin_[r * static_cast<size_t>(config_.rope_dims)]);
  PAGODA_TRY(scratch_,
             HugeBuffer::allocate(threads_ * round_up(kernels::attention_scratch_bytes(config_.head_dim), kPageAlign)));
  const int64_t longest =
      kernels::kv_block_bytes(kernels::KvType::kF16, config_.max_kv_heads(), config_.head_dim) * (8192 / kBlockTokens);
  const int64_t bytes = std::max(kKvBytes, longest * threads_);
  PAGODA_TRY(kv_, HugeBuffer::allocate(bytes));
  auto* f16 = reinterpret_cast<uint16_t*>(kv_.data());  // of magnitude 2^-3 to 2^-1, either sign
  for (int64_t i = 0; i < bytes / 2; ++i)
    f16[i] = static_cast<uint16_t>(0x3000u | (static_cast<uint32_t>(i * 2654435761u >> 7) & 0x8bffu));
  for (int64_t b = 0; b < bytes / 2; b += kernels::kv_block_bytes(kernels::KvType::kF16, 1, config_.head_dim))
    block_table_.push_back(BlockId{static_cast<uint32_t>(block_table_.size())});
  return ok_status();
}

std::vector<KernelCase> KernelCases::all() {
  std::vector<KernelCase> cases;
  add_matmuls(cases);
  add_norms(cases);
  add_rope_and_kv(cases);
  add_attention(cases);
  add_activations(cases);
  add_head(cases);
  return cases;
}

std::vector<KernelCases::MatrixClass> KernelCases::classes() const {
  std::map<std::tuple<int32_t, int32_t, kernels::TensorType>, MatrixClass> found;
  for (const Matrix& m : matrices_) {
    MatrixClass& one = found[{m.packed.rows, m.packed.cols, m.packed.type}];
    const std::string name = short_name(m.tensor->name);
    if (one.names.find(name) == std::string::npos) one.names += (one.names.empty() ? "" : " ") + name;
    one.members.push_back(&m);
  }
  std::vector<MatrixClass> out;
  for (auto& [key, one] : found) out.push_back(std::move(one));
  return out;
}

/// y = x W^T of all matrices of a class, one a call, so that weights come from DRAM: before a class is measured again,
/// all the others were read.
void KernelCases::add_matmuls(std::vector<KernelCase>& cases) {
  for (const int32_t rows : kMatmulRows) {
    for (const MatrixClass& one : classes()) {
      const kernels::PackedMatrix& first = one.members.front()->packed;
      const bool head = first.rows == config_.vocab;
      if (head && std::ranges::find(kHeadRows, rows) == std::end(kHeadRows)) continue;
      const ActFormat format = kernels::act_format(first.type);
      const Mat<const float> x{x_.data(), rows, first.cols, first.cols};
      ActView view = kernels::act_view_f32(x);
      if (format != ActFormat::kF32) {
        auto storage = HugeBuffer::allocate(kernels::act_bytes(format, rows, first.cols));
        PAGODA_CHECK(storage.ok());
        activations_.push_back(std::make_unique<HugeBuffer>(std::move(storage).take()));
        view = kernels::act_view(format, rows, first.cols, activations_.back()->data());
        ops_.quantize_act(x, {0, rows}, view);
      }
      outputs_.push_back(std::make_unique<std::vector<float>>(static_cast<size_t>(rows) * first.rows));
      const Mat<float> y{outputs_.back()->data(), rows, first.rows, first.rows};
      const int64_t macs = int64_t{rows} * first.rows * first.cols;
      const int32_t calls =
          static_cast<int32_t>(std::clamp<int64_t>(kMacsACase / macs, 1, static_cast<int64_t>(one.members.size())));
      cases.push_back({.name = "matmul " + one.names,
                       .type = kernels::type_traits(first.type)->name,
                       .shape = fmt::format("{} x {}", first.rows, first.cols),
                       .rows = rows,
                       .cost = {first.rows * kernels::row_bytes(first.type, first.cols),
                                format == ActFormat::kF32 ? 0 : macs, format == ActFormat::kF32 ? macs : 0},
                       .resident_bytes = 0,
                       .calls = calls,
                       .body = [this, members = one.members, view, y](Worker& worker, int32_t call) {
                         const kernels::PackedMatrix& w = members[static_cast<size_t>(call) % members.size()]->packed;
                         const Range mine = worker.share(w.rows, ops_.matmul.row_grain);
                         if (!mine.empty()) ops_.matmul.matmul(w, view, mine, y);
                       }});
    }
  }
}

/// An operator that works on rows one by one, in cache. A step of one row is done by each thread for itself, as the
/// layers do it, on rows so far apart that no two threads write one cache line; longer steps are shared out.
void KernelCases::add_row_case(std::vector<KernelCase>& cases, std::string name, std::string type, std::string shape,
                               int32_t rows, int64_t row_bytes, std::function<void(int32_t row)> body) {
  const int32_t done = rows == 1 ? threads_ : rows;
  cases.push_back({.name = std::move(name),
                   .type = std::move(type),
                   .shape = std::move(shape),
                   .rows = rows,
                   .cost = {row_bytes * done, 0, 0},
                   .resident_bytes = row_bytes * div_ceil(done, threads_),
                   .calls = 0,
                   .body = [body = std::move(body), rows](Worker& worker, int32_t) {
                     const Range mine = rows == 1 ? lane(worker.index()) : worker.share(rows);
                     for (int32_t r = mine.begin; r < mine.end; ++r) body(r);
                   }});
}

void KernelCases::add_norms(std::vector<KernelCase>& cases) {
  const int32_t d = config_.width;
  std::vector<ActFormat> formats;
  for (const Matrix& m : matrices_)
    if (const ActFormat f = kernels::act_format(m.packed.type); m.packed.cols == d)
      if (std::ranges::find(formats, f) == formats.end()) formats.push_back(f);
  for (const ActFormat format : formats) {
    for (const int32_t rows : {1, kRowsMax}) {
      const int32_t all = std::max(rows, threads_ * kLaneRows);
      ActView view{};
      if (format != ActFormat::kF32) {
        auto storage = HugeBuffer::allocate(kernels::act_bytes(format, all, d));
        PAGODA_CHECK(storage.ok());
        activations_.push_back(std::make_unique<HugeBuffer>(std::move(storage).take()));
        view = kernels::act_view(format, all, d, activations_.back()->data());
      }
      const int64_t out_bytes = format == ActFormat::kF32 ? int64_t{d} * 4 : d;
      add_row_case(
          cases, "rms_norm + quantize", format_name(format), std::to_string(d), rows, 8 * int64_t{d} + out_bytes,
          [this, d, all, format, view](int32_t r) {
            const int64_t at = int64_t{r} * d;
            ops_.rms_norm({x_.data() + at, 1, d, d}, gain_.data(), config_.norm_eps, {y_.data() + at, 1, d, d});
            if (format != ActFormat::kF32) ops_.quantize_act({y_.data(), all, d, d}, {r, r + 1}, view);
          });
    }
  }
  for (const int32_t rows : {1, kRowsMax})
    add_row_case(cases, "add residual", "f32", std::to_string(d), rows, 12 * int64_t{d},
                 [this, d](int32_t r) { ops_.add(x_.data() + int64_t{r} * d, y_.data() + int64_t{r} * d, d); });
}

void KernelCases::add_rope_and_kv(std::vector<KernelCase>& cases) {
  const model::LayerConfig& layer = config_.layers.front();
  const int32_t heads = layer.heads + layer.kv_heads, width = heads * config_.head_dim;
  const int32_t kv_width = layer.kv_heads * config_.head_dim, rot = config_.rope_dims;
  for (const int32_t rows : {1, kRowsMax}) {
    add_row_case(cases, "rope", "f32", fmt::format("{} x {}", heads, config_.head_dim), rows,
                 8 * int64_t{heads} * rot + 4 * int64_t{rot}, [this, heads, width, rot](int32_t r) {
                   ops_.rope(y_.data() + int64_t{r} * width, heads, config_.head_dim, rot, config_.family->pairing,
                             cos_sin_.data() + int64_t{r} * rot);
                 });
    add_row_case(cases, "kv_write", "f16", fmt::format("2 x {} x {}", layer.kv_heads, config_.head_dim), rows,
                 12 * int64_t{kv_width}, [this, kv_width, kv = kv_layer(layer)](int32_t r) {
                   const int64_t at = int64_t{r} * kv_width;
                   ops_.kv_write(kv, BlockId{static_cast<uint32_t>(r / kBlockTokens)}, r % kBlockTokens, x_.data() + at,
                                 y_.data() + at);
                 });
  }
}

void KernelCases::add_activations(std::vector<KernelCase>& cases) {
  const int32_t f = config_.max_ffn();
  const bool gelu = config_.family->activation == model::Activation::kGelu;
  for (const int32_t rows : {1, kRowsMax})
    add_row_case(cases, gelu ? "gelu_mul" : "silu_mul", "f32", std::to_string(f), rows, 12 * int64_t{f},
                 [this, f, act = gelu ? ops_.gelu_mul : ops_.silu_mul](int32_t r) {
                   const int64_t at = int64_t{r} * f;
                   act(x_.data() + at, y_.data() + at, z_.data() + at, f);
                 });
}

kernels::KvLayer KernelCases::kv_layer(const model::LayerConfig& layer) const {
  return {kernels::KvType::kF16, layer.kv_heads, config_.head_dim, kv_.data(),
          kernels::kv_block_bytes(kernels::KvType::kF16, layer.kv_heads, config_.head_dim)};
}

/// `rows` query rows, the last of a context, over all heads of one layer; each call by each thread on caches of its
/// own. One row (decode) reads K and V from DRAM, a tile (prefill) finds them in cache.
void KernelCases::add_attention_case(std::vector<KernelCase>& cases, const model::LayerConfig& layer, int32_t context,
                                     int32_t rows) {
  const kernels::KvLayer kv = kv_layer(layer);
  const int32_t seen = layer.window > 0 ? std::min(context, layer.window + rows - 1) : context;
  const int32_t blocks = div_ceil(context, kBlockTokens);
  const int64_t kv_bytes = 4 * int64_t{layer.kv_heads} * config_.head_dim * seen;
  const int64_t fit = kv_.bytes() / (kv.block_stride_bytes * blocks);
  const int32_t copies = rows == 1 ? static_cast<int32_t>(std::max<int64_t>(threads_, fit)) : threads_;
  const int64_t macs = 2 * int64_t{layer.heads} * config_.head_dim * visible_pairs(layer, context, rows);
  cases.push_back({.name = fmt::format("attention {}{}", rows == 1 ? "decode" : "prefill",
                                       layer.window > 0 ? fmt::format(", window {}", layer.window) : ""),
                   .type = "f16",
                   .shape = fmt::format("{}/{} x {} at {}", layer.heads, layer.kv_heads, config_.head_dim, context),
                   .rows = rows,
                   .cost = {kv_bytes * threads_, 0, macs * threads_},
                   .resident_bytes = rows == 1 ? 0 : kv_bytes,
                   .calls = copies / threads_,
                   .body = [this, kv, layer, context, rows, blocks, copies](Worker& worker, int32_t call) {
                     const int32_t width = layer.heads * config_.head_dim, group = layer.heads / layer.kv_heads;
                     const int32_t copy = (call * worker.count() + worker.index()) % copies;
                     kernels::KvLayer mine = kv;
                     mine.base += int64_t{copy} * blocks * kv.block_stride_bytes;
                     for (int32_t h = 0; h < layer.kv_heads; ++h) {
                       kernels::AttentionArgs args{};
                       args.q = x_.data() + int64_t{worker.index()} * rows * width;
                       args.out = y_.data() + int64_t{worker.index()} * rows * width;
                       args.q_stride = args.out_stride = width;
                       args.rows = rows;
                       args.position = context - rows;
                       args.head_begin = h * group;
                       args.head_end = (h + 1) * group;
                       args.kv_head = h;
                       args.block_table = block_table_.data();
                       args.scale = config_.attention_scale;
                       args.window = layer.window;
                       args.softcap = config_.attention_softcap;
                       ops_.attention(mine, args,
                                      scratch_.data() +
                                          worker.index() *
                                              round_up(kernels::attention_scratch_bytes(config_.head_dim), kPageAlign));
                     }
                   }});
}

void KernelCases::add_attention(std::vector<KernelCase>& cases) {
  std::vector<std::tuple<int32_t, int32_t, int32_t>> done;
  for (const model::LayerConfig& layer : config_.layers) {
    const std::tuple key{layer.heads, layer.kv_heads, layer.window};
    if (std::ranges::find(done, key) != done.end()) continue;
    done.push_back(key);
    for (const int32_t context : {128, 2048, 8192})
      if (context <= config_.context_length) add_attention_case(cases, layer, context, 1);
    for (const int32_t context : {512, 2048})
      if (context <= config_.context_length) add_attention_case(cases, layer, context, kBlockTokens);
  }
}

/// What sampling reads of a row of logits, a row a thread.
void KernelCases::add_head(std::vector<KernelCase>& cases) {
  const int32_t v = config_.vocab;
  add_row_case(cases, "arg_max", "f32", std::to_string(v), 1, 4 * int64_t{v}, [this, v](int32_t r) {
    z_[static_cast<size_t>(r)] = ops_.arg_max(x_.data() + int64_t{r / kLaneRows} * v, v).value;
  });
  add_row_case(cases, "log_sum_exp", "f32", std::to_string(v), 1, 4 * int64_t{v}, [this, v](int32_t r) {
    z_[static_cast<size_t>(r)] = ops_.log_sum_exp(x_.data() + int64_t{r / kLaneRows} * v, v);
  });
}

}  // namespace pagoda::apps
