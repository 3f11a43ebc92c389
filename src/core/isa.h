#pragma once
#include <cstdint>
#include <string>

#include "core/result.h"

namespace pagoda::isa {

/// Instruction sets as a bit set. A kernel states what it needs; dispatch compares.
enum : uint32_t {
  kNone = 0,
  kAvx2 = 1u << 0,
  kFma = 1u << 1,
  kF16c = 1u << 2,
  kAvx512 = 1u << 3,  // F, BW, DQ, VL and the operating system saves zmm (XCR0)
  kVnni = 1u << 4,
  kNeon = 1u << 5,
};

inline constexpr uint32_t kLevelPortable = kNone;
inline constexpr uint32_t kLevelAvx2 = kAvx2 | kFma | kF16c;
inline constexpr uint32_t kLevelAvx512 = kLevelAvx2 | kAvx512 | kVnni;

[[gnu::always_inline]] inline bool covers(uint32_t have, uint32_t need) { return (have & need) == need; }

/// What this CPU and operating system can run.
uint32_t detected();

/// The level to use: `name` is "", "portable", "avx2" or "avx512" ("" = the best detected).
/// An unknown level, or one this CPU lacks, is an error that lists the valid ones.
Result<uint32_t> level(const std::string& name);

/// level(PAGODA_ISA from the environment).
Result<uint32_t> level_from_environment();

/// "portable", "avx2" or "avx512": the highest level that `have` covers.
const char* level_name(uint32_t have);

}  // namespace pagoda::isa
