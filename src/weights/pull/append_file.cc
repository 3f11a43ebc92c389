#include "weights/pull/append_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/mapped_file.h"

namespace pagoda::weights {
namespace {

Error system_error(std::string_view what) {
  const int reason = errno;
  if (reason == ENOSPC || reason == EDQUOT) return Error{Code::kIo, fmt::format("disk full: cannot {}", what)};
  return Error{Code::kIo, fmt::format("cannot {}: {}", what, std::strerror(reason))};
}

}  // namespace

Result<AppendFile> AppendFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return system_error("open " + file_name(path));
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return Error{Code::kIo, fmt::format("cannot write {}: not a regular file", file_name(path))};
  }
  return AppendFile(fd, info.st_size);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), bytes_(std::exchange(other.bytes_, 0)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status AppendFile::append(std::span<const std::byte> piece) {
  while (!piece.empty()) {
    const ssize_t written = ::write(fd_, piece.data(), piece.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(fmt::format("write after {} bytes", bytes_));
    bytes_ += written;
    piece = piece.subspan(static_cast<size_t>(written));
  }
  return ok_status();
}

Status AppendFile::truncate(int64_t bytes) {
  if (::ftruncate(fd_, bytes) != 0) return system_error("shorten the file");
  bytes_ = bytes;
  return ok_status();
}

Status AppendFile::sync() {
  if (::fsync(fd_) != 0) return system_error("sync the file");
  return ok_status();
}

}  // namespace pagoda::weights
