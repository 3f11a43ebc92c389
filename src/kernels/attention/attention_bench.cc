#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/half.h"
#include "core/huge_buffer.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/kernels.h"

namespace pagoda::kernels {
namespace {

/// `layers` layers of one sequence's cache in one pool, as the engine lays it out, and random queries.
struct Cache {
  KvTypes types;
  bool bias;
  int32_t heads, kv_heads, head_dim, context, layers;
  HugeBuffer pool;
  std::vector<BlockId> table;
  std::vector<float> q, out;
  HugeBuffer scratch;

  std::vector<float> slots, turns;

  Cache(KvTypes kv_types, bool k_bias, int32_t h, int32_t hkv, int32_t dh, int32_t c, int32_t l)
      : types(kv_types), bias(k_bias), heads(h), kv_heads(hkv), head_dim(dh), context(c), layers(l) {
    const int64_t block = kv_block_bytes(types, hkv, dh), blocks = c / kBlockTokens;
    pool = HugeBuffer::allocate(block * blocks * l).take();
    scratch = HugeBuffer::allocate(attention_scratch_bytes(dh, true)).take();
    std::mt19937 rng(1);
    std::vector<float> row(size_t(hkv) * dh);
    for (float& x : row) x = std::normal_distribution<float>()(rng);
    slots.assign(row.size() * kBlockTokens, 1.f);
    turns.assign(blocks * dh, 0.5f);
    const KvWriteFn write = select_kv_write(isa::detected());
    for (int32_t slot = 0; slot < kBlockTokens; ++slot) {
      std::swap(row[slot], row[row.size() - 1 - slot]);
      write(layer_of(0), BlockId{0}, slot, row.data(), row.data());
    }
    for (int64_t i = 1; i < blocks * l; ++i) std::memcpy(pool.data() + i * block, pool.data(), block);
    for (int64_t b = 0; b < blocks; ++b) table.push_back(BlockId{static_cast<uint32_t>(b)});
    q.resize(size_t(c) * h * dh);
    for (float& x : q) x = std::normal_distribution<float>()(rng);
    out.resize(q.size());
  }

  KvLayer layer_of(int32_t layer) {
    const int64_t block = kv_block_bytes(types, kv_heads, head_dim);
    KvLayer kv{types, kv_heads, head_dim, pool.data() + layer * block, block * layers};
    if (bias) kv.bias = {slots.data(), turns.data(), head_dim, false};
    return kv;
  }

  /// Query rows [position, position + rows) of one layer, all heads.
  void attend(AttentionFn fn, int32_t layer, int32_t position, int32_t rows) {
    const int64_t width = int64_t{heads} * head_dim;
    const KvLayer kv = layer_of(layer);
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
void decode(benchmark::State& state, uint32_t need, AttentionFn fn, KvTypes types, bool bias) {
  if (!isa::covers(isa::detected(), need)) return state.SkipWithError("not on this CPU");
  Cache cache(types, bias, state.range(0), state.range(1), state.range(2), state.range(3), state.range(4));
  int32_t layer = 0;
  for (auto _ : state) {
    cache.attend(fn, layer, cache.context - 1, 1);
    layer = (layer + 1) % cache.layers;
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * kv_block_bytes(types, cache.kv_heads, cache.head_dim) * cache.context /
                          kBlockTokens);
}

// Prefill: the last `rows` rows of a context in tiles of 16. Reports MACs/s, because the limit is the f32 fma rate: 16
// a cycle and core on AVX2.
void prefill(benchmark::State& state, uint32_t need, AttentionFn fn, KvTypes types, bool bias) {
  if (!isa::covers(isa::detected(), need)) return state.SkipWithError("not on this CPU");
  Cache cache(types, bias, state.range(0), state.range(1), state.range(2), state.range(3), 1);
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

#define PAGODA_ATTENTION_ISA(need, isa_name)                                            \
  BENCHMARK_CAPTURE(decode, isa_name, need, attention_##isa_name, KvType::kF16, false)  \
      ->ArgNames({"H", "Hkv", "Dh", "C", "L"})                                          \
      ->Args({12, 2, 128, 2048, 64})                                                    \
      ->Args({12, 2, 128, 2048, 1})                                                     \
      ->Args({9, 3, 64, 2048, 64})                                                      \
      ->Args({9, 3, 64, 2048, 1})                                                       \
      ->Args({4, 1, 256, 2048, 64})                                                     \
      ->Args({4, 1, 256, 2048, 1})                                                      \
      ->Args({8, 8, 128, 2048, 16});                                                    \
  BENCHMARK_CAPTURE(prefill, isa_name, need, attention_##isa_name, KvType::kF16, false) \
      ->ArgNames({"H", "Hkv", "Dh", "C", "rows"})                                       \
      ->Args({12, 2, 128, 2048, 128})                                                   \
      ->Args({9, 3, 64, 2048, 128})                                                     \
      ->Args({4, 1, 256, 2048, 128})                                                    \
      ->Args({12, 2, 128, 512, 512});
#include "kernels/attention/kernels.inc"
#undef PAGODA_ATTENTION_ISA

// The same from memory with the other ways to store K and V.
int register_types() {
  const struct {
    const char* name;
    KvTypes types;
    bool bias;
  } storages[] = {{"f16", KvType::kF16, false},
                  {"bf16", KvType::kBf16, false},
                  {"int8", KvType::kInt8, false},
                  {"fp8_e4m3", KvType::kFp8E4m3, false},
                  {"fp8_e5m2", KvType::kFp8E5m2, false},
                  {"int8-int4", {KvType::kInt8, KvType::kInt4}, false},
                  {"int4", KvType::kInt4, false},
                  {"int8, K bias", KvType::kInt8, true},
                  {"fp8_e4m3, K bias", KvType::kFp8E4m3, true}};
  const uint32_t isa = isa::detected();
  const AttentionFn fn = select_attention(isa);
  for (const auto& s : storages) {
    benchmark::RegisterBenchmark((std::string("types decode/") + s.name).c_str(),
                                 [=](benchmark::State& state) { decode(state, isa, fn, s.types, s.bias); })
        ->Args({12, 2, 128, 2048, 32})
        ->Args({9, 3, 64, 2048, 32})
        ->Args({4, 1, 256, 2048, 32});
    benchmark::RegisterBenchmark((std::string("types prefill/") + s.name).c_str(), [=](benchmark::State& state) {
      prefill(state, isa, fn, s.types, s.bias);
    })->Args({12, 2, 128, 2048, 128});
  }
  return 0;
}
const int kRegistered = register_types();

}  // namespace
}  // namespace pagoda::kernels
