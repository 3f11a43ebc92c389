#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/result.h"

namespace pagoda::weights {

/// A file that grows at its end; closed with the object. A full disk is an error that says so.
class AppendFile {
 public:
  /// Creates the file (mode 0644) or goes on at its end.
  static Result<AppendFile> open(const std::string& path);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();

  int64_t bytes() const { return bytes_; }
  Status append(std::span<const std::byte> piece);
  Status truncate(int64_t bytes);
  /// What was written survives a power cut once this returns.
  Status sync();

 private:
  AppendFile(int fd, int64_t bytes) : fd_(fd), bytes_(bytes) {}
  int fd_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace pagoda::weights
