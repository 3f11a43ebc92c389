#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/half.h"
#include "core/huge_buffer.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/kernels.h"

namespace pagoda::kernels {
namespace {

/// `layers` layers of one sequence's f16 cache in one pool, as the engine lays it out, and random queries.
struct Cache {
  int32_t heads, kv_heads, head_dim, context, layers;
  HugeBuffer pool;
  std::vector<BlockId> table;
  std::vector<float> q, out;
  HugeBuffer scratch;

  Cache(int32_t h, int32_t hkv, int32_t dh, int32_t c, int32_t l)
      : heads(h), kv_heads(hkv), head_dim(dh), context(c), layers(l) {
    const int64_t block = kv_block_bytes(KvType::kF16, hkv, dh), blocks = c / kBlockTokens;
    pool = HugeBuffer::allocate(block * blocks * l).take();
    scratch = HugeBuffer::allocate(attention_scratch_bytes(dh)).take();
    std::mt19937 rng(1);
    auto* values = reinterpret_cast<uint16_t*>(pool.data());
    for (int64_t i = 0; i < block * blocks * l / 2; ++i) values[i] = static_cast<uint16_t>(0x3000u | (rng() & 0x8fffu));
    for (int64_t b = 0; b < blocks; ++b) table.push_back(BlockId{static_cast<uint32_t>(b)});
    q.resize(size_t(c) * h * dh);
    for (float& x : q) x = std::normal_distribution<float>()(rng);
    out.resize(q.size());
  }

  /// Query rows [position, position + rows) of one layer, all heads.
  void attend(AttentionFn fn, int32_t layer, int32_t position, int32_t rows) {
    const int64_t block = kv_block_bytes(KvType::kF16, kv_heads, head_dim), width = int64_t{heads} * head_dim;
    const KvLayer kv{KvType::kF16, kv_heads, head_dim, pool.data() + layer * block, block * layers};
    const int32_t group = heads / kv_heads;
    for (int32_t h = 0; h < kv_heads; ++h) {
      AttentionArgs args{};
      args.q = &q[position * width];
      args.out = &out[position * width];
      args.q_stride = args.out_stride = width;
      args.rows = rows;
      args.position = position;
      args.head_begin = h * group;
      args.head_end = (h + 1) * group;
      args.kv_head = h;
      args.block_table = table.data();
      args.scale = 1.f / std::sqrt(float(head_dim));
      fn(kv, args, scratch.data());
    }
  }
};

// Decode: one row over a long context, layer after layer, so that K and V come from memory as in a model. Reports
// bytes/s, because the limit is memory: compare with read_gb_s on one thread.
void decode(benchmark::State& state, uint32_t need, AttentionFn fn) {
  if (!isa::covers(isa::detected(), need)) return state.SkipWithError("not on this CPU");
  Cache cache(state.range(0), state.range(1), state.range(2), state.range(3), state.range(4));
  int32_t layer = 0;
  for (auto _ : state) {
    cache.attend(fn, layer, cache.context - 1, 1);
    layer = (layer + 1) % cache.layers;
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 4ll * cache.kv_heads * cache.head_dim * cache.context);
}

// Prefill: the last `rows` rows of a context in tiles of 16. Reports MACs/s, because the limit is the f32 fma rate: 16
// a cycle and core on AVX2.
void prefill(benchmark::State& state, uint32_t need, AttentionFn fn) {
  if (!isa::covers(isa::detected(), need)) return state.SkipWithError("not on this CPU");
  Cache cache(state.range(0), state.range(1), state.range(2), state.range(3), 1);
  const int32_t rows = state.range(4), tile = 16;
  for (auto _ : state) {
    for (int32_t t = 0; t < rows; t += tile) cache.attend(fn, 0, cache.context - rows + t, tile);
    benchmark::ClobberMemory();
  }
  double pairs = 0;  // what causality lets the rows see
  for (int32_t t = 0; t < rows; ++t) pairs += cache.context - rows + t + 1;
  state.counters["MAC/s"] =
      benchmark::Counter(2 * pairs * cache.heads * cache.head_dim, benchmark::Counter::kIsIterationInvariantRate);
}

#define PAGODA_ATTENTION_ISA(need, isa_name)                       \
  BENCHMARK_CAPTURE(decode, isa_name, need, attention_##isa_name)  \
      ->ArgNames({"H", "Hkv", "Dh", "C", "L"})                     \
      ->Args({12, 2, 128, 2048, 64})                               \
      ->Args({12, 2, 128, 2048, 1})                                \
      ->Args({9, 3, 64, 2048, 64})                                 \
      ->Args({9, 3, 64, 2048, 1})                                  \
      ->Args({4, 1, 256, 2048, 64})                                \
      ->Args({4, 1, 256, 2048, 1})                                 \
      ->Args({8, 8, 128, 2048, 16});                               \
  BENCHMARK_CAPTURE(prefill, isa_name, need, attention_##isa_name) \
      ->ArgNames({"H", "Hkv", "Dh", "C", "rows"})                  \
      ->Args({12, 2, 128, 2048, 128})                              \
      ->Args({9, 3, 64, 2048, 128})                                \
      ->Args({4, 1, 256, 2048, 128})                               \
      ->Args({12, 2, 128, 512, 512});
#include "kernels/attention/kernels.inc"
#undef PAGODA_ATTENTION_ISA

}  // namespace
}  // namespace pagoda::kernels
