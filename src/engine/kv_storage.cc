#include "engine/kv_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/ids.h"

namespace pagoda::engine {
namespace {

constexpr int64_t kReserveBytes = 512ll << 20;  // activations, logits, queues, the process itself

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

Error no_capacity(const KvDemand& d, int64_t room, int64_t needed) {
  const int64_t tokens = std::max<int64_t>(0, room / d.block_bytes) * kBlockTokens;
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
  const int64_t one_sequence = div_ceil(int64_t{d.max_model_len}, int64_t{kBlockTokens});
  const int64_t useful = std::min<int64_t>(one_sequence * d.max_num_seqs, INT32_MAX);
  if (d.kv_cache_bytes > 0) {
    const int64_t blocks = d.kv_cache_bytes / d.block_bytes;
    if (blocks < 1)
      return Error{Code::kNoCapacity,
                   fmt::format("a KV cache of {} bytes holds no block; one block of {} tokens takes {} bytes",
                               d.kv_cache_bytes, kBlockTokens, d.block_bytes)};
    return static_cast<int32_t>(std::min(blocks, useful));
  }
  const int64_t room = static_cast<int64_t>(d.memory_utilization * static_cast<double>(d.memory_available_bytes)) -
                       d.weight_bytes - kReserveBytes;
  if (room < one_sequence * d.block_bytes) return no_capacity(d, room, one_sequence * d.block_bytes);
  return static_cast<int32_t>(std::min(room / d.block_bytes, useful));
}

Result<KvStorage> KvStorage::create(const model::ModelConfig& config, kernels::KvTypes types,
                                    const model::KeyBiases& biases, int32_t total_blocks) {
  KvStorage storage;
  const int64_t stride = kv_block_bytes(config, types);
  PAGODA_TRY(storage.buffer_, HugeBuffer::allocate(stride * total_blocks));
  std::byte* base = storage.buffer_.data();
  for (const model::LayerConfig& layer : config.layers) {
    const auto index = static_cast<int32_t>(storage.layers_.size());
    storage.layers_.push_back({types, layer.kv_heads, config.head_dim, base, stride, biases.of(index)});
    base += kernels::kv_block_bytes(types, layer.kv_heads, config.head_dim);
  }
  return storage;
}

std::span<std::byte> KvStorage::block(BlockId block) const {
  return {buffer_.data() + static_cast<int64_t>(block) * block_bytes(), static_cast<size_t>(block_bytes())};
}

void KvStorage::copy(BlockCopy copy, Range layers) const {
  for (int32_t l = layers.begin; l < layers.end; ++l) {
    const kernels::KvLayer& layer = layers_[static_cast<size_t>(l)];
    const auto block = [&](BlockId id) { return layer.base + static_cast<int64_t>(id) * layer.block_stride_bytes; };
    std::memcpy(block(copy.to), block(copy.from),
                static_cast<size_t>(kernels::kv_block_bytes(layer.types, layer.kv_heads, layer.head_dim)));
  }
}

}  // namespace pagoda::engine
