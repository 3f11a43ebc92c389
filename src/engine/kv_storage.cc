#include "engine/kv_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/check.h"
#include "core/ids.h"

namespace pagoda::engine {
namespace {

constexpr int64_t kCopyPieceBytes = 4096;
constexpr int64_t kReserveBytes = 512ll << 20;  // activations, logits, queues, the process itself

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

Error no_capacity(const KvDemand& d, int64_t room, int64_t needed) {
  const int64_t tokens = d.shape.tokens_in(std::max<int64_t>(0, room / d.page_bytes), d.step_tokens);
  const std::string shorter =
      tokens > 0 ? fmt::format("--max-model-len {} or less", tokens)
                 : fmt::format("a smaller model or quantization (weights take {:.0f} MiB)", mib(d.weight_bytes));
  return Error{
      Code::kNoCapacity,
      fmt::format(
          "one sequence of {} tokens needs {:.0f} MiB of KV cache, but {} x {:.0f} MiB available - {:.0f} MiB weights "
          "- "
          "{:.0f} MiB reserve leaves {:.0f} MiB; ways out: {}; free {:.0f} MiB of memory; or set the cache by hand "
          "with --kv-cache-memory",
          d.max_model_len, mib(needed), d.memory_utilization, mib(d.memory_available_bytes), mib(d.weight_bytes),
          mib(kReserveBytes), mib(std::max<int64_t>(0, room)), shorter, mib(needed - room))};
}

}  // namespace

int64_t kv_block_bytes(const model::ModelConfig& config, kernels::KvTypes types) {
  int64_t bytes = 0;
  for (const model::LayerConfig& layer : config.layers)
    bytes += kernels::kv_block_bytes(types, layer.kv_heads, config.head_dim);
  return bytes;
}

sizing::KvNumbers kv_numbers(kernels::KvType type) {
  switch (type) {
    case kernels::KvType::kF32:
      return {32, 0, 0};
    case kernels::KvType::kF16:
    case kernels::KvType::kBf16:
      return {16, 0, 0};
    case kernels::KvType::kInt4:
      return {4, 4, 32};
    default:
      return {8, 4, 0};
  }
}

Result<int32_t> plan_kv_blocks(const KvDemand& d) {
  const int64_t block_pages = d.shape.pages();
  const int64_t one_sequence =
      round_up(d.shape.pages_most(div_ceil(d.max_model_len, kBlockTokens), d.step_tokens), block_pages);
  const int64_t useful = std::min<int64_t>(one_sequence * d.max_num_seqs, INT32_MAX / block_pages * block_pages);
  if (d.kv_cache_bytes > 0) {
    const int64_t pages = d.kv_cache_bytes / (d.page_bytes * block_pages) * block_pages;
    if (pages < 1)
      return Error{Code::kNoCapacity,
                   fmt::format("a KV cache of {} bytes holds no block; one block of {} tokens takes {} bytes",
                               d.kv_cache_bytes, kBlockTokens, d.page_bytes * block_pages)};
    return static_cast<int32_t>(std::min(pages, useful));
  }
  const int64_t room = static_cast<int64_t>(d.memory_utilization * static_cast<double>(d.memory_available_bytes)) -
                       d.weight_bytes - kReserveBytes;
  if (room < one_sequence * d.page_bytes) return no_capacity(d, room, one_sequence * d.page_bytes);
  return static_cast<int32_t>(std::min(room / d.page_bytes / block_pages * block_pages, useful));
}

namespace {

int64_t layer_bytes(const model::ModelConfig& config, kernels::KvTypes types, size_t layer) {
  return kernels::kv_block_bytes(types, config.layers[layer].kv_heads, config.head_dim);
}

/// Places these layers, `most` to a page, behind the pages that the layout has.
void place(const model::ModelConfig& config, kernels::KvTypes types, const std::vector<size_t>& layers, size_t most,
           int32_t& pages, KvLayout& layout) {
  int64_t offset = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i % most == 0) ++pages, offset = 0;
    layout.layers[layers[i]] = {pages - 1, offset};
    offset += layer_bytes(config, types, layers[i]);
    layout.page_bytes = std::max(layout.page_bytes, offset);
  }
}

}  // namespace

