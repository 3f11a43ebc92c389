// The oracle: the order of operations that every other kernel repeats, bit for bit.
#include "core/half.h"
#include "kernels/attention/chain.h"
#include "kernels/attention/kernels.h"
#include "kernels/attention/kv_codes.h"
#include "kernels/lanes.h"

namespace pagoda::kernels {
namespace {

// ---- stored numbers ----

struct F16 {
  using Stored = uint16_t;
  static constexpr bool kScaled = false;
  static float load(uint16_t stored) { return f16_to_f32(stored); }
  static uint16_t store(float value) { return f32_to_f16(value); }
};
struct F32 {
  using Stored = float;
  static constexpr bool kScaled = false;
  static float load(float stored) { return stored; }
  static float store(float value) { return value; }
};
struct Bf16 {
  using Stored = uint16_t;
  static constexpr bool kScaled = false;
  static float load(uint16_t stored) { return bf16_to_f32(stored); }
  static uint16_t store(float value) { return f32_to_bf16(value); }
};
struct Int8 {
  using Stored = int8_t;
  static constexpr bool kScaled = true;
  static constexpr float kLargest = largest_code(KvType::kInt8);
  static float load(int8_t stored) { return stored; }
  static int8_t store(float code) { return static_cast<int8_t>(nearest_int(code)); }
};
struct E4m3 {
  using Stored = uint8_t;
  static constexpr bool kScaled = true;
  static constexpr float kLargest = largest_code(KvType::kFp8E4m3);
  static float load(uint8_t stored) { return e4m3_to_f32(stored); }
  static uint8_t store(float code) { return fp8_of<3>(code); }
};
struct E5m2 {
  using Stored = uint8_t;
  static constexpr bool kScaled = true;
  static constexpr float kLargest = largest_code(KvType::kFp8E5m2);
  static float load(uint8_t stored) { return e5m2_to_f32(stored); }
  static uint8_t store(float code) { return fp8_of<2>(code); }
};

/// f(Type{}) for a type whose numbers are read as they are, or times one scale a token.
template <class F>
void with_type(KvType type, const F& f) {
  switch (type) {
    case KvType::kF16:
      return f(F16{});
    case KvType::kBf16:
      return f(Bf16{});
    case KvType::kInt8:
      return f(Int8{});
    case KvType::kFp8E4m3:
      return f(E4m3{});
    case KvType::kFp8E5m2:
      return f(E5m2{});
    default:
      return f(F32{});
  }
}

// ---- writing ----

/// K and V of a head differ in where value d of a slot lies: at d * along + slot * across.
struct Place {
  std::byte* head;
  int32_t along, across;
  int32_t slot;

