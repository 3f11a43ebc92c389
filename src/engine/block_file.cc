#include "engine/block_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace pagoda::engine {
namespace {

constexpr std::array<char, 8> kMagic{'P', 'A', 'G', 'O', 'D', 'A', 'K', 'V'};
constexpr size_t kVersionAt = 8, kHeaderBytesAt = 12, kPayloadBytesAt = 16, kBlockTokensAt = 24, kIndexAt = 28,
                 kFingerprintAt = 32, kSpaceAt = 64, kParentAt = 96, kPathAt = 128, kTokensAt = 160,
                 kPayloadChecksumAt = 224, kHeaderChecksumAt = 248;
static_assert(kTokensAt + 4 * kBlockTokens == kPayloadChecksumAt && kHeaderChecksumAt + 8 == kBlockHeaderBytes);

using Header = std::array<std::byte, kBlockHeaderBytes>;

template <class T>
void put(Header& header, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) header[at + i] = static_cast<std::byte>(uint64_t{value} >> (8 * i) & 0xFF);
}
template <class T>
T get(const Header& header, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= std::to_integer<uint64_t>(header[at + i]) << (8 * i);
  return static_cast<T>(value);
}
void put(Header& header, size_t at, const Digest& digest) { std::memcpy(&header[at], digest.bytes.data(), 32); }
Digest get_digest(const Header& header, size_t at) {
  Digest digest;
  std::memcpy(digest.bytes.data(), &header[at], 32);
  return digest;
}

uint64_t header_checksum(const Header& header) { return block_checksum(std::span(header).first(kHeaderChecksumAt)); }

Header make_header(const Digest& fingerprint, const BlockName& name, std::span<const std::byte> payload) {
  Header header{};
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  put(header, kVersionAt, kBlockFileVersion);
  put(header, kHeaderBytesAt, static_cast<uint32_t>(kBlockHeaderBytes));
  put(header, kPayloadBytesAt, uint64_t{payload.size()});
  put(header, kBlockTokensAt, static_cast<uint32_t>(kBlockTokens));
  put(header, kIndexAt, static_cast<uint32_t>(name.index));
  put(header, kFingerprintAt, fingerprint);
  put(header, kSpaceAt, name.space);
  put(header, kParentAt, name.parent);
  put(header, kPathAt, name.path);
  for (size_t i = 0; i < name.tokens.size(); ++i) put(header, kTokensAt + 4 * i, static_cast<uint32_t>(name.tokens[i]));
  put(header, kPayloadChecksumAt, block_checksum(payload));
  put(header, kHeaderChecksumAt, header_checksum(header));
  return header;
}

/// A file of ours, of this version, with a header that nobody changed.
BlockFault parse_header(const Header& header, BlockFileInfo& info) {
  if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0) return BlockFault::kDamaged;
  if (get<uint64_t>(header, kHeaderChecksumAt) != header_checksum(header)) return BlockFault::kDamaged;
  if (get<uint32_t>(header, kVersionAt) != kBlockFileVersion ||
      get<uint32_t>(header, kHeaderBytesAt) != kBlockHeaderBytes ||
      get<uint32_t>(header, kBlockTokensAt) != static_cast<uint32_t>(kBlockTokens))
    return BlockFault::kForeign;
  info.fingerprint = get_digest(header, kFingerprintAt);
  info.name.space = get_digest(header, kSpaceAt);
  info.name.parent = get_digest(header, kParentAt);
  info.name.path = get_digest(header, kPathAt);
  info.name.index = static_cast<int32_t>(get<uint32_t>(header, kIndexAt));
  for (size_t i = 0; i < info.name.tokens.size(); ++i)
    info.name.tokens[i] = static_cast<TokenId>(get<uint32_t>(header, kTokensAt + 4 * i));
  info.payload_bytes = static_cast<int64_t>(get<uint64_t>(header, kPayloadBytesAt));
  info.checksum = get<uint64_t>(header, kPayloadChecksumAt);
  return BlockFault::kNone;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_;
};

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote == 0) errno = ENOSPC;
    if (wrote <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  return true;
}

BlockFault read_all(int fd, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return BlockFault::kUnreadable;
    if (got == 0) return BlockFault::kTruncated;
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return BlockFault::kNone;
}

/// Opens, judges the size against the header's word, and leaves the descriptor at the payload.
BlockFault open_block(const Descriptor& file, BlockFileInfo& info) {
  if (file.get() < 0) return errno == ENOENT || errno == ENOTDIR ? BlockFault::kAbsent : BlockFault::kUnreadable;
  struct stat about {};
  if (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return BlockFault::kUnreadable;
  Header header;
  if (const BlockFault fault = read_all(file.get(), header); fault != BlockFault::kNone) return fault;
  if (const BlockFault fault = parse_header(header, info); fault != BlockFault::kNone) return fault;
  if (about.st_size - static_cast<off_t>(kBlockHeaderBytes) != info.payload_bytes) return BlockFault::kTruncated;
  return BlockFault::kNone;
}

int open_to_read(const std::string& path) { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW); }

}  // namespace

