#pragma once

namespace pagoda {

/// Whether this program is instrumented: everything takes several times as long, stack frames are larger.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace pagoda
