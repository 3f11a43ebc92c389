#pragma once
#include <cstddef>
#include <cstdint>

#include "core/ids.h"
#include "core/isa.h"
#include "core/tensor_view.h"

namespace pagoda::kernels {

/// How K or V is stored. Everything but f32, f16 and bf16 is quantized a token at a time, from that token's own values:
///
///   int8       q s, s = max|x| / 127 of the token and head, f32
///   fp8 e4m3   q s, s = max|x| / 1.75: the byte's bits read as a binary16 (exponent bias 15), so up to 1.75
///   fp8 e5m2   q s, s = max|x| / 57344
///   int4       q d + m for each 32 values of the token and head, q in 0..15, d = (max - min) / 15 and m = min as f16
///
/// f32 scales make a head of a block one line of 64 bytes longer, 3 % at Dh = 128; f16 ones would need rows that cannot
/// overflow. A token with a value that is not finite reads as NaN.
enum class KvType : uint8_t { kF16, kF32, kBf16, kInt8, kFp8E4m3, kFp8E5m2, kInt4 };

/// K and V are chosen apart.
struct KvTypes {
  KvType k = KvType::kF16;
  KvType v = KvType::kF16;
  constexpr KvTypes() = default;
  constexpr KvTypes(KvType both) : k(both), v(both) {}
  constexpr KvTypes(KvType k_type, KvType v_type) : k(k_type), v(v_type) {}
};

[[gnu::always_inline]] constexpr bool is_quantized(KvType type) { return type >= KvType::kInt8; }

/// Bytes of one block of one layer: K of each head, then V of each head. A head's K and V:
///
///   f32 f16 bf16   K [Dh, 16]                        V [16, Dh]
///   int8 fp8       K [Dh, 16], f32 scales [16]       V [16, Dh], f32 scales [16]
///   int4           K [Dh/2, 16], f16 [Dh/32, 2, 16]  V [16, Dh/2], f16 [16, Dh/32, 2]: d, then m; low nibble first
///
/// A lane is a token in K and a value in V. DESIGN's [Dh/4, 16, 4] is for int8 queries; ours are f32.
int64_t kv_block_bytes(KvTypes types, int32_t kv_heads, int32_t head_dim);

/// The roped bias of K, kept out of what is stored and added when K is read: a few of its values are so large that
/// they would set every token's scale (qwen2). Position 16 m + s has R(16 m) R(s) bias: the second turn is in `slots`.
struct KeyBias {
  const float* slots = nullptr;  // [Hkv, Dh, 16] bias turned to positions 0..15; null = K is stored as it is
  const float* turns = nullptr;  // [blocks, rot/2, 2] cos and sin of 16 m times the frequency
  int32_t rot = 0;               // leading values of a head that rotate, even
  bool adjacent = false;         // pairs (2i, 2i+1) instead of (i, i + rot/2)
};

/// The KV blocks of one layer: block b of the pool starts at base + b * block_stride_bytes.
struct KvLayer {
  KvTypes types;
  int32_t kv_heads;  // Hkv
  int32_t head_dim;  // Dh, a multiple of 8
  std::byte* base;   // 64-byte aligned
  int64_t block_stride_bytes;
  KeyBias bias{};     // for quantized K only
  int32_t table = 0;  // which of a sequence's block tables its blocks are in
};

/// Writes K and V of one token into its block.
///
///   k, v   [Hkv, Dh] f32, rope applied, K without its bias where the layer has a KeyBias; rounded to nearest even
///   block, slot   where the token lives; slot in [0, 16)
using KvWriteFn = void (*)(const KvLayer& kv, BlockId block, int32_t slot, const float* k, const float* v);

/// Causal attention of some consecutive tokens of one sequence, for the query heads that share one KV head.
struct AttentionArgs {
  const float* q;  // row t, head h at q + t * q_stride + h * Dh; rope applied
  int64_t q_stride;
  float* out;  // same shape, rows out_stride apart
  int64_t out_stride;
  int32_t rows;        // query tokens, >= 1
  int32_t position;    // absolute position of the first; its own K and V are in the cache already
  int32_t head_begin;  // query heads [head_begin, head_end) read KV head `kv_head`
  int32_t head_end;
  int32_t kv_head;
  const BlockId* block_table;  // block i holds positions [16 i, 16 i + 16)
  float scale;                 // scores are q.k * scale
  int32_t window;              // position p sees (p - window, p]; 0 = everything up to p
  float softcap;               // c tanh(score / c) before the mask; 0 = none
};

/// The one attention (chunks of 256 tokens at absolute multiples, merged in ascending order: DESIGN, Numerics). A
/// prefill tile and a decode row run the same chain, so chunking, batching and threads change no bit.
///
/// Quantized K and V: scores are q.k_q times the token's scale, probabilities are multiplied by V's scale once. int4,
/// and K with a bias b, are expanded to f32 tile by tile first: fma(d, q, m) + b, fma(q, s, b).
///
///   scratch   attention_scratch_bytes(Dh, ...) bytes per thread, 64-byte aligned
///
/// Source: Dao et al. 2022, arXiv:2205.14135 (online softmax); Kwon et al. 2023, arXiv:2309.06180 (paging).
/// Cost: reads each visible K and V once per call for all its query heads (and row tile); 4 Dh flops a (query, key,
/// head).
using AttentionFn = void (*)(const KvLayer& kv, const AttentionArgs& args, std::byte* scratch);

/// `expands`: some layer's K or V is expanded (attention_expands).
int64_t attention_scratch_bytes(int32_t head_dim, bool expands = false);
bool attention_expands(KvTypes types, bool k_bias);

KvWriteFn select_kv_write(uint32_t have);
AttentionFn select_attention(uint32_t have);

}  // namespace pagoda::kernels
