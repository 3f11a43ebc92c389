#include "weights/pull/wheel.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/mapped_file.h"
#include "weights/gguf_parse.h"

namespace pagoda::weights {
namespace {

using Bytes = std::span<const std::byte>;
constexpr size_t kPiece = size_t{1} << 20;
constexpr uint32_t kEndSignature = 0x06054b50, kDirectorySignature = 0x02014b50, kLocalSignature = 0x04034b50;
constexpr size_t kEndBytes = 22, kDirectoryBytes = 46, kLocalBytes = 30, kCommentMax = 65535;
constexpr uint16_t kStored = 0, kDeflated = 8, kEncrypted = 1;
constexpr uint32_t kZip64 = 0xffffffff;

Error corrupt(std::string message) { return Error{Code::kCorruptFile, "wheel: " + std::move(message)}; }

// The caller has checked that at + sizeof(T) lies inside.
template <class T>
T load(Bytes bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

struct Member {
  uint16_t method;
  uint32_t crc;
  Bytes packed;
  size_t size;
};

// Offset of the end-of-directory record, sought from the end backwards over a possible comment.
Result<size_t> find_end(Bytes zip) {
  if (zip.size() < kEndBytes) return corrupt(fmt::format("{} bytes are no zip archive", zip.size()));
  const size_t last = zip.size() - kEndBytes, first = last > kCommentMax ? last - kCommentMax : 0;
  for (size_t at = last + 1; at-- > first;)
    if (load<uint32_t>(zip, at) == kEndSignature) return at;
  return corrupt("the archive's directory is missing");
}

// The compressed bytes behind the local header at `offset`.
Result<Bytes> packed_bytes(Bytes zip, size_t offset, size_t packed_size) {
  if (offset > zip.size() || zip.size() - offset < kLocalBytes || load<uint32_t>(zip, offset) != kLocalSignature)
    return corrupt(fmt::format("no member at offset {}", offset));
  const size_t start = offset + kLocalBytes + load<uint16_t>(zip, offset + 26) + load<uint16_t>(zip, offset + 28);
  if (start > zip.size() || packed_size > zip.size() - start)
    return corrupt(
        fmt::format("a member of {} bytes at offset {} lies past the end {}", packed_size, start, zip.size()));
  return zip.subspan(start, packed_size);
}

Result<Member> find_member(Bytes zip, std::string_view name) {
  PAGODA_TRY(const size_t end, find_end(zip));
  const auto entries = load<uint16_t>(zip, end + 10);
  size_t at = load<uint32_t>(zip, end + 16);
  for (uint32_t i = 0; i < entries; ++i) {
    if (at > zip.size() || zip.size() - at < kDirectoryBytes || load<uint32_t>(zip, at) != kDirectorySignature)
      return corrupt(fmt::format("directory entry {} of {} is damaged", i, entries));
    const size_t name_bytes = load<uint16_t>(zip, at + 28);
    const size_t entry_bytes =
        kDirectoryBytes + name_bytes + load<uint16_t>(zip, at + 30) + load<uint16_t>(zip, at + 32);
    if (entry_bytes > zip.size() - at) return corrupt(fmt::format("directory entry {} lies past the end", i));
    const std::string_view entry_name(reinterpret_cast<const char*>(zip.data() + at + kDirectoryBytes), name_bytes);
    if (entry_name == name) {
      const auto packed_size = load<uint32_t>(zip, at + 20), size = load<uint32_t>(zip, at + 24);
      const auto offset = load<uint32_t>(zip, at + 42);
      if (load<uint16_t>(zip, at + 8) & kEncrypted) return Error{Code::kUnsupported, "wheel: the member is encrypted"};
      if (packed_size == kZip64 || size == kZip64 || offset == kZip64)
        return Error{Code::kUnsupported, "wheel: members of 4 GiB or more are not read"};
      PAGODA_TRY(const Bytes packed, packed_bytes(zip, offset, packed_size));
      return Member{load<uint16_t>(zip, at + 10), load<uint32_t>(zip, at + 16), packed, size};
    }
    at += entry_bytes;
  }
  return Error{Code::kNotFound, fmt::format("wheel: no member {}", printable(name))};
}

/// Counts and checks what reaches the sink.
class CheckedSink {
 public:
  CheckedSink(const Member& member, const ByteSink& sink) : member_(member), sink_(sink) {}

  Status take(Bytes piece) {
    if (piece.size() > member_.size - taken_)
      return corrupt(fmt::format("the member is longer than the {} bytes announced", member_.size));
    taken_ += piece.size();
    crc_ = ::crc32(crc_, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
    return sink_(piece);
  }
  Status finish() const {
    if (taken_ != member_.size)
      return corrupt(fmt::format("the member has {} bytes, announced were {}", taken_, member_.size));
    if (static_cast<uint32_t>(crc_) != member_.crc)
      return corrupt(fmt::format("the member's CRC-32 is {:08x}, must be {:08x}", crc_, member_.crc));
    return ok_status();
  }

 private:
  const Member& member_;
  const ByteSink& sink_;
  size_t taken_ = 0;
  uLong crc_ = ::crc32(0, nullptr, 0);
};

Status copy_stored(const Member& member, CheckedSink& sink) {
  for (size_t at = 0; at < member.packed.size(); at += kPiece)
    PAGODA_TRY_STATUS(sink.take(member.packed.subspan(at, std::min(kPiece, member.packed.size() - at))));
  return ok_status();
}

/// zlib's state, freed on every path.
struct Inflater {
  z_stream stream{};
  bool ready = ::inflateInit2(&stream, -MAX_WBITS) == Z_OK;  // raw deflate, as in zip
  ~Inflater() {
    if (ready) ::inflateEnd(&stream);
  }
};

Status inflate(const Member& member, CheckedSink& sink) {
  Inflater inflater;
  if (!inflater.ready) return Error{Code::kIo, "zlib could not start"};
  std::vector<std::byte> out(kPiece);
  z_stream& z = inflater.stream;
  z.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(member.packed.data()));
  z.avail_in = static_cast<uInt>(member.packed.size());  // below 4 GiB: no zip64
  for (int state = Z_OK; state != Z_STREAM_END;) {
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(out.size());
    state = ::inflate(&z, Z_NO_FLUSH);
    if (state != Z_OK && state != Z_STREAM_END)
      return corrupt(fmt::format("the member does not inflate: {}", z.msg ? z.msg : "it is truncated"));
    PAGODA_TRY_STATUS(sink.take(Bytes(out).first(out.size() - z.avail_out)));
  }
  return ok_status();
}

}  // namespace

Status extract_member(const std::string& wheel_path, const std::string& member_name, const ByteSink& sink) {
  PAGODA_TRY(const MappedFile file, MappedFile::open(wheel_path));
  PAGODA_TRY(const Member member, find_member(file.bytes(), member_name));
  CheckedSink checked(member, sink);
  if (member.method == kStored) {
    PAGODA_TRY_STATUS(copy_stored(member, checked));
  } else if (member.method == kDeflated) {
    PAGODA_TRY_STATUS(inflate(member, checked));
  } else {
    return Error{Code::kUnsupported, fmt::format("wheel: compression method {} is not read", member.method)};
  }
  return checked.finish();
}

}  // namespace pagoda::weights
