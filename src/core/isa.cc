#include "core/isa.h"

#include <fmt/format.h>

#include <cstdlib>

namespace pagoda::isa {
namespace {

std::string available_levels() {
  std::string names = "portable";
  if (covers(detected(), kLevelAvx2)) names += ", avx2";
  if (covers(detected(), kLevelAvx512)) names += ", avx512";
  return names;
}

}  // namespace

uint32_t detected() {
  uint32_t have = kNone;
#if defined(__x86_64__)
  __builtin_cpu_init();
  // libgcc checks XCR0 for the vector state before it reports avx2 or avx512.
  if (__builtin_cpu_supports("avx2")) have |= kAvx2;
  if (__builtin_cpu_supports("fma")) have |= kFma;
  if (__builtin_cpu_supports("f16c")) have |= kF16c;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    have |= kAvx512;
  if (__builtin_cpu_supports("avx512vnni")) have |= kVnni;
#endif
  return have;
}

Result<uint32_t> level(const std::string& name) {
  if (name.empty()) return detected();
  uint32_t need = kNone;
  if (name == "avx2") {
    need = kLevelAvx2;
  } else if (name == "avx512") {
    need = kLevelAvx512;
  } else if (name != "portable") {
    return Error{Code::kInvalidRequest, fmt::format("PAGODA_ISA is '{}', valid here: {}", name, available_levels()),
                 "PAGODA_ISA"};
  }
  if (!covers(detected(), need))
    return Error{Code::kUnsupported,
                 fmt::format("PAGODA_ISA is '{}', which this CPU lacks; valid here: {}", name, available_levels()),
                 "PAGODA_ISA"};
  return need;
}

Result<uint32_t> level_from_environment() {
  const char* name = std::getenv("PAGODA_ISA");
  return level(name ? name : "");
}

const char* level_name(uint32_t have) {
  if (covers(have, kLevelAvx512)) return "avx512";
  if (covers(have, kLevelAvx2)) return "avx2";
  return "portable";
}

}  // namespace pagoda::isa