KvLayout kv_layout(const model::ModelConfig& config, kernels::KvTypes types, int32_t max_model_len, int32_t step_tokens,
                   bool by_window) {
  std::vector<size_t> always, windowed;
  int32_t window = 0;
  for (size_t l = 0; l < config.layers.size(); ++l) {
    (config.layers[l].window > 0 ? windowed : always).push_back(l);
    window = std::max(window, config.layers[l].window);
  }
  if (always.empty()) {
    const auto kept = static_cast<std::ptrdiff_t>((windowed.size() + 7) / 8);
    always.assign(windowed.begin(), windowed.begin() + kept);
    windowed.erase(windowed.begin(), windowed.begin() + kept);
  }
  const int64_t block_bytes = kv_block_bytes(config, types);
  const bool leaves_some = int64_t{window} + step_tokens + kBlockTokens < max_model_len;
  for (size_t most = config.layers.size(); by_window && leaves_some && !windowed.empty() && most > 0; --most) {
    KvLayout layout{.layers = std::vector<KvLayout::Place>(config.layers.size())};
    int32_t pages = 0;
    place(config, types, always, most, pages, layout);
    layout.shape.always = pages;
    place(config, types, windowed, most, pages, layout);
    layout.shape.windowed = pages - layout.shape.always;
    layout.shape.window = window;
    if (pages * layout.page_bytes - block_bytes <= block_bytes / 16) return layout;
  }
  KvLayout whole{.layers = std::vector<KvLayout::Place>(config.layers.size())};
  std::vector<size_t> all(config.layers.size());
  std::iota(all.begin(), all.end(), size_t{0});
  int32_t pages = 0;
  place(config, types, all, all.size(), pages, whole);
  return whole;
}

Result<KvStorage> KvStorage::create(const model::ModelConfig& config, kernels::KvTypes types, const KvLayout& layout,
                                    const model::KeyBiases& biases, int32_t total_pages) {
  KvStorage storage;
  storage.layout_ = layout;
  storage.block_bytes_ = kv_block_bytes(config, types);
  PAGODA_TRY(storage.buffer_, HugeBuffer::allocate(layout.page_bytes * total_pages));
  for (size_t l = 0; l < config.layers.size(); ++l) {
    const KvLayout::Place& at = layout.layers[l];
    storage.layers_.push_back({types, config.layers[l].kv_heads, config.head_dim,
                               storage.buffer_.data() + at.offset_bytes, layout.page_bytes,
                               biases.of(static_cast<int32_t>(l)), at.page});
  }
  return storage;
}

template <class F>
void KvStorage::each_layer(kvcache::Pages pages, const F& f) const {
  PAGODA_CHECK(std::ssize(pages) == layout_.shape.pages());
  for (const kernels::KvLayer& layer : layers_)
    f(std::span(layer.base + static_cast<int64_t>(pages[static_cast<size_t>(layer.table)]) * layer.block_stride_bytes,
                static_cast<size_t>(kernels::kv_block_bytes(layer.types, layer.kv_heads, layer.head_dim))));
}

void KvStorage::save(kvcache::Pages pages, std::span<std::byte> into) const {
  PAGODA_CHECK(std::ssize(into) == block_bytes_);
  each_layer(pages, [&](std::span<std::byte> layer) {
    std::memcpy(into.data(), layer.data(), layer.size());
    into = into.subspan(layer.size());
  });
}

void KvStorage::load(kvcache::Pages pages, std::span<const std::byte> from) const {
  PAGODA_CHECK(std::ssize(from) == block_bytes_);
  each_layer(pages, [&](std::span<std::byte> layer) {
    std::memcpy(layer.data(), from.data(), layer.size());
    from = from.subspan(layer.size());
  });
}

int32_t KvStorage::copy_pieces() const { return static_cast<int32_t>(div_ceil(layout_.page_bytes, kCopyPieceBytes)); }

void KvStorage::copy(BlockCopy copy, Range pieces) const {
  const int64_t begin = pieces.begin * kCopyPieceBytes;
  const int64_t end = std::min(pieces.end * kCopyPieceBytes, layout_.page_bytes);
  const auto page = [&](BlockId id) { return buffer_.data() + static_cast<int64_t>(id) * layout_.page_bytes; };
  if (begin < end) std::memcpy(page(copy.to) + begin, page(copy.from) + begin, static_cast<size_t>(end - begin));
}

}  // namespace pagoda::engine
