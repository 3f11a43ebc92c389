#include "scheduler/queue_order.h"

#include <algorithm>
#include <unordered_map>

namespace pagoda::scheduler {

void insert_in_order(std::vector<Sequence*>& queue, Sequence* seq) {
  queue.insert(std::upper_bound(queue.begin(), queue.end(), seq, runs_before), seq);
}

void QueueOrder::arrive(Sequence& seq) {
  const Request& request = seq.owner->request;
  seq.standing.priority = request.priority;
  seq.standing.arrived_us = seq.times.arrived_us;
  seq.standing.uncached_tokens = seq.uncached_tokens();
  if (policy_ == Policy::kFair) {
    seq.account = shares_.enter(request.account);
    seq.standing.served = shares_.served(seq.account);
  }
  seq.rank = rank(policy_, seq.standing);
}

void QueueOrder::looked_up(Sequence& seq) const {
  if (!wants_reuse() || seq.times.scheduled_us >= 0) return;
  seq.standing.uncached_tokens = std::min(seq.standing.uncached_tokens, seq.uncached_tokens());
}

void QueueOrder::enter(Sequence& seq, int32_t uncached_tokens) {
  if (policy_ == Policy::kFair) shares_.charge(seq.account, uncached_tokens, 0);
}

void QueueOrder::generated(const Sequence& seq) {
  if (policy_ == Policy::kFair) shares_.charge(seq.account, 0, 1);
}

void QueueOrder::leave(const Sequence& seq) {
  if (policy_ == Policy::kFair) shares_.leave(seq.account);
}

/// One that waits counts what its account's earlier ones will take: else all of an account would come before others.
void QueueOrder::rank_fairly(const std::vector<Sequence*>& running, const std::vector<Sequence*>& waiting) const {
  for (Sequence* seq : running) seq->standing.served = shares_.served(seq->account);
  std::vector<Sequence*> by_arrival = waiting;
  std::sort(by_arrival.begin(), by_arrival.end(), [](const Sequence* a, const Sequence* b) { return a->id < b->id; });
  std::unordered_map<int32_t, int64_t> ahead;
  for (Sequence* seq : by_arrival) {
    int64_t& taken = ahead[static_cast<int32_t>(seq->account)];
    seq->standing.served = shares_.served(seq->account) + taken;
    const bool charged = seq->times.scheduled_us >= 0;                // it was preempted
    const int32_t prompt = seq->choice > 0 ? 1 : seq->prompt_tokens;  // the other choices find the first one's
    if (!charged) taken += shares_.price(seq->account, prompt, 0);
  }
}

void QueueOrder::refresh(std::vector<Sequence*>& running, std::vector<Sequence*>& waiting) const {
  if (policy_ == Policy::kFcfs || policy_ == Policy::kPriority) return;
  if (policy_ == Policy::kFair) rank_fairly(running, waiting);
  for (std::vector<Sequence*>* queue : {&running, &waiting})
    for (Sequence* seq : *queue) seq->rank = rank(policy_, seq->standing);
  std::sort(running.begin(), running.end(), runs_before);
  std::sort(waiting.begin(), waiting.end(), runs_before);
}

}  // namespace pagoda::scheduler