  template <class Stored>
  Stored& at(int32_t d) const {
    return reinterpret_cast<Stored*>(head)[d * along + slot * across];
  }
};

bool finite(float x) { return (std::bit_cast<uint32_t>(x) & 0x7fffffffu) < 0x7f800000u; }

template <class Type>
void write_numbers(const Place& place, const float* x, int32_t head_dim, int64_t number_bytes) {
  float inverse = 1.f;
  if constexpr (Type::kScaled) {
    float max = 0.f;
    bool all_finite = true;
    for (int32_t d = 0; d < head_dim; ++d) {
      const float magnitude = std::bit_cast<float>(std::bit_cast<uint32_t>(x[d]) & 0x7fffffffu);
      max = magnitude > max ? magnitude : max;
      all_finite = all_finite && finite(x[d]);
    }
    auto* scales = reinterpret_cast<float*>(place.head + number_bytes);
    scales[place.slot] = all_finite ? max / Type::kLargest : __builtin_nanf("");
    inverse = all_finite && max >= kTinyScale ? Type::kLargest / max : 0.f;
    if (!all_finite) {
      for (int32_t d = 0; d < head_dim; ++d) place.at<typename Type::Stored>(d) = 0;
      return;
    }
    for (int32_t d = 0; d < head_dim; ++d) place.at<typename Type::Stored>(d) = Type::store(x[d] * inverse);
  } else {
    for (int32_t d = 0; d < head_dim; ++d) place.at<typename Type::Stored>(d) = Type::store(x[d]);
  }
}

/// d and m of up to 32 values, and d's inverse.
struct Int4Scale {
  uint16_t d, m;
  float low, inverse;
};

Int4Scale int4_scale(const float* x, int32_t n) {
  float low = x[0], high = x[0];
  bool all_finite = true;
  for (int32_t i = 0; i < n; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    all_finite = all_finite && finite(x[i]);
  }
  if (!all_finite) return {0x7e00, 0x7e00, 0.f, 0.f};
  const uint16_t d = f32_to_f16((high - low) / 15.f), m = f32_to_f16(low + 0.f);  // + 0: min(-0, 0) has no fixed sign
  const float step = f16_to_f32(d);
  return {d, m, f16_to_f32(m), step > 0.f ? 1.f / step : 0.f};
}

uint8_t int4_code(float x, const Int4Scale& scale) {
  const float code = (x - scale.low) * scale.inverse;
  return static_cast<uint8_t>(nearest_int(code > 0.f ? code < 15.f ? code : 15.f : 0.f));
}

/// Where d and m of a group lie, m `m_at` further on: K has them in lanes of slots, V beside each other.
struct Int4Places {
  Place codes;  // of bytes, two values each
  uint16_t* scales;
  int32_t group_stride, m_at;
};

void write_int4(const Int4Places& places, const float* x, int32_t head_dim) {
  for (int32_t begin = 0; begin < head_dim; begin += kInt4Group) {
    const int32_t end = begin + kInt4Group < head_dim ? begin + kInt4Group : head_dim;
    const Int4Scale scale = int4_scale(x + begin, end - begin);
    uint16_t* at = places.scales + begin / kInt4Group * places.group_stride;
    at[0] = scale.d;
    at[places.m_at] = scale.m;
    for (int32_t d = begin; d < end; d += 2)
      places.codes.at<uint8_t>(d / 2) = static_cast<uint8_t>(int4_code(x[d], scale) | int4_code(x[d + 1], scale) << 4);
  }
}

void write_k(const KvLayer& kv, std::byte* head, int32_t slot, const float* k) {
  const Place place{head, kBlockTokens, 1, slot};
  const int64_t bytes = kv_number_bytes(kv.types.k, kv.head_dim);
  if (kv.types.k == KvType::kInt4) {
    auto* scales = reinterpret_cast<uint16_t*>(head + bytes) + slot;
    return write_int4({place, scales, 2 * kBlockTokens, kBlockTokens}, k, kv.head_dim);
  }
  with_type(kv.types.k, [&](auto type) { write_numbers<decltype(type)>(place, k, kv.head_dim, bytes); });
}

void write_v(const KvLayer& kv, std::byte* head, int32_t slot, const float* v) {
  const int64_t bytes = kv_number_bytes(kv.types.v, kv.head_dim);
  if (kv.types.v == KvType::kInt4) {
    auto* scales = reinterpret_cast<uint16_t*>(head + bytes) + slot * 2 * div_ceil(kv.head_dim, kInt4Group);
    return write_int4({{head, 1, kv.head_dim / 2, slot}, scales, 2, 1}, v, kv.head_dim);
  }
  const Place place{head, 1, kv.head_dim, slot};
  with_type(kv.types.v, [&](auto type) { write_numbers<decltype(type)>(place, v, kv.head_dim, bytes); });
}

// ---- expanding ----

float int4_value(uint8_t pair, int32_t d, uint16_t scale, uint16_t m) {
  return __builtin_fmaf(f16_to_f32(scale), static_cast<float>(d % 2 ? pair >> 4 : pair & 15), f16_to_f32(m));
}

/// The bias turned to the positions of block number `block` of the sequence: [Dh, 16].
void turn_key_bias(const KvLayer& kv, int32_t kv_head, int32_t block, float* out) {
  const KeyBias& bias = kv.bias;
  const float* slots = bias.slots + int64_t{kv_head} * kv.head_dim * kBlockTokens;
  const float* turns = bias.turns + int64_t{block} * bias.rot;
  for (int32_t i = 0; i < bias.rot / 2; ++i) {
    const float cos = turns[2 * i], sin = turns[2 * i + 1];
    const int32_t a = (bias.adjacent ? 2 * i : i) * kBlockTokens;
    const int32_t b = a + (bias.adjacent ? 1 : bias.rot / 2) * kBlockTokens;
    for (int32_t s = 0; s < kBlockTokens; ++s) {
      out[a + s] = __builtin_fmaf(slots[a + s], cos, -(slots[b + s] * sin));
      out[b + s] = __builtin_fmaf(slots[a + s], sin, slots[b + s] * cos);
    }
  }
  for (int32_t i = bias.rot * kBlockTokens; i < kv.head_dim * kBlockTokens; ++i) out[i] = slots[i];
}

void expand_int4_k(const KvLayer& kv, const std::byte* head, float* out) {
  const auto* codes = reinterpret_cast<const uint8_t*>(head);
  const auto* groups = reinterpret_cast<const uint16_t*>(head + kv_number_bytes(KvType::kInt4, kv.head_dim));
  for (int32_t d = 0; d < kv.head_dim; ++d) {
    const uint16_t* scales = groups + d / kInt4Group * 2 * kBlockTokens;
    for (int32_t s = 0; s < kBlockTokens; ++s) {
      const float value = int4_value(codes[d / 2 * kBlockTokens + s], d, scales[s], scales[kBlockTokens + s]);
      float& at = out[d * kBlockTokens + s];
      at = kv.bias.slots != nullptr ? value + at : value;
    }
  }
}

/// K of one head in one block as f32 [Dh, 16]: int4, or 8-bit numbers with a bias.
void expand_k(const KvLayer& kv, const std::byte* head, int32_t kv_head, int32_t block, float* out) {
  if (kv.bias.slots != nullptr) turn_key_bias(kv, kv_head, block, out);
  if (kv.types.k == KvType::kInt4) return expand_int4_k(kv, head, out);
  const auto* scales = reinterpret_cast<const float*>(head + kv_number_bytes(kv.types.k, kv.head_dim));
  with_type(kv.types.k, [&](auto type) {
    using Type = decltype(type);
    const auto* codes = reinterpret_cast<const typename Type::Stored*>(head);
    for (int32_t i = 0; i < kv.head_dim * kBlockTokens; ++i)
      out[i] = __builtin_fmaf(Type::load(codes[i]), scales[i % kBlockTokens], out[i]);
  });
}

/// V of one head in one block of int4 as f32 [16, Dh].
void expand_v(const KvLayer& kv, const std::byte* head, float* out) {
  const auto* codes = reinterpret_cast<const uint8_t*>(head);
  const auto* scales = reinterpret_cast<const uint16_t*>(head + kv_number_bytes(KvType::kInt4, kv.head_dim));
  const int32_t groups = div_ceil(kv.head_dim, kInt4Group);
  for (int32_t s = 0; s < kBlockTokens; ++s) {
    for (int32_t d = 0; d < kv.head_dim; ++d) {
      const uint16_t* scale = scales + (s * groups + d / kInt4Group) * 2;
      out[s * kv.head_dim + d] = int4_value(codes[(s * kv.head_dim + d) / 2], d, scale[0], scale[1]);
    }
  }
}

// ---- attention ----

/// Scores of all 16 slots of one block, one fma chain over d each. Slots the row does not see hold whatever comes out.
template <class Type>
void score_block(const std::byte* k_bytes, const float* q, int32_t head_dim, float* scores) {
  const auto* k = reinterpret_cast<const typename Type::Stored*>(k_bytes);
  for (int32_t slot = 0; slot < kBlockTokens; ++slot) scores[slot] = 0.f;
  for (int32_t d = 0; d < head_dim; ++d)
    for (int32_t slot = 0; slot < kBlockTokens; ++slot)
      scores[slot] = __builtin_fmaf(q[d], Type::load(k[d * kBlockTokens + slot]), scores[slot]);
  if constexpr (Type::kScaled) {
    const auto* scales = reinterpret_cast<const float*>(k + head_dim * kBlockTokens);
    for (int32_t slot = 0; slot < kBlockTokens; ++slot) scores[slot] *= scales[slot];
  }
}

/// Block number `block` of the sequence.
void score_any(const KvLayer& kv, const AttentionArgs& args, int32_t block, const AttentionScratch& s, float* scores) {
  const std::byte* head = k_of(kv, args.block_table[block], args.kv_head);
  if (expands_k(kv)) {
    expand_k(kv, head, args.kv_head, block, s.k);
    return score_block<F32>(reinterpret_cast<const std::byte*>(s.k), s.q, kv.head_dim, scores);
  }
  with_type(kv.types.k, [&](auto type) { score_block<decltype(type)>(head, s.q, kv.head_dim, scores); });
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
  for (int32_t slot = slot_begin; slot < slot_end; ++slot) {
    float weight = p[slot];
    if constexpr (Type::kScaled) weight *= reinterpret_cast<const float*>(v + head_dim * kBlockTokens)[slot];
    for (int32_t d = 0; d < head_dim; ++d) out[d] = __builtin_fmaf(weight, Type::load(v[slot * head_dim + d]), out[d]);
  }
}

void add_any(const KvLayer& kv, const AttentionArgs& args, int32_t block, const AttentionScratch& s, const float* p,
             Range slots, float* out) {
  const std::byte* head = v_of(kv, args.block_table[block], args.kv_head);
  if (expands_v(kv)) {
    expand_v(kv, head, s.v);
    return add_values<F32>(reinterpret_cast<const std::byte*>(s.v), p, slots.begin, slots.end, kv.head_dim, out);
  }
  with_type(kv.types.v,
            [&](auto type) { add_values<decltype(type)>(head, p, slots.begin, slots.end, kv.head_dim, out); });
}

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
    for (int32_t b = block_begin; b < block_end; ++b) score_any(kv, args, b, s, s.scores + (b * kBlockTokens - origin));
    const MaxSum part_sum = softmax_chunk(s.scores, {part.begin - origin, part.end - origin}, args.softcap);

