#include "scheduler/tier_loads.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/check.h"

namespace pagoda::scheduler {
namespace {

constexpr double kBytesPerUsAtFirst = 2000;  // 2 GB/s, until something was copied
constexpr double kNewest = 0.2;              // weight of the last copy in the measured rate

}  // namespace

TierLoads::TierLoads(engine::Engine& engine, Tiers tiers, SequenceBlocks& blocks, const Clock& clock)
    : engine_(engine),
      tiers_{tiers.host, tiers.disk},
      blocks_(blocks),
      clock_(clock),
      block_bytes_(engine.block_bytes()),
      copy_us_per_block_(static_cast<double>(block_bytes_) / kBytesPerUsAtFirst) {
  PAGODA_CHECK(tiers.host == nullptr || tiers.disk == nullptr ||
               tiers.host->fingerprint() == tiers.disk->fingerprint());
  if (!blocks.shares_prefixes() || block_bytes_ == 0) tiers_ = {};
}

void TierLoads::begin_step(bool busy) {
  waits_ = false;
  blocks_left_ = busy ? std::max<int64_t>(1, kStepBytes / std::max<int64_t>(1, block_bytes_))
                      : std::numeric_limits<int32_t>::max();
}

const engine::BlockName& TierLoads::name_of(Sequence& seq, int32_t index) {
  std::vector<engine::BlockName>& names = seq.visit.names;
  if (std::ssize(names) <= index) {
    engine::BlockTier* any = tiers_[kHostTier] != nullptr ? tiers_[kHostTier] : tiers_[kDiskTier];
    const engine::Digest space = names.empty()
                                     ? engine::space_digest(any->fingerprint(), "", seq.owner->request.cache_salt)
                                     : names.front().space;
    engine::extend_names(space, std::span(seq.history).first(static_cast<size_t>(index + 1) * kBlockTokens), names);
  }
  return names[static_cast<size_t>(index)];
}

// --- into the pool ---

bool TierLoads::visit(Sequence& seq) {
  if (!any()) return false;
  TierVisit& visit = seq.visit;
  if (visit.state == TierVisit::State::kNotAsked && !begin(seq)) {
    waits_ = true;
    return true;
  }
  while (visit.state == TierVisit::State::kLoading) {
    take_in(seq);
    if (visit.state != TierVisit::State::kLoading || visit.load) break;
  }
  const bool waits = visit.state == TierVisit::State::kLoading;
  waits_ = waits_ || waits;
  return waits;
}

/// False: another one loads the same, whose blocks will do.
bool TierLoads::begin(Sequence& seq) {
  TierVisit& visit = seq.visit;
  const int32_t there = blocks_.full_blocks_there(seq);
  if (there >= wanted_blocks(seq)) return true;  // until some of it makes room
  if (loading_.contains(name_of(seq, there).path)) return false;
  name_of(seq, wanted_blocks(seq) - 1);
  visit.first_block = visit.next_block = there;
  visit.came = {};
  visit.end.reset();
  visit.late = false;
  visit.state = TierVisit::State::kLoading;
  visit.tier = tiers_.size();
  next_tier(seq);
  return true;
}

/// Goes on with the next tier that there is, or is done.
void TierLoads::next_tier(Sequence& seq) {
  TierVisit& visit = seq.visit;
  for (size_t next = visit.tier == tiers_.size() ? 0 : visit.tier + 1; next < tiers_.size(); ++next) {
    engine::BlockTier* tier = tiers_[next];
    if (tier == nullptr || stuck_at_[next] == tier->counters().reads || visit.next_block >= wanted_blocks(seq))
      continue;
    const auto wanted = std::span(visit.names)
                            .first(static_cast<size_t>(wanted_blocks(seq)))
                            .subspan(static_cast<size_t>(visit.next_block));
    visit.tier = next;
    visit.load = tier->load({wanted.begin(), wanted.end()});
    visit.last_news_us = clock_.now_us();
    note_front(seq);
    return;
  }
  stop(seq);
}

/// Who needs that block next waits for this load.
void TierLoads::note_front(const Sequence& seq) {
  std::erase_if(loading_, [&seq](const auto& entry) { return entry.second == seq.id; });
  if (seq.visit.next_block < wanted_blocks(seq))
    loading_.emplace(seq.visit.names[static_cast<size_t>(seq.visit.next_block)].path, seq.id);
}

void TierLoads::take_in(Sequence& seq) {
  TierVisit& visit = seq.visit;
  engine::BlockTier& tier = *tiers_[visit.tier];
  const int64_t began_us = clock_.now_us();
  if (blocks_left_ <= 0) {  // others had it all; that is nobody's fault
    visit.last_news_us = began_us;
    return;
  }
  const int32_t came = blocks_.adopt(
      seq, visit.next_block, static_cast<int32_t>(std::min<int64_t>(blocks_left_, INT32_MAX / 32)),
      [&](int32_t, kvcache::Pages pages) {
        if (tier.state(*visit.load).ready == 0) return false;
        tier.take(*visit.load, [&](std::span<const std::byte> bytes) { engine_.load_block(pages, bytes); });
        return true;
      });
  const int64_t now_us = clock_.now_us();
  if (came < 0) return stop(seq);  // the blocks before them made room for others
  if (came > 0) {
    note_copy(came, now_us - began_us);
    blocks_left_ -= came;
    visit.next_block += came;
    visit.came.at(visit.tier) += came;
    visit.last_news_us = now_us;
    note_front(seq);
  }
  const engine::BlockTier::LoadState state = tier.state(*visit.load);
  if (state.end && state.ready == 0) {
    visit.end = state.end;
    tier.end(*std::exchange(visit.load, std::nullopt));
    return next_tier(seq);
  }
  if (now_us - visit.last_news_us <= kLateUs) return;
  visit.late = state.ready == 0;  // else it is the pool that has no room
  if (visit.late) {
    ++tier.counters().loads_late;
    stuck_at_.at(visit.tier) = tier.counters().reads;
  }
  stop(seq);
}

void TierLoads::stop(Sequence& seq) {
  TierVisit& visit = seq.visit;
  if (visit.load) tiers_[visit.tier]->end(*std::exchange(visit.load, std::nullopt));
  std::erase_if(loading_, [&seq](const auto& entry) { return entry.second == seq.id; });
  visit.state = TierVisit::State::kDone;
}

void TierLoads::leave(Sequence& seq) {
  if (seq.visit.state == TierVisit::State::kLoading) stop(seq);
  seq.visit.state = TierVisit::State::kNotAsked;
}

void TierLoads::reset(const std::vector<Sequence*>& waiting) {
  for (engine::BlockTier* tier : tiers_)
    if (tier != nullptr) tier->forget_all();
  for (Sequence* seq : waiting) stop(*seq);
}

// --- out of the pool ---

void TierLoads::computed(Sequence& seq, int32_t index, BlockId block) {
  if (tiers_[kDiskTier] == nullptr) return;
  tiers_[kDiskTier]->save(name_of(seq, index),
                          [&](std::span<std::byte> into) { engine_.save_block(blocks_.whole_pages(block), into); });
}

bool TierLoads::can_swap(const Sequence& victim) const {
  return tiers_[kHostTier] != nullptr && victim.node_blocks > 0;
}

bool TierLoads::cheaper_to_swap(const Sequence& victim, const sizing::StepCost& cost) const {
  if (!can_swap(victim)) return false;
  if (!cost.known()) return true;  // memory is hardly ever slower than a model
  const double copying_us = 2 * copy_us_per_block_ * victim.node_blocks;
  return copying_us < static_cast<double>(cost.predict_us(sizing::chunk_work(0, victim.node_blocks * kBlockTokens)));
}

void TierLoads::swap_out(Sequence& victim) {
  const int64_t began_us = clock_.now_us();
  int64_t copied = 0;
  for (int32_t i = 0; i < victim.node_blocks; ++i) {
    const BlockId block = victim.blocks[static_cast<size_t>(i)];
    const kvcache::Pages pages = blocks_.whole_pages(block);
    if (blocks_.cache().references(block) > 1 || pages.empty())
      continue;  // behind a window there may be no whole block
    tiers_[kHostTier]->save(name_of(victim, i), [&](std::span<std::byte> into) {
      engine_.save_block(pages, into);
      ++copied;
    });
  }
  note_copy(copied, clock_.now_us() - began_us);
}

void TierLoads::note_copy(int64_t blocks, int64_t took_us) {
  if (blocks == 0) return;
  const double each = static_cast<double>(took_us) / static_cast<double>(blocks);
  copy_us_per_block_ += kNewest * (each - copy_us_per_block_);
}

}  // namespace pagoda::scheduler
