#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "core/result.h"

namespace pagoda::weights {

/// SHA-256 of a file, lower-case hex. `on_bytes` hears the bytes hashed so far about every 16 MiB; may be empty.
/// Errors: kNotFound, kIo, kCancelled when `stop` became true.
Result<std::string> sha256_of_file(const std::string& path, const std::atomic<bool>& stop,
                                   const std::function<void(int64_t)>& on_bytes);

}  // namespace pagoda::weights
