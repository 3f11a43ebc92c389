#include "core/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
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

/// A counter that threads wait on: spin first, then a futex. Waiters sleep only when `sleepers` says so.
struct Gate {
  std::atomic<uint32_t> value{0};
  std::atomic<int32_t> sleepers{0};

  void advance() {
    value.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) > 0)
      syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr);
  }

  void wait_while(uint32_t seen) {
    for (int i = 0; i < kSpinRounds; ++i) {
      if (value.load(std::memory_order_acquire) != seen) return;
      cpu_relax();
    }
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    while (value.load(std::memory_order_seq_cst) == seen) syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, seen, nullptr);
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
};

void pin_to_cpu_of(int32_t index) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int32_t left = index % std::max(1, CPU_COUNT(&allowed));
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || left-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    return;
  }
}

}  // namespace

struct ThreadPool::State {
  int32_t count = 1;
  bool pin = false;
  std::vector<std::thread> threads;
  const std::function<void(Worker&)>* body = nullptr;
  std::atomic<bool> stopping{false};

  alignas(64) Gate start;                       // advances once a run()
  alignas(64) Gate meet;                        // advances once a barrier
  alignas(64) std::atomic<int32_t> arrived{0};  // threads at the current barrier

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
};

ThreadPool::ThreadPool(int32_t threads, bool pin) : state_(std::make_unique<State>()) {
  PAGODA_CHECK(threads >= 1);
  State& s = *state_;
  s.count = threads;
  s.pin = pin;
  for (int32_t index = 1; index < threads; ++index) {
    s.threads.emplace_back([this, index, &s] {
      pthread_setname_np(pthread_self(), "pagoda-worker");
      if (s.pin) pin_to_cpu_of(index);
      set_float_environment();
      for (uint32_t seen = 0;; ++seen) {
        s.start.wait_while(seen);
        if (s.stopping.load(std::memory_order_acquire)) return;
        Worker worker(*this, index, s.count);
        (*s.body)(worker);
        s.barrier();
      }
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
  s.start.advance();
  Worker worker(*this, 0, s.count);
  body(worker);
  s.barrier();  // no thread may still be inside `body` when it goes out of scope
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
