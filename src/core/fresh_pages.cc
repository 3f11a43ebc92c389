#include "core/fresh_pages.h"

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>

#include "core/check.h"

namespace pagoda {
namespace {

constexpr uintptr_t kPage = 4096;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int32_t kDearInARow = 2;          // one may be bad luck
constexpr int64_t kCommitted = 50;          // us for 2 MiB: quicker than any zeroing, so it was there already
constexpr int64_t kJudgedBytes = 64 << 10;  // of small pages: below, the system call itself counts too much
constexpr int64_t kPausesPerWork = 7;       // an eighth of one CPU
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/// CPU time of this thread: being preempted costs none, being stopped by the host mostly does.
int64_t thread_us() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

enum class Mode : int32_t { kHuge, kSmall, kHugeForGood };

}  // namespace

struct FreshPages::State {
  std::span<std::byte> memory;
  Limits limits;
  std::atomic<Mode> mode{Mode::kHuge};
  std::atomic<int32_t> dear_in_a_row{0};
  std::atomic<bool> any_small{false};

  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false, hurry = false, settled = true;
  std::thread thread;

  void advise(int advice) { ::madvise(memory.data(), memory.size(), advice); }

  void judge(uintptr_t begin, uintptr_t end, int64_t us) {
    const Mode now = mode.load(std::memory_order_relaxed);
    const auto bytes = static_cast<int64_t>(end - begin);
    if (now == Mode::kHugeForGood || (now == Mode::kSmall && bytes < kJudgedBytes)) return;
    const uintptr_t huge = kHugePage;
    const auto huge_pages = static_cast<int64_t>((end + huge - 1) / huge - begin / huge);
    const int64_t us_a_page = now == Mode::kHuge ? us / huge_pages : us * kHugePage / bytes;
    if (us_a_page < kCommitted) return;
    const bool dear = us_a_page > (now == Mode::kHuge ? limits.huge_us : limits.small_us);
    if (!dear) {
      dear_in_a_row.store(0, std::memory_order_relaxed);
      return;
    }
    if (dear_in_a_row.fetch_add(1, std::memory_order_relaxed) + 1 < kDearInARow) return;
    const std::lock_guard lock(mutex);
    if (mode.load(std::memory_order_relaxed) != now) return;  // another thread was first
    const Mode next = now == Mode::kHuge ? Mode::kSmall : Mode::kHugeForGood;
    advise(next == Mode::kSmall ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    if (next == Mode::kSmall) any_small.store(true, std::memory_order_relaxed);
    dear_in_a_row.store(0, std::memory_order_relaxed);
    mode.store(next, std::memory_order_relaxed);
  }

  /// True if the thread shall go on.
  bool pause(std::unique_lock<std::mutex>& lock, std::chrono::microseconds time) {
    changed.wait_for(lock, time, [this] { return stopping || hurry; });
    return !stopping;
  }

  void settle(int64_t delay_ms) {
    pthread_setname_np(pthread_self(), "pagoda-pages");
    std::unique_lock lock(mutex);
    bool going = pause(lock, std::chrono::milliseconds(delay_ms));
    const auto pages = static_cast<int64_t>(memory.size()) / kHugePage;
    for (int64_t page = 0; going && page < pages; ++page) {
      lock.unlock();
      const auto begin = std::chrono::steady_clock::now();
      ::madvise(memory.data() + page * kHugePage, kHugePage, MADV_COLLAPSE);  // where refused, the page stays as it is
      const auto took = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
      lock.lock();
      going = pause(lock, took * kPausesPerWork);
    }
    settled = true;
    changed.notify_all();
  }
};

FreshPages::FreshPages(std::span<std::byte> memory) : FreshPages(memory, Limits{}) {}

FreshPages::FreshPages(std::span<std::byte> memory, Limits limits) : state_(std::make_unique<State>()) {
  PAGODA_CHECK(static_cast<int64_t>(memory.size()) % kHugePage == 0);
  state_->memory = memory;
  state_->limits = limits;
}

FreshPages::~FreshPages() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

void FreshPages::commit(std::span<std::byte> part) {
  State& s = *state_;
  const auto base = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t begin = base / kPage * kPage, end = (base + part.size() + kPage - 1) / kPage * kPage;
  if (begin == end) return;
  const int64_t before = thread_us();
  // An older kernel refuses: then writing commits, and nothing is known of its cost.
  if (::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE) != 0) return;
  s.judge(begin, end, thread_us() - before);
}

void FreshPages::settle_later(int64_t delay_ms) {
  State& s = *state_;
  if (!s.any_small.load(std::memory_order_relaxed)) return;
  s.advise(MADV_HUGEPAGE);  // where collapsing is refused, the kernel's own thread will get to it in time
  s.settled = false;
  s.thread = std::thread([&s, delay_ms] { s.settle(delay_ms); });
}

void FreshPages::settle_now() {
  std::unique_lock lock(state_->mutex);
  state_->hurry = true;
  state_->changed.notify_all();
  state_->changed.wait(lock, [this] { return state_->settled; });
}

}  // namespace pagoda