    float* o = chunk == first ? s.merged : s.chunk;
    for (int32_t d = 0; d < head_dim; ++d) o[d] = 0.f;
    for (int32_t b = block_begin; b < block_end; ++b) {
      const int32_t start = b * kBlockTokens;
      const int32_t from = part.begin > start ? part.begin - start : 0;
      const int32_t to = part.end < start + kBlockTokens ? part.end - start : kBlockTokens;
      add_any(kv, args, b, s, s.scores + (start - origin), {from, to}, o);
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
  for (int32_t h = 0; h < kv.kv_heads; ++h) {
    write_k(kv, k_of(kv, block, h), slot, k + h * kv.head_dim);
    write_v(kv, v_of(kv, block, h), slot, v + h * kv.head_dim);
  }
}

void attention_portable(const KvLayer& kv, const AttentionArgs& args, std::byte* scratch) {
  const AttentionScratch s = attention_scratch(scratch, kv.head_dim);
  for (int32_t row = 0; row < args.rows; ++row) {
    for (int32_t head = args.head_begin; head < args.head_end; ++head) {
      const float* q = args.q + row * args.q_stride + int64_t{head} * kv.head_dim;
      float* out = args.out + row * args.out_stride + int64_t{head} * kv.head_dim;
      attend(kv, args, args.position + row, q, out, s);
    }
  }
}

}  // namespace pagoda::kernels
