#pragma once
#include <cstddef>
#include <cstdint>

#include "core/ids.h"
#include "core/isa.h"
#include "core/tensor_view.h"

namespace pagoda::kernels {

/// How K and V are stored. f16 is the default; layouts are those of DESIGN, Numerics.
enum class KvType : uint8_t { kF16, kF32 };

/// Bytes of one block of one layer: K [Hkv, Dh, 16], then V [Hkv, 16, Dh].
int64_t kv_block_bytes(KvType type, int32_t kv_heads, int32_t head_dim);

/// The KV blocks of one layer: block b of the pool starts at base + b * block_stride_bytes.
struct KvLayer {
  KvType type;
  int32_t kv_heads;  // Hkv
  int32_t head_dim;  // Dh, a multiple of 8
  std::byte* base;   // 64-byte aligned
  int64_t block_stride_bytes;
};

/// Writes K and V of one token into its block.
///
///   k, v   [Hkv, Dh] f32, rope applied; rounded to the KV type, to nearest even
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
///   scratch   attention_scratch_bytes(Dh) bytes per thread, 64-byte aligned
///
/// Source: Dao et al. 2022, arXiv:2205.14135 (online softmax); Kwon et al. 2023, arXiv:2309.06180 (paging).
/// Cost: reads each visible K and V once per call for all its query heads (and row tile); 4 Dh flops a (query, key,
/// head).
using AttentionFn = void (*)(const KvLayer& kv, const AttentionArgs& args, std::byte* scratch);

int64_t attention_scratch_bytes(int32_t head_dim);

KvWriteFn select_kv_write(uint32_t have);
AttentionFn select_attention(uint32_t have);

}  // namespace pagoda::kernels
