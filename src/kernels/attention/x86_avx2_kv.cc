// Built with -mavx2 -mfma -mf16c: K and V as they are written, and int4 and biased K as they are expanded.
#include "kernels/attention/kernels.h"
#include "kernels/attention/x86_avx2.h"

namespace pagoda::kernels {
namespace {

// ---- writing ----

/// Where value d of a slot lies: at d * along + slot * across; K and V differ in these.
struct Place {
  std::byte* head;
  int32_t along, across;
  int32_t slot;
};

/// Stores values d .. d + 8; those of V lie together.
template <class Stored>
[[gnu::always_inline]] inline void put(const Place& place, int32_t d, const Stored (&values)[8]) {
  auto* at = reinterpret_cast<Stored*>(place.head) + d * place.along + place.slot * place.across;
  if (place.along == 1) {
    __builtin_memcpy(at, values, sizeof values);
  } else {
    for (int32_t i = 0; i < 8; ++i) at[i * place.along] = values[i];
  }
}

void write_f32(const Place& place, const float* x, int32_t head_dim) {
  for (int32_t d = 0; d < head_dim; d += 8) {
    float values[8];
    _mm256_storeu_ps(values, _mm256_loadu_ps(x + d));
    put(place, d, values);
  }
}

void write_f16(const Place& place, const float* x, int32_t head_dim) {
  for (int32_t d = 0; d < head_dim; d += 8) {
    alignas(16) uint16_t values[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(values),
                    _mm256_cvtps_ph(_mm256_loadu_ps(x + d), _MM_FROUND_TO_NEAREST_INT));
    put(place, d, values);
  }
}

void write_bf16(const Place& place, const float* x, int32_t head_dim) {
  for (int32_t d = 0; d < head_dim; d += 8) {
    uint16_t values[8];
    for (int32_t i = 0; i < 8; ++i) values[i] = f32_to_bf16(x[d + i]);
    put(place, d, values);
  }
}

/// The low bytes of eight dwords.
[[gnu::always_inline]] inline void put_bytes(const Place& place, int32_t d, __m256i dwords) {
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(dwords), _mm256_extracti128_si256(dwords, 1));
  uint8_t values[8];
  _mm_storel_epi64(reinterpret_cast<__m128i*>(values), _mm_packus_epi16(words, words));
  put(place, d, values);
}

[[gnu::always_inline]] inline __m256i nearest_ints(__m256 x) {  // as nearest_int()
  const __m256 magic = _mm256_set1_ps(0x1.8p23f);
  return _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(x, magic)), _mm256_castps_si256(magic));
}

struct Int8Code {
  static constexpr float kLargest = largest_code(KvType::kInt8);
  [[gnu::always_inline]] static __m256i of(__m256 x) {
    return _mm256_and_si256(nearest_ints(x), _mm256_set1_epi32(0xff));
  }
};

template <int kMantissa>
struct Fp8Code {  // as fp8_of()
  static constexpr float kLargest = largest_code(kMantissa == 3 ? KvType::kFp8E4m3 : KvType::kFp8E5m2);
  [[gnu::always_inline]] static __m256i of(__m256 x) {
    constexpr int kDrop = 23 - kMantissa, kAligner = (127 + 9 - kMantissa) << 23;
    const __m256i bits = _mm256_castps_si256(x), aligner = _mm256_set1_epi32(kAligner);
    const __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(magnitude, kDrop), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(_mm256_add_epi32(magnitude, _mm256_set1_epi32((1 << (kDrop - 1)) - 1)), odd);
    const __m256i normal = _mm256_sub_epi32(_mm256_srli_epi32(rounded, kDrop), _mm256_set1_epi32(112 << kMantissa));
    const __m256i subnormal = _mm256_sub_epi32(
        _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(magnitude), _mm256_castsi256_ps(aligner))), aligner);
    const __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x38800000), magnitude);
    const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 24), _mm256_set1_epi32(0x80));
    return _mm256_or_si256(sign,
                           _mm256_and_si256(_mm256_blendv_epi8(normal, subnormal, small), _mm256_set1_epi32(0xff)));
  }
};

/// All ones where |x| is infinite or NaN.
[[gnu::always_inline]] inline __m256i not_finite(__m256 x) {
  const __m256i magnitude = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
  return _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f7fffff));
}

