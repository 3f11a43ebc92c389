#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/result.h"
#include "engine/kv_path.h"

namespace pagoda::engine {

/// One KV block in a file: a header of 256 bytes, then the block's bytes as they lie in the pool. Numbers are
/// little-endian.
///
///     0  "PAGODAKV"          8  version, u32        12  header bytes, u32
///    16  payload bytes, u64 24  tokens a block, u32 28  index in its path, u32
///    32  fingerprint        64  space              96  parent's path       128  path
///   160  16 tokens, i32    224  checksum of the payload, u64   232  zero   248  checksum of bytes [0, 248), u64
///
/// Everything in it is compared with what the reader expects before a byte of it is used; the checksum finds every
/// change of one aligned 8-byte word, and others but for 1 in 2^64. docs/adr/0020-kv-tiers.md.
inline constexpr size_t kBlockHeaderBytes = 256;
inline constexpr uint32_t kBlockFileVersion = 1;

/// Why a block did not come from a file.
enum class BlockFault : uint8_t {
  kNone,
  kAbsent,      // no such file
  kUnreadable,  // the system refused to open or read it
  kTruncated,   // shorter or longer than its block
  kDamaged,     // a checksum is wrong
  kForeign,     // a sound file, but of something else: version, fingerprint, tokens, salt, place
};
/// "absent", "unreadable", "truncated", "damaged", "foreign"
const char* fault_name(BlockFault fault);

uint64_t block_checksum(std::span<const std::byte> bytes);

/// Where a block's file lies below its fingerprint's folder: "ab/ab12…-parent.kv". The names alone tell which block
/// follows which.
std::string block_file_name(const BlockName& name);

/// Writes `temporary` and renames it to `path`, so that a reader sees all of it or nothing. It is not forced to the
/// disk: what a power cut leaves half is found by its checksum, and a cache is no record. Error kIo with the system's
/// reason; nothing is left behind.
Status write_block_file(const std::string& path, const std::string& temporary, const Digest& fingerprint,
                        const BlockName& name, std::span<const std::byte> payload);

/// Reads the payload of the file that should hold `name`. A file that was read also becomes the youngest.
BlockFault read_block_file(const std::string& path, const Digest& fingerprint, const BlockName& name,
                           std::span<std::byte> payload);

/// What a file says of itself. Nothing but the header is read.
struct BlockFileInfo {
  Digest fingerprint;
  BlockName name;
  int64_t payload_bytes;
  uint64_t checksum;
};
struct BlockFileCheck {
  BlockFault fault;
  std::optional<BlockFileInfo> info;  // if the header is sound
};
BlockFileCheck inspect_block_file(const std::string& path);
/// All that can be known without the prompt: checksums, the size, that the path digest follows from parent and tokens,
/// that the file has the name of its content and lies in the folder of its `fingerprint`.
BlockFileCheck verify_block_file(const std::string& path, const Digest& fingerprint);

}  // namespace pagoda::engine