const char* fault_name(BlockFault fault) {
  constexpr std::array<const char*, 6> kNames{"none", "absent", "unreadable", "truncated", "damaged", "foreign"};
  return kNames.at(static_cast<size_t>(fault));
}

/// Eight lanes, word w in lane w mod 8, each step a bijection of lane and word: a changed word changes its lane, and
/// a changed lane the sum. The tail is padded with zeros, the length goes in at the end.
uint64_t block_checksum(std::span<const std::byte> bytes) {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15ull;
  std::array<uint64_t, 8> lanes{1, 2, 3, 4, 5, 6, 7, 8};
  const auto step = [&lanes](const std::byte* line) {
    for (size_t lane = 0; lane < 8; ++lane) {
      uint64_t word;
      std::memcpy(&word, line + 8 * lane, 8);
      lanes[lane] = std::rotl((lanes[lane] ^ word) * kOdd, 29);
    }
  };
  size_t at = 0;
  for (; at + 64 <= bytes.size(); at += 64) step(bytes.data() + at);
  if (at < bytes.size()) {
    std::array<std::byte, 64> rest{};
    std::memcpy(rest.data(), bytes.data() + at, bytes.size() - at);
    step(rest.data());
  }
  uint64_t sum = bytes.size();
  for (const uint64_t lane : lanes) {
    sum = (sum ^ lane) * kOdd;
    sum ^= sum >> 32;
  }
  return sum;
}

std::string block_file_name(const BlockName& name) {
  const std::string own = hex(name.path, 20);
  return own.substr(0, 2) + "/" + own + "-" + hex(name.parent, 8) + ".kv";
}

Status write_block_file(const std::string& path, const std::string& temporary, const Digest& fingerprint,
                        const BlockName& name, std::span<const std::byte> payload) {
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  const auto failed = [&](const char* what) {
    Error error{Code::kIo, fmt::format("cannot {} a KV block: {}", what, std::strerror(errno))};
    if (file.get() >= 0 || std::strcmp(what, "create") != 0) ::unlink(temporary.c_str());
    return error;
  };
  if (file.get() < 0) return failed("create");
  if (!write_all(file.get(), make_header(fingerprint, name, payload)) || !write_all(file.get(), payload))
    return failed("write");
  if (!file.close()) return failed("close");
  if (::rename(temporary.c_str(), path.c_str()) != 0) return failed("rename");
  return ok_status();
}

BlockFault read_block_file(const std::string& path, const Digest& fingerprint, const BlockName& name,
                           std::span<std::byte> payload) {
  const Descriptor file(open_to_read(path));
  BlockFileInfo info{};
  if (const BlockFault fault = open_block(file, info); fault != BlockFault::kNone) return fault;
  if (info.fingerprint != fingerprint || info.name != name ||
      info.payload_bytes != static_cast<int64_t>(payload.size()))
    return BlockFault::kForeign;
  if (const BlockFault fault = read_all(file.get(), payload); fault != BlockFault::kNone) return fault;
  if (block_checksum(payload) != info.checksum) return BlockFault::kDamaged;
  ::futimens(file.get(), nullptr);  // fails on a read-only disk, where nothing is evicted either
  return BlockFault::kNone;
}

BlockFileCheck inspect_block_file(const std::string& path) {
  const Descriptor file(open_to_read(path));
  BlockFileInfo info{};
  const BlockFault fault = open_block(file, info);
  if (fault != BlockFault::kNone) return {fault, std::nullopt};
  return {fault, info};
}

BlockFileCheck verify_block_file(const std::string& path, const Digest& fingerprint) {
  const Descriptor file(open_to_read(path));
  BlockFileInfo info{};
  if (const BlockFault fault = open_block(file, info); fault != BlockFault::kNone) return {fault, std::nullopt};
  std::vector<std::byte> payload(static_cast<size_t>(info.payload_bytes));  // the file is that large
  if (const BlockFault fault = read_all(file.get(), payload); fault != BlockFault::kNone) return {fault, info};
  if (block_checksum(payload) != info.checksum) return {BlockFault::kDamaged, info};
  const bool own_place = path.ends_with("/" + block_file_name(info.name)) && info.fingerprint == fingerprint;
  if (!own_place || path_digest(info.name.parent, info.name.tokens) != info.name.path ||
      (info.name.index == 0) != (info.name.parent == info.name.space))
    return {BlockFault::kForeign, info};
  return {BlockFault::kNone, info};
}

}  // namespace pagoda::engine