template <class Code>
void write_scaled(const Place& place, const float* x, int32_t head_dim) {
  const __m256 sign = _mm256_set1_ps(-0.f);
  __m256 max8 = _mm256_setzero_ps();
  __m256i bad = _mm256_setzero_si256();
  for (int32_t d = 0; d < head_dim; d += 8) {
    const __m256 value = _mm256_loadu_ps(x + d);
    bad = _mm256_or_si256(bad, not_finite(value));
    max8 = _mm256_max_ps(_mm256_andnot_ps(sign, value), max8);
  }
  float* scale = reinterpret_cast<float*>(place.head + int64_t{head_dim} * kBlockTokens) + place.slot;
  if (!_mm256_testz_si256(bad, bad)) {
    *scale = __builtin_nanf("");
    for (int32_t d = 0; d < head_dim; d += 8) put_bytes(place, d, _mm256_setzero_si256());
    return;
  }
  const float max = avx2::max_lane(max8);
  *scale = max / Code::kLargest;
  const __m256 inverse = _mm256_set1_ps(max >= kTinyScale ? Code::kLargest / max : 0.f);
  for (int32_t d = 0; d < head_dim; d += 8)
    put_bytes(place, d, Code::of(_mm256_mul_ps(_mm256_loadu_ps(x + d), inverse)));
}

/// d and m of up to 32 values as f16, as f32, and d's inverse.
struct Int4Scale {
  uint16_t d, m;
  float low, inverse;
};

[[gnu::always_inline]] inline uint16_t half_of(float x) {
  return static_cast<uint16_t>(_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT), 0));
}
[[gnu::always_inline]] inline float float_of(uint16_t half) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}

Int4Scale int4_scale(const float* x, int32_t n) {
  __m256 high8 = _mm256_loadu_ps(x), low8 = high8;
  __m256i bad = not_finite(high8);
  for (int32_t i = 8; i < n; i += 8) {
    const __m256 value = _mm256_loadu_ps(x + i);
    bad = _mm256_or_si256(bad, not_finite(value));
    low8 = _mm256_min_ps(value, low8);
    high8 = _mm256_max_ps(value, high8);
  }
  if (!_mm256_testz_si256(bad, bad)) return {0x7e00, 0x7e00, 0.f, 0.f};
  const float high = avx2::max_lane(high8), low = -avx2::max_lane(avx2::negate(low8));
  const uint16_t d = half_of((high - low) / 15.f), m = half_of(low + 0.f);
  const float step = float_of(d);
  return {d, m, float_of(m), step > 0.f ? 1.f / step : 0.f};
}

/// Eight nibbles of values d .. d + 8, low one first, in the low bytes of four dwords.
[[gnu::always_inline]] inline uint32_t int4_codes(const float* x, const Int4Scale& scale) {
  const __m256 code =
      _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x), _mm256_set1_ps(scale.low)), _mm256_set1_ps(scale.inverse));
  const __m256 clipped = _mm256_min_ps(_mm256_max_ps(code, _mm256_setzero_ps()), _mm256_set1_ps(15.f));
  const __m256i ints = nearest_ints(clipped);
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(ints), _mm256_extracti128_si256(ints, 1));
  const __m128i pairs = _mm_madd_epi16(words, _mm_set1_epi32(1 | 16 << 16));  // low + 16 high
  const __m128i bytes = _mm_packus_epi16(_mm_packus_epi32(pairs, pairs), pairs);
  return static_cast<uint32_t>(_mm_cvtsi128_si32(bytes));
}

void write_int4(const Place& place, uint16_t* scales, int32_t group_stride, int32_t m_at, const float* x,
                int32_t head_dim) {
  for (int32_t begin = 0; begin < head_dim; begin += kInt4Group) {
    const int32_t end = begin + kInt4Group < head_dim ? begin + kInt4Group : head_dim;
    const Int4Scale scale = int4_scale(x + begin, end - begin);
    uint16_t* at = scales + begin / kInt4Group * group_stride;
    at[0] = scale.d;
    at[m_at] = scale.m;
    auto* bytes = reinterpret_cast<uint8_t*>(place.head) + place.slot * place.across;
    for (int32_t d = begin; d < end; d += 8) {
      const uint32_t codes = int4_codes(x + d, scale);
      for (int32_t i = 0; i < 4; ++i) bytes[(d / 2 + i) * place.along] = static_cast<uint8_t>(codes >> (8 * i));
    }
  }
}

