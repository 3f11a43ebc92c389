#include "core/huge_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace pagoda {
namespace {
constexpr int64_t kHugePage = int64_t{2} << 20;
}

Result<HugeBuffer> HugeBuffer::allocate(int64_t bytes) {
  PAGODA_CHECK(bytes >= 0);
  HugeBuffer buffer;
  if (bytes == 0) return buffer;
  // One page more than needed, so that a 2 MiB-aligned run of the right size lies inside; the ends are given back.
  const int64_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* raw = ::mmap(nullptr, static_cast<size_t>(rounded + kHugePage), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED)
    return Error{Code::kIo, fmt::format("cannot reserve {} bytes of memory: {}", bytes, std::strerror(errno))};
  auto* start = static_cast<std::byte*>(raw);
  const auto misaligned = static_cast<int64_t>(reinterpret_cast<uintptr_t>(start) % kHugePage);
  const int64_t head = misaligned ? kHugePage - misaligned : 0;
  if (head) ::munmap(start, static_cast<size_t>(head));
  if (kHugePage - head) ::munmap(start + head + rounded, static_cast<size_t>(kHugePage - head));
  buffer.data_ = start + head;
  buffer.bytes_ = rounded;
  ::madvise(buffer.data_, static_cast<size_t>(rounded), MADV_HUGEPAGE);  // a wish: refusal costs speed only
  return buffer;
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

HugeBuffer::~HugeBuffer() {
  if (data_) ::munmap(data_, static_cast<size_t>(bytes_));
}

}  // namespace pagoda
