#include "engine/block_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <unordered_map>

namespace pagoda::engine {
namespace {

namespace fs = std::filesystem;

constexpr size_t kOwnDigits = 40, kParentDigits = 16, kFingerprintDigits = 16;
constexpr int64_t kEvictedBytesMax = 1 << 20;  // of the file that remembers names
constexpr auto kDeadWriter = std::chrono::hours(1);

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// "<own>-<parent>.kv"; nothing for files of others.
std::optional<StoredBlock> parse_name(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.size() != kOwnDigits + 1 + kParentDigits + 3 || !name.ends_with(".kv") || name[kOwnDigits] != '-')
    return std::nullopt;
  StoredBlock block{.path = path.string(),
                    .parent = name.substr(kOwnDigits + 1, kParentDigits),
                    .own = name.substr(0, kOwnDigits),
                    .bytes = 0,
                    .used_ns = 0};
  if (!is_hex(block.own, kOwnDigits) || !is_hex(block.parent, kParentDigits)) return std::nullopt;
  struct stat about {};
  if (::lstat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  block.bytes = about.st_size;
  block.used_ns = int64_t{about.st_mtim.tv_sec} * 1'000'000'000 + about.st_mtim.tv_nsec;
  return block;
}

/// Calls `visit` for each entry; a folder that cannot be read, or vanishes meanwhile, has none.
template <class Visit>
void each_entry(const fs::path& folder, const Visit& visit) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) visit(it->path());
}

std::vector<StoredBlock> blocks_below(const fs::path& space) {
  std::vector<StoredBlock> blocks;
  each_entry(space, [&](const fs::path& shelf) {
    if (!is_hex(shelf.filename().string(), 2)) return;
    each_entry(shelf, [&](const fs::path& file) {
      if (auto block = parse_name(file)) blocks.push_back(std::move(*block));
    });
  });
  return blocks;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(1 << 16, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

Error refused(const char* what, const std::string& path, const std::string& why) {
  return {Code::kIo, fmt::format("cannot {} {}: {}", what, path, why)};
}

/// A block is as young as the youngest that follows it.
void pass_youth_to_parents(std::vector<StoredBlock*>& oldest_first,
                           const std::unordered_map<std::string, StoredBlock*>& by_own) {
  std::sort(oldest_first.begin(), oldest_first.end(),
            [](const StoredBlock* a, const StoredBlock* b) { return a->used_ns < b->used_ns; });
  for (auto it = oldest_first.rbegin(); it != oldest_first.rend(); ++it) {
    const int64_t youth = (*it)->used_ns;
    for (auto parent = by_own.find((*it)->parent); parent != by_own.end() && parent->second->used_ns < youth;
         parent = by_own.find(parent->second->parent))
      parent->second->used_ns = youth;
  }
}

/// How many blocks lie above each, as far as they are there.
int32_t depth_of(const StoredBlock& block, const std::unordered_map<std::string, StoredBlock*>& by_own,
                 std::unordered_map<const StoredBlock*, int32_t>& known) {
  std::vector<const StoredBlock*> chain;
  int32_t depth = -1;
  for (const StoredBlock* at = &block;;) {
    if (const auto found = known.find(at); found != known.end()) {
      depth = found->second;
      break;
    }
    chain.push_back(at);
    known.emplace(at, 0);  // a hostile circle of names ends here
    const auto parent = by_own.find(at->parent);
    if (parent == by_own.end()) break;
    at = parent->second;
  }
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) known[*it] = ++depth;
  return known[&block];
}

void remember_evicted(const std::string& space_folder, const std::string& names) {
  const std::string path = space_folder + "/evicted";
  struct stat about {};
  const bool full = ::stat(path.c_str(), &about) == 0 && about.st_size > kEvictedBytesMax;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (full ? O_TRUNC : O_APPEND), 0600);
  if (fd < 0) return;
  if (::write(fd, names.data(), names.size()) < 0) ::ftruncate(fd, 0);  // a disk that is full needs the room
  ::close(fd);
}

}  // namespace

