#pragma once
#include <cstddef>
#include <cstdint>

#include "core/result.h"

namespace pagoda {

/// Anonymous zero memory in whole 2 MiB pages where the kernel grants them. Nothing is touched here: the first
/// write of a page commits it, so the thread that will read it should be the one that fills it.
class HugeBuffer {
 public:
  HugeBuffer() = default;

  /// bytes >= 0. Error kIo when the address space is refused, with the size asked for.
  static Result<HugeBuffer> allocate(int64_t bytes);

  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;
  ~HugeBuffer();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace pagoda
