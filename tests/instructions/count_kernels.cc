// Runs each kernel once on fixed inputs and, under callgrind, dumps the instructions of each by name. No threads, no
// clock, no random source: the counts depend on the compiler alone. tools/check_instructions runs it and reads the
// dumps.
#include <valgrind/callgrind.h>

#include <cstdio>
#include <string>
#include <vector>

#include "core/huge_buffer.h"
#include "core/ids.h"
#include "core/isa.h"
#include "kernels/formats/tensor_type.h"
#include "kernels/ops.h"

namespace {

using namespace pagoda;
using kernels::ActFormat;
using kernels::TensorType;

template <class Call>
void count(const std::string& name, Call call) {
  CALLGRIND_ZERO_STATS;
  CALLGRIND_TOGGLE_COLLECT;
  call();
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_DUMP_STATS_AT(name.c_str());
}

/// Numbers in [-1, 1), the same every time.
std::vector<float> numbers(size_t n) {
  std::vector<float> out(n);
  uint32_t state = 20261130;
  for (float& v : out) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<int32_t>(state) >> 8) / 8388608.f;
  }
  return out;
}

HugeBuffer memory(int64_t bytes) { return HugeBuffer::allocate(bytes + 4096).take(); }

void count_matmul(const kernels::Ops& ops, TensorType type) {
  constexpr int32_t kN = 64, kK = 512, kRows = 16;
  std::vector<std::byte> file(static_cast<size_t>(kN * kernels::row_bytes(type, kK)));
  uint32_t state = 1;
  for (std::byte& b : file)
    b = static_cast<std::byte>((state = state * 1664525u + 1013904223u) >> 26);  // small: no NaN
  const HugeBuffer packed = memory(ops.matmul.packed_bytes(type, kN, kK));
  const std::string name = kernels::type_traits(type)->name;
  count("pack " + name, [&] { ops.matmul.pack(type, file.data(), kN, kK, {0, kN}, packed.data()); });
  std::vector<float> x = numbers(kRows * kK), y(kRows * kN);
  const ActFormat format = kernels::act_format(type);
  for (const int32_t rows : {1, 4, kRows}) {
    const HugeBuffer storage = memory(kernels::act_bytes(format, rows, kK));
    const Mat<const float> in{x.data(), rows, kK, kK};
    const kernels::ActView view =
        format == ActFormat::kF32 ? kernels::act_view_f32(in) : kernels::act_view(format, rows, kK, storage.data());
    if (format != ActFormat::kF32) ops.quantize_act(in, {0, rows}, view);
    count("matmul " + name + " rows=" + std::to_string(rows), [&] {
      ops.matmul.matmul({type, kN, kK, packed.data()}, view, {0, kN}, {y.data(), rows, kN, kN});
    });
  }
}

void count_quantize(const kernels::Ops& ops, ActFormat format, const char* name) {
  const std::vector<float> x = numbers(1024);
  const HugeBuffer storage = memory(kernels::act_bytes(format, 1, 1024));
  count(name, [&] {
    ops.quantize_act({x.data(), 1, 1024, 1024}, {0, 1}, kernels::act_view(format, 1, 1024, storage.data()));
  });
}