void write_numbers(KvType type, const Place& place, const float* x, int32_t head_dim) {
  switch (type) {
    case KvType::kF16:
      return write_f16(place, x, head_dim);
    case KvType::kBf16:
      return write_bf16(place, x, head_dim);
    case KvType::kInt8:
      return write_scaled<Int8Code>(place, x, head_dim);
    case KvType::kFp8E4m3:
      return write_scaled<Fp8Code<3>>(place, x, head_dim);
    case KvType::kFp8E5m2:
      return write_scaled<Fp8Code<2>>(place, x, head_dim);
    default:
      return write_f32(place, x, head_dim);
  }
}

void write_k(const KvLayer& kv, std::byte* head, int32_t slot, const float* k) {
  const Place place{head, kBlockTokens, 1, slot};
  if (kv.types.k != KvType::kInt4) return write_numbers(kv.types.k, place, k, kv.head_dim);
  auto* scales = reinterpret_cast<uint16_t*>(head + kv_number_bytes(KvType::kInt4, kv.head_dim)) + slot;
  write_int4(place, scales, 2 * kBlockTokens, kBlockTokens, k, kv.head_dim);
}

void write_v(const KvLayer& kv, std::byte* head, int32_t slot, const float* v) {
  if (kv.types.v != KvType::kInt4) return write_numbers(kv.types.v, {head, 1, kv.head_dim, slot}, v, kv.head_dim);
  auto* scales = reinterpret_cast<uint16_t*>(head + kv_number_bytes(KvType::kInt4, kv.head_dim)) +
                 slot * 2 * div_ceil(kv.head_dim, kInt4Group);
  write_int4({head, 1, kv.head_dim / 2, slot}, scales, 2, 1, v, kv.head_dim);
}

// ---- expanding ----

void fetch(const std::byte* ahead, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(ahead + i, _MM_HINT_T1);
}

/// Eight bytes' low and high nibbles, times d plus m.
[[gnu::always_inline]] inline __m256 low_nibbles(__m256i bytes, __m256 d, __m256 m) {
  return _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(_mm256_and_si256(bytes, _mm256_set1_epi32(15))), m);
}
[[gnu::always_inline]] inline __m256 high_nibbles(__m256i bytes, __m256 d, __m256 m) {
  return _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(_mm256_srli_epi32(bytes, 4)), m);
}

void expand_int4_k(const std::byte* stored, int32_t head_dim, float* out) {
  const auto* codes = reinterpret_cast<const uint8_t*>(stored);
  const auto* scales = reinterpret_cast<const uint16_t*>(codes + int64_t{head_dim} * (kBlockTokens / 2));
  for (int32_t begin = 0; begin < head_dim; begin += kInt4Group, scales += 2 * kBlockTokens) {
    const int32_t end = begin + kInt4Group < head_dim ? begin + kInt4Group : head_dim;
    for (int32_t half = 0; half < kBlockTokens; half += 8) {
      const __m256 d8 = F16::load(scales + half), m8 = F16::load(scales + kBlockTokens + half);
      for (int32_t d = begin; d < end; d += 2) {
        const auto* at = reinterpret_cast<const __m128i*>(codes + d / 2 * kBlockTokens + half);
        const __m256i bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(at));
        _mm256_storeu_ps(out + d * kBlockTokens + half, low_nibbles(bytes, d8, m8));
        _mm256_storeu_ps(out + (d + 1) * kBlockTokens + half, high_nibbles(bytes, d8, m8));
      }
    }
  }
}

