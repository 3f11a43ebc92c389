#include "core/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "core/ids.h"
#include "core/machine.h"

namespace pagoda {
namespace {

constexpr int kSpinRounds = 4000;  // about 40 us of `pause`: longer than a barrier, shorter than a scheduling slice

void cpu_relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

void set_float_environment() {
#if defined(__x86_64__)
  _mm_setcsr(0x1f80);  // round to nearest, subnormals kept, exceptions masked
#endif
}

/// A counter of events that threads wait for: they spin first, then sleep on a futex.
struct Gate {
  std::atomic<uint32_t> value{0};
  std::atomic<int32_t> sleepers{0};

  void advance() {
    value.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) > 0)
      syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr);
  }

  /// Until ready(); whoever makes it so calls advance() afterwards.
  template <class Ready>
  void wait_until(const Ready& ready) {
    for (int i = 0; i < kSpinRounds; ++i) {
      if (ready()) return;
      cpu_relax();
    }
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    for (;;) {
      const uint32_t seen = value.load(std::memory_order_seq_cst);
      if (ready()) break;
      syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, seen, nullptr);
    }
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
  void wait_while(uint32_t seen) {
    wait_until([&] { return value.load(std::memory_order_seq_cst) != seen; });
  }
};

/// Who is inside a region: its number above, then whether it can still be entered, then how many workers are in it.
constexpr uint64_t kOpen = uint64_t{1} << 31;
constexpr uint64_t kInside = kOpen - 1;
constexpr int kRegionShift = 32;

}  // namespace

struct alignas(64) LoopWorker::Loop {
  std::atomic<int32_t> taken{0};
  std::atomic<int32_t> done{0};
};

struct ThreadPool::State {
  int32_t count = 1;
  std::vector<std::thread> threads;
  const std::function<void(Worker&)>* body = nullptr;  // one of the two
  const std::function<void(LoopWorker&)>* loops_body = nullptr;
  std::atomic<bool> stopping{false};
  std::unique_ptr<LoopWorker::Loop[]> loops;
  int32_t loops_capacity = 0, loops_used = 0;

  alignas(64) Gate start;                        // advances once a region
  alignas(64) std::atomic<uint64_t> entries{0};  // see kOpen
  alignas(64) Gate left;                         // advances when the last worker leaves a closed region
  alignas(64) Gate finished;                     // advances when a loop is done
  alignas(64) Gate meet;                         // advances once a barrier
  alignas(64) std::atomic<int32_t> arrived{0};   // threads at the current barrier

  void barrier() {
    if (count == 1) return;
    const uint32_t seen = meet.value.load(std::memory_order_acquire);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) == count - 1) {
      arrived.store(0, std::memory_order_relaxed);
      meet.advance();
    } else {
      meet.wait_while(seen);
    }
  }

  void open() {
    entries.store(uint64_t{start.value.load(std::memory_order_relaxed) + 1} << kRegionShift | kOpen,
                  std::memory_order_seq_cst);
    start.advance();
  }

  /// False when region `number` is over, or closed to those who are not in it yet.
  bool enter(uint32_t number) {
    uint64_t seen = entries.load(std::memory_order_seq_cst);
    do {
      if (seen >> kRegionShift != number || (seen & kOpen) == 0) return false;
    } while (!entries.compare_exchange_weak(seen, seen + 1, std::memory_order_seq_cst));
    return true;
  }

  void leave() {
    const uint64_t before = entries.fetch_sub(1, std::memory_order_seq_cst);
    if ((before & kOpen) == 0 && (before & kInside) == 1) left.advance();
  }

  /// Returns when nobody is inside; nobody can enter any more.
  void close() {
    entries.fetch_and(~kOpen, std::memory_order_seq_cst);
    left.wait_until([&] { return (entries.load(std::memory_order_seq_cst) & kInside) == 0; });
  }

  void work(ThreadPool& pool, int32_t index) {
    for (uint32_t seen = 0;;) {
      start.wait_while(seen);
      seen = start.value.load(std::memory_order_seq_cst);
      if (stopping.load(std::memory_order_acquire)) return;
      if (!enter(seen)) continue;
      if (body != nullptr) {
        Worker worker(pool, index, count);
        (*body)(worker);
        barrier();
      } else {
        LoopWorker worker(pool, index, count);
        (*loops_body)(worker);
      }
      leave();
    }
  }
};