void count_attention(const kernels::Ops& ops) {
  constexpr int32_t kHeads = 4, kKvHeads = 2, kDim = 64, kContext = 304, kTile = 16;
  const int64_t block = kernels::kv_block_bytes(kernels::KvType::kF16, kKvHeads, kDim);
  const HugeBuffer cache = memory(block * (kContext / kBlockTokens)),
                   scratch = memory(kernels::attention_scratch_bytes(kDim));
  const kernels::KvLayer kv{kernels::KvType::kF16, kKvHeads, kDim, cache.data(), block};
  const std::vector<float> x = numbers(size_t{kContext} * kHeads * kDim);
  std::vector<BlockId> table;
  for (uint32_t b = 0; b < kContext / kBlockTokens; ++b) table.push_back(BlockId{b});
  const auto write = [&] {
    for (int32_t t = 0; t < kContext; ++t)
      ops.kv_write(kv, table[static_cast<size_t>(t / kBlockTokens)], t % kBlockTokens, &x[size_t(t) * kKvHeads * kDim],
                   &x[size_t(t) * kKvHeads * kDim + 64]);
  };
  count("kv_write", write);
  std::vector<float> out(size_t{kTile} * kHeads * kDim);
  for (const int32_t rows : {1, kTile}) {
    count("attention rows=" + std::to_string(rows), [&] {
      for (int32_t h = 0; h < kKvHeads; ++h) {
        kernels::AttentionArgs args{};
        args.q = x.data();
        args.out = out.data();
        args.q_stride = args.out_stride = kHeads * kDim;
        args.rows = rows;
        args.position = kContext - rows;
        args.head_begin = 2 * h;
        args.head_end = 2 * h + 2;
        args.kv_head = h;
        args.block_table = table.data();
        args.scale = 0.125f;
        ops.attention(kv, args, scratch.data());
      }
    });
  }
}

void count_vectors(const kernels::Ops& ops) {
  constexpr int32_t kN = 1024;
  std::vector<float> x = numbers(kN), y = numbers(kN), z(kN), gain(kN, 1.f), cos_sin = numbers(64);
  volatile float sink = 0;
  count("rms_norm", [&] { ops.rms_norm({x.data(), 1, kN, kN}, gain.data(), 1e-6f, {z.data(), 1, kN, kN}); });
  count("rope halves", [&] { ops.rope(z.data(), 16, 64, 64, kernels::RopePairing::kHalves, cos_sin.data()); });
  count("rope adjacent", [&] { ops.rope(z.data(), 16, 64, 64, kernels::RopePairing::kAdjacent, cos_sin.data()); });
  count("add", [&] { ops.add(x.data(), z.data(), kN); });
  count("scale", [&] { ops.scale(z.data(), 0.5f, kN); });
  count("silu_mul", [&] { ops.silu_mul(x.data(), y.data(), z.data(), kN); });
  count("gelu_mul", [&] { ops.gelu_mul(x.data(), y.data(), z.data(), kN); });
  count("softcap", [&] { ops.softcap(z.data(), 30.f, kN); });
  count("exp_shifted", [&] { ops.exp_shifted(x.data(), 1.f, z.data(), kN); });
  count("arg_max", [&] { sink = ops.arg_max(x.data(), kN).value; });
  count("log_sum_exp", [&] { sink = ops.log_sum_exp(x.data(), kN); });
  count("sum", [&] { sink = ops.sum(x.data(), kN); });
}

}  // namespace

int main() {
  const auto level = isa::level_from_environment();
  if (!level.ok()) {
    std::fprintf(stderr, "%s\n", level.error().message.c_str());
    return 1;
  }
  const kernels::Ops ops = kernels::make_ops(level.value());
  for (const TensorType type :
       {TensorType::kF32,   TensorType::kF16,     TensorType::kBF16,    TensorType::kQ4_0,   TensorType::kQ4_1,
        TensorType::kQ5_0,  TensorType::kQ5_1,    TensorType::kQ8_0,    TensorType::kQ2_K,   TensorType::kQ3_K,
        TensorType::kQ4_K,  TensorType::kQ5_K,    TensorType::kQ6_K,    TensorType::kIQ4_NL, TensorType::kIQ4_XS,
        TensorType::kMXFP4, TensorType::kIQ2_XXS, TensorType::kIQ3_XXS, TensorType::kIQ3_S,  TensorType::kIQ1_S,
        TensorType::kTQ2_0})
    count_matmul(ops, type);
  count_quantize(ops, ActFormat::kInt8Block32, "quantize int8/32");
  count_quantize(ops, ActFormat::kInt8Block256, "quantize int8/256");
  count_attention(ops);
  count_vectors(ops);
  return 0;
}
