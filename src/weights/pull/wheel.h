#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "core/result.h"

namespace pagoda::weights {

/// Takes the next bytes of a member; an error ends the extraction.
using ByteSink = std::function<Status(std::span<const std::byte>)>;

/// Streams one member of a wheel (a zip archive: stored or deflated members, no zip64, no encryption) into `sink`, in
/// pieces of at most 1 MiB, and compares size and CRC-32 with the archive's directory.
///
/// Source: PKWARE APPNOTE 6.3.10, sections 4.3.7, 4.3.12, 4.3.16. Errors: kNotFound (no such member), kCorruptFile,
/// kUnsupported, and the sink's own.
Status extract_member(const std::string& wheel_path, const std::string& member, const ByteSink& sink);

}  // namespace pagoda::weights
