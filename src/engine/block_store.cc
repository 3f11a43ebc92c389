#include "engine/block_store.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "core/log.h"
#include "engine/block_file.h"
#include "engine/block_folder.h"

namespace pagoda::engine {
namespace {

using Buffer = std::vector<std::byte>;

constexpr int64_t kAheadBytes = 4 << 20;  // read of one load before anybody takes it
constexpr int64_t kLogPauseUs = 60'000'000;

/// Complains, but not about every block.
class RareWarning {
 public:
  void say(const std::string& message) {
    const int64_t now_us = SteadyClock{}.now_us();
    if (last_us_ != 0 && now_us - last_us_ < kLogPauseUs) return;
    last_us_ = now_us;
    log_warning("kv-dir: {}", message);
  }

 private:
  int64_t last_us_ = 0;
};

LoadEnd end_after(BlockFault fault) {
  switch (fault) {
    case BlockFault::kTruncated:
    case BlockFault::kDamaged:
      return LoadEnd::kDamaged;
    case BlockFault::kForeign:
      return LoadEnd::kForeign;
    case BlockFault::kUnreadable:
      return LoadEnd::kRefused;
    case BlockFault::kNone:
    case BlockFault::kAbsent:
      break;
  }
  return LoadEnd::kAbsent;
}

/// While it lives, threads that are started take no signals: those of the process are for others, and SIGXFSZ (a file
/// above the process's limit) becomes a failed write.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

class BlockStoreImpl final : public BlockStore {
 public:
  BlockStoreImpl(const BlockStoreOptions& options, const KvFingerprint& fingerprint)
      : options_(options), fingerprint_(fingerprint), space_(space_folder(options.folder, fingerprint.digest)) {
    std::random_device entropy;
    temporary_ = fmt::format("{}/tmp/{}-{:08x}{:08x}", space_, ::getpid(), entropy(), entropy());
    queue_max_ = static_cast<size_t>(std::max<int64_t>(4, options.queue_bytes / fingerprint.block_bytes));
    ahead_max_ = static_cast<size_t>(std::max<int64_t>(2, kAheadBytes / fingerprint.block_bytes));
    const NoSignals quiet;
    writer_ = std::thread([this] { write_until_stopped(); });
    reader_ = std::thread([this] { read_until_stopped(); });
  }
  ~BlockStoreImpl() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    writer_news_.notify_all();
    reader_news_.notify_all();
    writer_.join();
    reader_.join();
  }

  const char* name() const override { return "disk"; }
  const Digest& fingerprint() const override { return fingerprint_.digest; }
  void save(const BlockName& name, const std::function<void(std::span<std::byte>)>& fill) override;
  LoadId load(std::vector<BlockName> names) override;
  LoadState state(LoadId id) override;
  void take(LoadId id, const std::function<void(std::span<const std::byte>)>& use) override;
  void end(LoadId id) override;
  void forget_all() override;
  void on_news(std::function<void()> news) override {
    const std::lock_guard lock(mutex_);
    news_ = std::move(news);
  }
  TierCounters& counters() override { return counters_; }
  bool flush(int64_t timeout_us) override;

 private:
  struct Write {
    BlockName name;
    Buffer bytes;
  };
  struct Load {
    std::vector<BlockName> names;
    size_t next = 0;             // to be read
    std::deque<Buffer> ready{};  // read and not taken
    std::optional<LoadEnd> end{};
  };

  void write_until_stopped();
  void prepare_folder();
  void write_one(const Write& write);
  void keep_under_limit();
  void forget_now();
  void read_until_stopped();
  std::map<uint64_t, Load>::iterator next_to_read();
  LoadEnd read_failed(BlockFault fault, const std::string& path);
  Buffer spare_buffer();
  std::string path_of(const BlockName& name) const { return space_ + "/" + block_file_name(name); }

  const BlockStoreOptions options_;
  const KvFingerprint fingerprint_;
  const std::string space_;
  std::string temporary_;  // path, up to a number
  size_t queue_max_, ahead_max_;
  TierCounters counters_;

  std::mutex mutex_;
  std::condition_variable writer_news_, reader_news_, written_;
  std::function<void()> news_{};
  std::deque<Write> writes_;
  bool writing_ = false;
  std::map<uint64_t, Load> loads_;
  uint64_t next_load_ = 1, last_read_ = 0;
  std::vector<Buffer> spare_;
  bool forgetting_ = false;  // until the writer has removed all
  bool reads_off_ = false;   // what should be forgotten could not be removed
  bool stopping_ = false;
  int64_t no_writes_before_us_ = 0;

  // The writer's own.
  bool prepared_ = false;
  int64_t held_ = 0, written_since_scan_ = 0;
  uint64_t temporaries_ = 0;
  RareWarning write_warning_;
  RareWarning read_warning_;  // the reader's

