#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "engine/kv_path.h"

namespace pagoda::engine {

/// A --kv-dir: a folder for each fingerprint, named by its first 16 hex digits, and in it `about.txt` (the fingerprint
/// in words), `evicted` (names of blocks that made room) and the block files. Several processes may use one at the same
/// time: files appear by rename and vanish by unlink, and nobody relies on one that he saw.

struct StoredBlock {
  std::string path;    // of the file
  std::string parent;  // the folder's name and what names call the block before it, to be found by `own`
  std::string own;
  int64_t bytes;
  int64_t used_ns;  // last written or read, since 1970
};
struct BlockSpace {
  std::string folder;  // its path
  std::string about;   // the fingerprint in words, "" if that file is missing
  std::vector<StoredBlock> blocks;
};

/// All block files, by their names alone; what else lies there is left out.
Result<std::vector<BlockSpace>> scan_block_folder(const std::string& folder);
std::string space_folder(const std::string& folder, const Digest& fingerprint);

/// Creates what is missing, and removes temporary files of writers that died an hour ago. Error kIo with the system's
/// reason.
Status prepare_space_folder(const std::string& folder, const Digest& fingerprint, const std::string& about);

/// Removes blocks until no more than `bytes_max` are left: longest unused first, but none before those that follow it.
/// What could not be removed still counts. Returns bytes left and the number removed.
struct Eviction {
  int64_t bytes_left;
  int64_t removed;
};
Result<Eviction> evict_blocks(const std::string& folder, int64_t bytes_max);
/// Whether a block of this name (StoredBlock::own) made room for others, as far as is remembered.
bool was_evicted(const std::string& space_folder, std::string_view own);
/// All blocks of one fingerprint.
int64_t remove_blocks(const std::string& space_folder);

}  // namespace pagoda::engine
