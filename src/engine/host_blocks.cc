#include "engine/host_blocks.h"

#include <fmt/format.h>

#include <cstring>
#include <list>
#include <map>
#include <utility>

#include "core/huge_buffer.h"

namespace pagoda::engine {
namespace {

class HostBlocksImpl final : public HostBlocks {
 public:
  HostBlocksImpl(const Digest& fingerprint, int64_t block_bytes, int64_t slots, HugeBuffer memory)
      : fingerprint_(fingerprint), block_bytes_(block_bytes), slots_(slots), memory_(std::move(memory)) {
    for (int64_t slot = slots; slot-- > 0;) free_.push_back(slot);
  }

  const char* name() const override { return "host"; }
  const Digest& fingerprint() const override { return fingerprint_; }
  int64_t capacity_bytes() const override { return slots_ * block_bytes_; }

  void save(const BlockName& name, const std::function<void(std::span<std::byte>)>& fill) override {
    if (by_path_.contains(name.path)) return;
    if (free_.empty()) {
      drop(held_.begin());
      ++counters_.blocks_evicted;
    }
    const int64_t slot = free_.back();
    free_.pop_back();
    by_path_.emplace(name.path, held_.insert(held_.end(), {name, slot}));
    fill(bytes_of(slot));
    ++counters_.blocks_saved;
    counters_.bytes_saved += block_bytes_;
    counters_.bytes_held += block_bytes_;
  }

  LoadId load(std::vector<BlockName> names) override {
    loads_.emplace(++last_load_, Load{.names = std::move(names)});
    return LoadId{last_load_};
  }
  LoadState state(LoadId id) override {
    Load& load = loads_.at(static_cast<uint64_t>(id));
    if (load.next < load.names.size() && find(load.names[load.next]) != held_.end()) return {1, std::nullopt};
    const LoadEnd end = load.next == load.names.size() ? LoadEnd::kWhole : LoadEnd::kAbsent;
    if (!std::exchange(load.counted, true)) ++counters_.loads_ended.at(static_cast<size_t>(end));
    return {0, end};
  }
  void take(LoadId id, const std::function<void(std::span<const std::byte>)>& use) override {
    Load& load = loads_.at(static_cast<uint64_t>(id));
    const auto held = find(load.names[load.next++]);
    use(bytes_of(held->slot));
    drop(held);
    ++counters_.blocks_loaded;
    counters_.bytes_loaded += block_bytes_;
  }
  void end(LoadId id) override { loads_.erase(static_cast<uint64_t>(id)); }
  void forget_all() override {
    while (!held_.empty()) drop(held_.begin());
  }
  void on_news(std::function<void()>) override {}  // nothing takes its time here
  TierCounters& counters() override { return counters_; }

 private:
  struct Held {
    BlockName name;
    int64_t slot;
  };
  struct Load {
    std::vector<BlockName> names;
    size_t next = 0;
    bool counted = false;
  };

  std::list<Held>::iterator find(const BlockName& name) {
    const auto found = by_path_.find(name.path);
    return found != by_path_.end() && found->second->name == name ? found->second : held_.end();
  }
  void drop(std::list<Held>::iterator held) {
    free_.push_back(held->slot);
    by_path_.erase(held->name.path);
    held_.erase(held);
    counters_.bytes_held -= block_bytes_;
  }
  std::span<std::byte> bytes_of(int64_t slot) const {
    return {memory_.data() + slot * block_bytes_, static_cast<size_t>(block_bytes_)};
  }

  const Digest fingerprint_;
  const int64_t block_bytes_;
  const int64_t slots_;
  HugeBuffer memory_;
  std::vector<int64_t> free_;  // slots; the lowest last
  std::list<Held> held_{};     // oldest first
  std::map<Digest, std::list<Held>::iterator> by_path_{};
  std::map<uint64_t, Load> loads_{};
  uint64_t last_load_ = 0;
  TierCounters counters_;
};

}  // namespace

Result<std::unique_ptr<HostBlocks>> HostBlocks::create(const Digest& fingerprint, int64_t block_bytes, int64_t bytes) {
  if (bytes < block_bytes)
    return Error{Code::kInvalidRequest, fmt::format("--swap-space is {} bytes, one block of {} tokens takes {}", bytes,
                                                    kBlockTokens, block_bytes)};
  const int64_t slots = bytes / block_bytes;
  PAGODA_TRY(HugeBuffer memory, HugeBuffer::allocate(slots * block_bytes));
  return std::unique_ptr<HostBlocks>(
      std::make_unique<HostBlocksImpl>(fingerprint, block_bytes, slots, std::move(memory)));
}

}  // namespace pagoda::engine