  std::thread writer_, reader_;
};

Buffer BlockStoreImpl::spare_buffer() {  // with the lock
  if (spare_.empty()) return Buffer(static_cast<size_t>(fingerprint_.block_bytes));
  Buffer buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

// --- writing ---

void BlockStoreImpl::save(const BlockName& name, const std::function<void(std::span<std::byte>)>& fill) {
  Write write{.name = name, .bytes = {}};
  {
    const std::lock_guard lock(mutex_);
    if (writes_.size() >= queue_max_ || SteadyClock{}.now_us() < no_writes_before_us_) {
      ++counters_.saves_dropped;
      return;
    }
    write.bytes = spare_buffer();
  }
  fill(write.bytes);
  const std::lock_guard lock(mutex_);
  writes_.push_back(std::move(write));
  writer_news_.notify_one();
}

bool BlockStoreImpl::flush(int64_t timeout_us) {
  std::unique_lock lock(mutex_);
  return written_.wait_for(lock, std::chrono::microseconds(timeout_us),
                           [this] { return writes_.empty() && !writing_ && !forgetting_; });
}

void BlockStoreImpl::forget_all() {
  const std::lock_guard lock(mutex_);
  writes_.clear();
  forgetting_ = true;
  writer_news_.notify_one();
}

void BlockStoreImpl::write_until_stopped() {
  prepare_folder();
  std::unique_lock lock(mutex_);
  for (;;) {
    writer_news_.wait(lock, [this] { return stopping_ || forgetting_ || !writes_.empty(); });
    if (stopping_) return;  // who wants the rest kept has flushed
    writing_ = true;
    if (forgetting_) {
      lock.unlock();
      forget_now();
      lock.lock();
      forgetting_ = false;
    } else {
      Write write = std::move(writes_.front());
      writes_.pop_front();
      lock.unlock();
      write_one(write);
      lock.lock();
      if (spare_.size() < queue_max_) spare_.push_back(std::move(write.bytes));
    }
    writing_ = false;
    if (writes_.empty()) written_.notify_all();
  }
}

/// Also counts what is there.
void BlockStoreImpl::prepare_folder() {
  const Status prepared = prepare_space_folder(options_.folder, fingerprint_.digest, fingerprint_.text);
  prepared_ = prepared.ok();
  if (!prepared.ok()) {
    write_warning_.say(prepared.error().message + "; going on without writing");
    counters_.works = false;
  }
  keep_under_limit();
}

void BlockStoreImpl::write_one(const Write& write) {
  if (!prepared_) prepare_folder();
  const std::string path = path_of(write.name);
  if (prepared_ && ::access(path.c_str(), F_OK) == 0) return;  // another server, or an earlier life
  Status done = ok_status();
  if (prepared_) {
    ::mkdir(path.substr(0, path.rfind('/')).c_str(), 0700);  // there, but for the first of 256
    done = write_block_file(path, fmt::format("{}-{}", temporary_, temporaries_++), fingerprint_.digest, write.name,
                            write.bytes);
  }
  counters_.works = prepared_ && done.ok();
  if (!counters_.works) {
    if (!done.ok()) write_warning_.say(done.error().message + "; going on without it");
    ++counters_.saves_failed;
    prepared_ = false;  // the folder may have been removed
    const std::lock_guard lock(mutex_);
    no_writes_before_us_ = SteadyClock{}.now_us() + options_.retry_us;
    counters_.saves_dropped += static_cast<int64_t>(writes_.size());
    writes_.clear();
    return;
  }
  const int64_t bytes = static_cast<int64_t>(kBlockHeaderBytes) + fingerprint_.block_bytes;
  ++counters_.blocks_saved;
  counters_.bytes_saved += bytes;
  held_ += bytes;
  written_since_scan_ += bytes;
  counters_.bytes_held = held_;
  // Others may write there too: a look now and then.
  if (held_ > options_.bytes_max || written_since_scan_ > options_.bytes_max / 16) keep_under_limit();
}

void BlockStoreImpl::keep_under_limit() {
  written_since_scan_ = 0;
  // Down to the limit from a scan that finds less; a tenth below it, so that not every block costs a scan.
  auto left = evict_blocks(options_.folder, options_.bytes_max);
  if (left.ok() && left.value().removed > 0) {
    counters_.blocks_evicted += left.value().removed;
    left = evict_blocks(options_.folder, options_.bytes_max / 10 * 9);
  }
  if (!left.ok()) {
    if (prepared_) write_warning_.say(left.error().message);
    return;
  }
  counters_.blocks_evicted += left.value().removed;
  held_ = left.value().bytes_left;
  counters_.bytes_held = held_;
}

void BlockStoreImpl::forget_now() {
  remove_blocks(space_);
  const auto spaces = scan_block_folder(options_.folder);
  const bool left = spaces.ok() && std::any_of(spaces.value().begin(), spaces.value().end(), [this](const auto& space) {
                      return space.folder == space_ && !space.blocks.empty();
                    });
  if (left) write_warning_.say("blocks that a reset should forget cannot be removed; going on without reading");
  keep_under_limit();
  const std::lock_guard lock(mutex_);
  reads_off_ = reads_off_ || left;
}

// --- reading ---

BlockTier::LoadId BlockStoreImpl::load(std::vector<BlockName> names) {
  const std::lock_guard lock(mutex_);
  Load load{.names = std::move(names)};
  if (reads_off_ || forgetting_) load.end = reads_off_ ? LoadEnd::kRefused : LoadEnd::kAbsent;
  if (load.names.empty()) load.end = LoadEnd::kWhole;
  if (load.end) ++counters_.loads_ended.at(static_cast<size_t>(*load.end));
  const uint64_t id = next_load_++;
  loads_.emplace(id, std::move(load));
  reader_news_.notify_one();
  return LoadId{id};
}

BlockTier::LoadState BlockStoreImpl::state(LoadId id) {
  const std::lock_guard lock(mutex_);
  const Load& load = loads_.at(static_cast<uint64_t>(id));
  return {.ready = static_cast<int32_t>(load.ready.size()), .end = load.end};
}

void BlockStoreImpl::take(LoadId id, const std::function<void(std::span<const std::byte>)>& use) {
  Buffer bytes;
  {
    const std::lock_guard lock(mutex_);
    Load& load = loads_.at(static_cast<uint64_t>(id));
    bytes = std::move(load.ready.front());
    load.ready.pop_front();
    reader_news_.notify_one();
  }
  use(bytes);
  const std::lock_guard lock(mutex_);
  if (spare_.size() < queue_max_) spare_.push_back(std::move(bytes));
}

void BlockStoreImpl::end(LoadId id) {
  const std::lock_guard lock(mutex_);
  const auto load = loads_.find(static_cast<uint64_t>(id));
  for (Buffer& bytes : load->second.ready)
    if (spare_.size() < queue_max_) spare_.push_back(std::move(bytes));
  loads_.erase(load);
}

/// The next in turn after the one that was served last.
std::map<uint64_t, BlockStoreImpl::Load>::iterator BlockStoreImpl::next_to_read() {
  const auto wants = [this](const auto& entry) { return !entry.second.end && entry.second.ready.size() < ahead_max_; };
  const auto after = loads_.upper_bound(last_read_);
  if (const auto found = std::find_if(after, loads_.end(), wants); found != loads_.end()) return found;
  const auto found = std::find_if(loads_.begin(), after, wants);
  return found == after ? loads_.end() : found;
}

void BlockStoreImpl::read_until_stopped() {
  std::unique_lock lock(mutex_);
  for (;;) {
    reader_news_.wait(lock, [this] { return stopping_ || next_to_read() != loads_.end(); });
    if (stopping_) return;
    const auto chosen = next_to_read();
    last_read_ = chosen->first;
    const BlockName wanted = chosen->second.names[chosen->second.next];
    Buffer bytes = spare_buffer();
    lock.unlock();
    const std::string path = path_of(wanted);
    const BlockFault fault = read_block_file(path, fingerprint_.digest, wanted, bytes);
    const LoadEnd failed = fault == BlockFault::kNone ? LoadEnd::kWhole : read_failed(fault, path);
    lock.lock();
    ++counters_.reads;
    const auto load = loads_.find(last_read_);
    if (load == loads_.end() || fault != BlockFault::kNone) {
      if (spare_.size() < queue_max_) spare_.push_back(std::move(bytes));
      if (load == loads_.end()) continue;
      load->second.end = failed;
    } else {
      load->second.ready.push_back(std::move(bytes));
      ++counters_.blocks_loaded;
      counters_.bytes_loaded += fingerprint_.block_bytes;
      if (++load->second.next == load->second.names.size()) load->second.end = LoadEnd::kWhole;
    }
    if (load->second.end) ++counters_.loads_ended.at(static_cast<size_t>(*load->second.end));
    if (news_) news_();
  }
}

LoadEnd BlockStoreImpl::read_failed(BlockFault fault, const std::string& path) {
  const LoadEnd end = end_after(fault);
  if (end == LoadEnd::kAbsent) return end;
  read_warning_.say(fmt::format("a block is {}: computed again", fault_name(fault)));
  if (end != LoadEnd::kRefused) ::unlink(path.c_str());  // or nobody would write it again
  return end;
}

}  // namespace

Result<std::unique_ptr<BlockStore>> BlockStore::open(const BlockStoreOptions& options,
                                                     const KvFingerprint& fingerprint) {
  const int64_t one = static_cast<int64_t>(kBlockHeaderBytes) + fingerprint.block_bytes;
  if (options.bytes_max < one)
    return Error{Code::kInvalidRequest, fmt::format("--kv-dir-max is {} bytes, one block of {} tokens takes {}",
                                                    options.bytes_max, kBlockTokens, one)};
  return std::unique_ptr<BlockStore>(std::make_unique<BlockStoreImpl>(options, fingerprint));
}

}  // namespace pagoda::engine
