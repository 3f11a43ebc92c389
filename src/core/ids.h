#pragma once
#include <cstdint>

namespace pagoda {

using TokenId = int32_t;  // index into a vocabulary; -1 = none
inline constexpr TokenId kNoToken = -1;

enum class SeqId : uint64_t {};    // one sequence (one choice of one request), never reused
enum class BlockId : uint32_t {};  // one KV block of kBlockTokens tokens

inline constexpr int32_t kBlockTokens = 16;   // Bt: tokens in a KV block, on every backend
inline constexpr int32_t kChunkTokens = 256;  // attention merges partial results at multiples of this

[[gnu::always_inline]] constexpr int32_t div_ceil(int32_t a, int32_t b) { return (a + b - 1) / b; }
[[gnu::always_inline]] constexpr int64_t div_ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
[[gnu::always_inline]] constexpr int64_t round_up(int64_t a, int64_t b) { return div_ceil(a, b) * b; }

}  // namespace pagoda
