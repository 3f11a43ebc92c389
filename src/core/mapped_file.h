#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "core/result.h"

namespace pagoda {

/// A whole file mapped read-only; unmapped with the object. An empty file maps to an empty span.
class MappedFile {
 public:
  /// Errors: kNotFound, or kIo with the system's reason. The message names the file, not its folder.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// Tells the kernel that the pages under `part` will not be read again soon (they leave the page tables, not the
  /// cache).
  void release(std::span<const std::byte> part) const;

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// The last component of a path: what error messages may show.
std::string file_name(const std::string& path);

}  // namespace pagoda
