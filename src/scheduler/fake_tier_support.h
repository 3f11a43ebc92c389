#pragma once
// A disk tier whose disk is a map, with faults: blocks that get lost or damaged, loads that come late or never.
#include <deque>
#include <map>
#include <random>

#include "core/clock.h"
#include "engine/block_tier.h"

namespace pagoda::scheduler {

struct TierFaults {
  double lost = 0;       // a block is not kept
  double damaged = 0;    // a block is kept, and will be found damaged
  double refused = 0;    // a load ends at once
  double stuck = 0;      // a load never gives anything
  int32_t late_max = 0;  // a block takes up to so many polls
};

class FakeTier : public engine::BlockTier {
 public:
  explicit FakeTier(TierFaults faults = {}, uint32_t seed = 1) : faults_(faults), rng_(seed) {}

  /// A stuck load moves it, or nobody would ever give up waiting.
  FakeClock* clock = nullptr;
  bool forgetful = true;  // forget_all() does
  int64_t saves = 0;

  const char* name() const override { return "disk"; }
  const engine::Digest& fingerprint() const override { return fingerprint_; }

  void save(const engine::BlockName& name, const std::function<void(std::span<std::byte>)>& fill) override {
    ++saves;
    if (chance(faults_.lost) || kept_.contains(name.path)) return;
    Kept kept{name, std::vector<std::byte>(128), chance(faults_.damaged)};
    fill(kept.bytes);
    kept_.emplace(name.path, std::move(kept));
  }
  LoadId load(std::vector<engine::BlockName> names) override {
    ++loads_begun;
    Load load{.names = std::move(names)};
    load.stuck = chance(faults_.stuck);
    load.refused = chance(faults_.refused);
    loads_.emplace(++last_, std::move(load));
    return LoadId{last_};
  }
  LoadState state(LoadId id) override {
    Load& load = loads_.at(static_cast<uint64_t>(id));
    if (load.stuck) {
      if (clock != nullptr) clock->advance_us(100'000);
      return {0, std::nullopt};
    }
    ++counters_.reads;
    if (load.refused) return {0, engine::LoadEnd::kRefused};
    if (load.next == load.names.size()) return {0, engine::LoadEnd::kWhole};
    if (load.polls_left < 0)
      load.polls_left =
          faults_.late_max == 0 ? 0 : static_cast<int32_t>(rng_() % static_cast<uint32_t>(faults_.late_max));
    if (load.polls_left-- > 0) return {0, std::nullopt};
    load.polls_left = 0;
    const auto found = kept_.find(load.names[load.next].path);
    if (found == kept_.end()) return {0, engine::LoadEnd::kAbsent};
    EXPECT_EQ(found->second.name, load.names[load.next]);
    if (!found->second.damaged) return {1, std::nullopt};
    return {0, engine::LoadEnd::kDamaged};
  }
  void take(LoadId id, const std::function<void(std::span<const std::byte>)>& use) override {
    Load& load = loads_.at(static_cast<uint64_t>(id));
    use(kept_.at(load.names.at(load.next++).path).bytes);
    load.polls_left = -1;
  }
  void end(LoadId id) override { ASSERT_EQ(loads_.erase(static_cast<uint64_t>(id)), 1u); }
  void forget_all() override {
    if (forgetful) kept_.clear();
  }
  void on_news(std::function<void()>) override {}
  engine::TierCounters& counters() override { return counters_; }

  size_t loads_open() const { return loads_.size(); }
  size_t blocks() const { return kept_.size(); }
  void set_faults(TierFaults faults) { faults_ = faults; }
  void damage_all() {
    for (auto& [path, kept] : kept_) kept.damaged = true;
  }
  int64_t loads_begun = 0;

 private:
  struct Kept {
    engine::BlockName name;
    std::vector<std::byte> bytes;
    bool damaged;
  };
  struct Load {
    std::vector<engine::BlockName> names;
    size_t next = 0;
    int32_t polls_left = -1;
    bool stuck = false, refused = false;
  };

  bool chance(double p) { return p > 0 && static_cast<double>(rng_()) < p * 4294967296.0; }

  TierFaults faults_;
  std::mt19937 rng_;
  const engine::Digest fingerprint_ = engine::sha256(std::as_bytes(std::span("fake")));
  std::map<engine::Digest, Kept> kept_;
  std::map<uint64_t, Load> loads_;
  uint64_t last_ = 0;
  engine::TierCounters counters_;
};

}  // namespace pagoda::scheduler