ThreadPool::ThreadPool(int32_t threads) : state_(std::make_unique<State>()) {
  PAGODA_CHECK(threads >= 1);
  State& s = *state_;
  s.count = threads;
  for (int32_t index = 1; index < threads; ++index) {
    s.threads.emplace_back([this, index, &s] {
      pthread_setname_np(pthread_self(), "pagoda-worker");
      set_float_environment();
      s.work(*this, index);
    });
  }
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true, std::memory_order_release);
  state_->start.advance();
  for (std::thread& t : state_->threads) t.join();
}

int32_t ThreadPool::threads() const { return state_->count; }

void ThreadPool::run(const std::function<void(Worker&)>& body) {
  State& s = *state_;
  set_float_environment();
  s.body = &body;
  s.open();
  Worker worker(*this, 0, s.count);
  body(worker);
  s.barrier();  // all have come, so all will
  s.close();
  s.body = nullptr;
}

void ThreadPool::run_loops(int32_t loops, const std::function<void(LoopWorker&)>& body) {
  State& s = *state_;
  set_float_environment();
  if (loops > s.loops_capacity) {
    s.loops = std::make_unique<LoopWorker::Loop[]>(static_cast<size_t>(loops));
    s.loops_capacity = loops;
    s.loops_used = 0;
  }
  for (int32_t i = 0; i < s.loops_used; ++i) {
    s.loops[static_cast<size_t>(i)].taken.store(0, std::memory_order_relaxed);
    s.loops[static_cast<size_t>(i)].done.store(0, std::memory_order_relaxed);
  }
  s.loops_body = &body;
  s.open();
  LoopWorker worker(*this, 0, s.count);
  body(worker);
  s.loops_used = worker.cursor_;
  s.close();
  s.loops_body = nullptr;
}

LoopWorker::Loop& LoopWorker::next_loop() {
  ThreadPool::State& s = *pool_.state_;
  PAGODA_CHECK(cursor_ < s.loops_capacity);
  return s.loops[static_cast<size_t>(cursor_++)];
}

Range LoopWorker::take(Loop& loop, int32_t units, Pieces pieces) const {
  int32_t begin = loop.taken.load(std::memory_order_relaxed), size = 0;
  do {
    const int32_t left = units - begin;
    if (left <= 0) return {units, units};
    size = count_ == 1 ? left : std::min(left, std::clamp(left / (2 * count_), pieces.least, pieces.most));
  } while (!loop.taken.compare_exchange_weak(begin, begin + size, std::memory_order_relaxed));
  return {begin, begin + size};
}

void LoopWorker::finish(Loop& loop, int32_t units_done, int32_t units) {
  if (loop.done.fetch_add(units_done, std::memory_order_seq_cst) + units_done == units && count_ > 1)
    pool_.state_->finished.advance();
}

void LoopWorker::wait(Loop& loop, int32_t units) {
  pool_.state_->finished.wait_until([&] { return loop.done.load(std::memory_order_seq_cst) == units; });
}

void Worker::barrier() { pool_.state_->barrier(); }

Range Worker::share(int32_t n, int32_t grain) const {
  const int64_t units = div_ceil(int64_t{n}, int64_t{grain});
  const auto cut = [&](int64_t i) { return static_cast<int32_t>(std::min<int64_t>(n, units * i / count_ * grain)); };
  return {cut(index_), cut(index_ + 1)};
}

int32_t default_threads() {
  const Machine machine = inspect_machine();
  int32_t threads = machine.affinity_cpus;
  if (machine.cgroup_cpus > 0) threads = std::min(threads, static_cast<int32_t>(std::floor(machine.cgroup_cpus)));
  return std::max(1, threads);
}

}  // namespace pagoda
