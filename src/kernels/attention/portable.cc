// The oracle: the order of operations that every other kernel repeats, bit for bit.
#include "core/half.h"
#include "kernels/attention/chain.h"
#include "kernels/attention/kernels.h"
#include "kernels/lanes.h"

namespace pagoda::kernels {
namespace {

struct F16 {
  using Stored = uint16_t;
  static float load(uint16_t stored) { return f16_to_f32(stored); }
  static uint16_t store(float value) { return f32_to_f16(value); }
};
struct F32 {
  using Stored = float;
  static float load(float stored) { return stored; }
  static float store(float value) { return value; }
};

template <class Type>
void write_token(const KvLayer& kv, BlockId block, int32_t slot, const float* k, const float* v) {
  using Stored = typename Type::Stored;
  for (int32_t h = 0; h < kv.kv_heads; ++h) {
    auto* k_out = reinterpret_cast<Stored*>(const_cast<std::byte*>(k_of(kv, block, h)));
    auto* v_out = reinterpret_cast<Stored*>(const_cast<std::byte*>(v_of(kv, block, h)));
    for (int32_t d = 0; d < kv.head_dim; ++d) {
      k_out[d * kBlockTokens + slot] = Type::store(k[h * kv.head_dim + d]);
      v_out[slot * kv.head_dim + d] = Type::store(v[h * kv.head_dim + d]);
    }
  }
}

/// Scores of all 16 slots of one block, one fma chain over d each. Slots the row does not see hold whatever comes out.
template <class Type>
void score_block(const std::byte* k_bytes, const float* q, int32_t head_dim, float* scores) {
  const auto* k = reinterpret_cast<const typename Type::Stored*>(k_bytes);
  for (int32_t slot = 0; slot < kBlockTokens; ++slot) scores[slot] = 0.f;
  for (int32_t d = 0; d < head_dim; ++d)
    for (int32_t slot = 0; slot < kBlockTokens; ++slot)
      scores[slot] = __builtin_fmaf(q[d], Type::load(k[d * kBlockTokens + slot]), scores[slot]);
}

/// Scores to probabilities exp2(s - max) over the tokens of a chunk that the row sees.
MaxSum softmax_chunk(float* s, Range seen, float softcap) {
  if (softcap > 0.f)
    for (int32_t j = seen.begin; j < seen.end; ++j) s[j] = (softcap * math::kLog2E) * math::tanh(s[j] / softcap);
  float max = -__builtin_inff();
  for (int32_t j = seen.begin; j < seen.end; ++j) max = s[j] > max ? s[j] : max;
  float lane[kLanes] = {};
  for (int32_t j = seen.begin; j < seen.end; ++j) {
    s[j] = math::exp2(s[j] - max);
    lane[j % kLanes] += s[j];
  }
  return {max, fold_lanes(lane)};
}

template <class Type>
void add_values(const std::byte* v_bytes, const float* p, int32_t slot_begin, int32_t slot_end, int32_t head_dim,
                float* out) {
  const auto* v = reinterpret_cast<const typename Type::Stored*>(v_bytes);
  for (int32_t slot = slot_begin; slot < slot_end; ++slot)
    for (int32_t d = 0; d < head_dim; ++d) out[d] = __builtin_fmaf(p[slot], Type::load(v[slot * head_dim + d]), out[d]);
}

template <class Type>
void attend(const KvLayer& kv, const AttentionArgs& args, int32_t position, const float* q_row, float* out,
            AttentionScratch s) {
  const int32_t head_dim = kv.head_dim;
  const Range seen = visible(position, args.window);
  const float scale = query_scale(args);
  for (int32_t d = 0; d < head_dim; ++d) s.q[d] = q_row[d] * scale;

  const int32_t first = seen.begin / kChunkTokens, last = (seen.end - 1) / kChunkTokens;
  MaxSum total{};
  for (int32_t chunk = first; chunk <= last; ++chunk) {
    const Range part = in_chunk(seen, chunk);
    const int32_t origin = chunk * kChunkTokens;
    const int32_t block_begin = part.begin / kBlockTokens, block_end = div_ceil(part.end, kBlockTokens);
    for (int32_t b = block_begin; b < block_end; ++b)
      score_block<Type>(k_of(kv, args.block_table[b], args.kv_head), s.q, head_dim,
                        s.scores + (b * kBlockTokens - origin));
    const MaxSum part_sum = softmax_chunk(s.scores, {part.begin - origin, part.end - origin}, args.softcap);

    float* o = chunk == first ? s.merged : s.chunk;
    for (int32_t d = 0; d < head_dim; ++d) o[d] = 0.f;
    for (int32_t b = block_begin; b < block_end; ++b) {
      const int32_t start = b * kBlockTokens;
      const int32_t from = part.begin > start ? part.begin - start : 0;
      const int32_t to = part.end < start + kBlockTokens ? part.end - start : kBlockTokens;
      add_values<Type>(v_of(kv, args.block_table[b], args.kv_head), s.scores + (start - origin), from, to, head_dim, o);
    }
    if (chunk == first) {
      total = part_sum;
      continue;
    }
    const MergeWeights w = merge_max_sum(total, part_sum);
    for (int32_t d = 0; d < head_dim; ++d) s.merged[d] = __builtin_fmaf(s.merged[d], w.merged, o[d] * w.chunk);
  }
  for (int32_t d = 0; d < head_dim; ++d) out[d] = s.merged[d] / total.sum;
}

}  // namespace

void kv_write_portable(const KvLayer& kv, BlockId block, int32_t slot, const float* k, const float* v) {
  PAGODA_DCHECK(slot >= 0 && slot < kBlockTokens);
  if (kv.type == KvType::kF16)
    write_token<F16>(kv, block, slot, k, v);
  else
    write_token<F32>(kv, block, slot, k, v);
}

void attention_portable(const KvLayer& kv, const AttentionArgs& args, std::byte* scratch) {
  const AttentionScratch s = attention_scratch(scratch, kv.head_dim);
  for (int32_t row = 0; row < args.rows; ++row) {
    for (int32_t head = args.head_begin; head < args.head_end; ++head) {
      const float* q = args.q + row * args.q_stride + int64_t{head} * kv.head_dim;
      float* out = args.out + row * args.out_stride + int64_t{head} * kv.head_dim;
      if (kv.type == KvType::kF16)
        attend<F16>(kv, args, args.position + row, q, out, s);
      else
        attend<F32>(kv, args, args.position + row, q, out, s);
    }
  }
}

}  // namespace pagoda::kernels
