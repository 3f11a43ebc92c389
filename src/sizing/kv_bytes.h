#pragma once
#include <cstdint>
#include <span>

#include "sizing/roofline.h"

namespace pagoda::sizing {

/// Bytes of K and V of one token of one layer. A head's Dh numbers take bits / 8 bytes each; a scale (with its minimum)
/// is stored once for every `scale_values` of them, or once a head:
///
///   Hkv ((Dh k.bits / 8 + ceil(Dh / k.scale_values) k.scale_bytes) + the same of V)
///
/// | type | bits | scale | bytes a head at Dh = 128 | of f16 |
/// | f32 | 32 | - | 512 | 2 |
/// | f16, bf16 | 16 | - | 256 | 1 |
/// | int8, fp8 | 8 | 4 a head | 132 | 0.516 |
/// | int4 | 4 | 2 + 2 for 32 | 80 | 0.313 |
int64_t kv_token_bytes(const AttentionShape& layer, const KvNumbers& k, const KvNumbers& v);

/// The same over all layers, whatever their windows: a block holds the same tokens of every layer.
int64_t kv_token_bytes(std::span<const AttentionShape> layers, const KvNumbers& k, const KvNumbers& v);

/// K and V that a sequence of so many tokens needs at its most, computed in steps of `step_tokens`, where layers with a
/// window free what they do not see any more: sum over layers of kv_token_bytes min(tokens, window + step_tokens).
int64_t kv_sequence_bytes(std::span<const AttentionShape> layers, const KvNumbers& k, const KvNumbers& v,
                          int32_t tokens, int32_t step_tokens);

}  // namespace pagoda::sizing