/// K = f(index in [Dh, 16], its slot 0 or 8, the bias there), eight tokens at a time; the bias is turned to the
/// positions of block number `block`.
template <class F>
[[gnu::always_inline]] inline void with_key_bias(const KvLayer& kv, int32_t kv_head, int32_t block, float* out,
                                                 const F& f) {
  const KeyBias& bias = kv.bias;
  const float* slots = bias.slots + int64_t{kv_head} * kv.head_dim * kBlockTokens;
  const float* turns = bias.turns + int64_t{block} * bias.rot;
  const int32_t apart = (bias.adjacent ? 1 : bias.rot / 2) * kBlockTokens;
  for (int32_t i = 0; i < bias.rot / 2; ++i) {
    const __m256 cos = _mm256_broadcast_ss(turns + 2 * i), sin = _mm256_broadcast_ss(turns + 2 * i + 1);
    const int32_t first = (bias.adjacent ? 2 * i : i) * kBlockTokens;
    for (int32_t half = 0; half < kBlockTokens; half += 8) {
      const int32_t a = first + half, b = a + apart;
      const __m256 x = _mm256_loadu_ps(slots + a), y = _mm256_loadu_ps(slots + b);
      _mm256_storeu_ps(out + a, f(a, half, _mm256_fmsub_ps(x, cos, _mm256_mul_ps(y, sin))));
      _mm256_storeu_ps(out + b, f(b, half, _mm256_fmadd_ps(x, sin, _mm256_mul_ps(y, cos))));
    }
  }
  for (int32_t i = bias.rot * kBlockTokens; i < kv.head_dim * kBlockTokens; i += 8)
    _mm256_storeu_ps(out + i, f(i, i % kBlockTokens, _mm256_loadu_ps(slots + i)));
}

template <class Type>
void expand_biased_k(const KvLayer& kv, int32_t kv_head, int32_t block, const std::byte* stored, float* out) {
  const auto* codes = reinterpret_cast<const typename Type::Stored*>(stored);
  const auto* scales = reinterpret_cast<const float*>(codes + int64_t{kv.head_dim} * kBlockTokens);
  const __m256 low = _mm256_loadu_ps(scales), high = _mm256_loadu_ps(scales + 8);
  with_key_bias(
      kv, kv_head, block, out, [=](int32_t at, int32_t half, __m256 bias) __attribute__((always_inline)) {
        return _mm256_fmadd_ps(Type::load(codes + at), half == 0 ? low : high, bias);
      });
}

}  // namespace

void kv_write_avx2(const KvLayer& kv, BlockId block, int32_t slot, const float* k, const float* v) {
  for (int32_t h = 0; h < kv.kv_heads; ++h) {
    write_k(kv, k_of(kv, block, h), slot, k + h * kv.head_dim);
    write_v(kv, v_of(kv, block, h), slot, v + h * kv.head_dim);
  }
}

void expand_k_avx2(const KvLayer& kv, int32_t kv_head, int32_t block, const std::byte* stored, const std::byte* ahead,
                   float* out) {
  fetch(ahead, kv_head_bytes(kv.types.k, kv.head_dim));
  switch (kv.types.k) {
    case KvType::kInt8:
      return expand_biased_k<Int8>(kv, kv_head, block, stored, out);
    case KvType::kFp8E4m3:
      return expand_biased_k<E4m3>(kv, kv_head, block, stored, out);
    case KvType::kFp8E5m2:
      return expand_biased_k<E5m2>(kv, kv_head, block, stored, out);
    default:
      break;
  }
  expand_int4_k(stored, kv.head_dim, out);
  if (kv.bias.slots != nullptr)
    with_key_bias(
        kv, kv_head, block, out, [=](int32_t at, int32_t, __m256 bias) __attribute__((always_inline)) {
          return _mm256_add_ps(_mm256_loadu_ps(out + at), bias);
        });
}

void expand_v_avx2(const KvLayer& kv, const std::byte* stored, const std::byte* ahead, float* out) {
  fetch(ahead, kv_head_bytes(KvType::kInt4, kv.head_dim));
  const int32_t groups = div_ceil(kv.head_dim, kInt4Group);
  const auto* scales = reinterpret_cast<const uint16_t*>(stored + kv_number_bytes(KvType::kInt4, kv.head_dim));
  const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  for (int32_t slot = 0; slot < kBlockTokens; ++slot) {
    for (int32_t g = 0; g < groups; ++g, scales += 2) {
      const __m256 d8 = _mm256_set1_ps(float_of(scales[0])), m8 = _mm256_set1_ps(float_of(scales[1]));
      const int32_t end = (g + 1) * kInt4Group < kv.head_dim ? (g + 1) * kInt4Group : kv.head_dim;
      for (int32_t d = g * kInt4Group; d < end; d += 8) {
        int eight;
        __builtin_memcpy(&eight, stored + (slot * kv.head_dim + d) / 2, sizeof eight);
        _mm256_storeu_ps(out + slot * kv.head_dim + d,
                         low_nibbles(_mm256_srlv_epi32(_mm256_set1_epi32(eight), shifts), d8, m8));
      }
    }
  }
}

}  // namespace pagoda::kernels