std::string space_folder(const std::string& folder, const Digest& fingerprint) {
  return folder + "/" + hex(fingerprint, kFingerprintDigits / 2);
}

Result<std::vector<BlockSpace>> scan_block_folder(const std::string& folder) {
  std::error_code error;
  if (fs::directory_iterator(folder, error); error) return refused("read", folder, error.message());
  std::vector<BlockSpace> spaces;
  each_entry(folder, [&](const fs::path& path) {
    if (!is_hex(path.filename().string(), kFingerprintDigits)) return;
    spaces.push_back({path.string(), read_text(path.string() + "/about.txt"), blocks_below(path)});
  });
  std::sort(spaces.begin(), spaces.end(), [](const auto& a, const auto& b) { return a.folder < b.folder; });
  return spaces;
}

Status prepare_space_folder(const std::string& folder, const Digest& fingerprint, const std::string& about) {
  const std::string space = space_folder(folder, fingerprint);
  std::error_code error;
  fs::create_directories(space + "/tmp", error);
  if (error) return refused("create", space, error.message());
  fs::permissions(space, fs::perms::owner_all, error);  // what is inside was said in confidence
  const auto now = fs::file_time_type::clock::now();
  each_entry(space + "/tmp", [&](const fs::path& file) {
    std::error_code gone;
    const auto written = fs::last_write_time(file, gone);
    if (!gone && now - written > kDeadWriter) fs::remove(file, gone);
  });
  if (read_text(space + "/about.txt") == about) return ok_status();
  const std::string temporary = fmt::format("{}/tmp/about-{}", space, ::getpid());
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file << about;
  file.close();
  if (!file.good() || std::rename(temporary.c_str(), (space + "/about.txt").c_str()) != 0) {
    const std::string why = std::strerror(errno);
    fs::remove(temporary, error);
    return refused("write to", space, why);
  }
  return ok_status();
}

Result<Eviction> evict_blocks(const std::string& folder, int64_t bytes_max) {
  PAGODA_TRY(std::vector<BlockSpace> spaces, scan_block_folder(folder));
  Eviction done{.bytes_left = 0, .removed = 0};
  struct Candidate {
    const BlockSpace* space;
    StoredBlock* block;
    int32_t depth;
  };
  std::vector<Candidate> order;
  for (BlockSpace& space : spaces) {
    std::unordered_map<std::string, StoredBlock*> by_own;  // as children call their parents
    std::vector<StoredBlock*> all;
    std::unordered_map<const StoredBlock*, int32_t> depths;
    for (StoredBlock& block : space.blocks) {
      by_own.emplace(block.own.substr(0, kParentDigits), &block);
      all.push_back(&block);
      done.bytes_left += block.bytes;
    }
    pass_youth_to_parents(all, by_own);
    for (StoredBlock* block : all) order.push_back({&space, block, depth_of(*block, by_own, depths)});
  }
  std::sort(order.begin(), order.end(), [](const Candidate& a, const Candidate& b) {
    return a.block->used_ns != b.block->used_ns ? a.block->used_ns < b.block->used_ns : a.depth > b.depth;
  });
  std::unordered_map<const BlockSpace*, std::string> names;
  for (const Candidate& candidate : order) {
    if (done.bytes_left <= bytes_max) break;
    if (::unlink(candidate.block->path.c_str()) != 0 && errno != ENOENT) continue;
    done.bytes_left -= candidate.block->bytes;
    ++done.removed;
    names[candidate.space] += candidate.block->own + "\n";
  }
  for (const auto& [space, gone] : names) remember_evicted(space->folder, gone);
  return done;
}

bool was_evicted(const std::string& space_folder, std::string_view own) {
  std::ifstream file(space_folder + "/evicted");
  for (std::string line; std::getline(file, line);)
    if (line == own) return true;
  return false;
}

int64_t remove_blocks(const std::string& space_folder) {
  int64_t removed = 0;
  for (const StoredBlock& block : blocks_below(space_folder)) removed += ::unlink(block.path.c_str()) == 0;
  return removed;
}

}  // namespace pagoda::engine
