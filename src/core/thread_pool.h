#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "core/tensor_view.h"

namespace pagoda {

class ThreadPool;

/// One thread's view of a parallel region: who it is, what share is its own, where all meet.
class Worker {
 public:
  int32_t index() const { return index_; }
  int32_t count() const { return count_; }

  /// Contiguous share of [0, n) for this thread, cut at multiples of `grain`. The cut depends on n, grain and
  /// the thread count alone, so a thread always reads the same weights.
  Range share(int32_t n, int32_t grain = 1) const;

  /// Returns once every thread of the region has arrived; what they wrote before is visible after.
  void barrier();

 private:
  friend class ThreadPool;
  Worker(ThreadPool& pool, int32_t index, int32_t count) : pool_(pool), index_(index), count_(count) {}
  ThreadPool& pool_;
  int32_t index_;
  int32_t count_;
};

/// A fixed set of threads that run the same function together (single program, multiple data).
///
/// The calling thread is worker 0. Waiting threads spin briefly, then sleep on a futex, so an idle server uses no CPU.
/// run() may be called from one thread at a time. On every worker MXCSR is set to round-to-nearest with subnormals
/// kept, or two machines could disagree about a bit.
class ThreadPool {
 public:
  /// threads >= 1. `pin` binds worker i to the i-th CPU of the process's affinity mask.
  explicit ThreadPool(int32_t threads, bool pin = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int32_t threads() const;

  /// Calls body(worker) once on each thread and returns when all have returned. body must not throw.
  void run(const std::function<void(Worker&)>& body);

 private:
  friend class Worker;
  struct State;
  std::unique_ptr<State> state_;
};

/// Threads to use when nobody says: CPUs in the affinity mask, lowered to the cgroup's CPU quota; at least 1.
int32_t default_threads();

}  // namespace pagoda
