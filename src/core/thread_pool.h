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

/// How a loop is cut into pieces: a piece is a (2 threads)-th of what is left, no less than `least` and no more than
/// `most` units: few are taken, and all threads end together. Source: Polychronopoulos and Kuck 1987, guided
/// self-scheduling.
struct Pieces {
  int32_t least = 1;
  int32_t most = INT32_MAX;
};

/// One thread's view of a sequence of parallel loops (ThreadPool::run_loops).
///
/// Every thread makes the same calls of each() in the same order. Pieces go to the thread that asks next, and a thread
/// waits for work to be done, never for another thread: one that the machine has put aside, or that comes late, finds
/// the loops done and catches up. On a shared machine that is the difference between losing its share and standing
/// still at every barrier.
class LoopWorker {
 public:
  int32_t index() const { return index_; }
  int32_t count() const { return count_; }

  /// body(Range) for the pieces of [0, units) that this thread gets. Returns once all units are done, by whomever; what
  /// they wrote is visible. Units must not depend on each other.
  template <class Body>
  void each(int32_t units, Pieces pieces, const Body& body) {
    Loop& loop = next_loop();
    for (Range piece = take(loop, units, pieces); !piece.empty(); piece = take(loop, units, pieces)) {
      body(piece);
      finish(loop, piece.size(), units);
    }
    wait(loop, units);
  }
  template <class Body>
  void each(int32_t units, const Body& body) {
    each(units, Pieces{}, body);
  }

 private:
  friend class ThreadPool;
  struct Loop;
  LoopWorker(ThreadPool& pool, int32_t index, int32_t count) : pool_(pool), index_(index), count_(count) {}
  Loop& next_loop();
  Range take(Loop& loop, int32_t units, Pieces pieces) const;
  void finish(Loop& loop, int32_t units_done, int32_t units);
  void wait(Loop& loop, int32_t units);

  ThreadPool& pool_;
  int32_t index_;
  int32_t count_;
  int32_t cursor_ = 0;
};

/// A fixed set of threads that run the same function together (single program, multiple data).
///
/// The calling thread is worker 0. Waiting threads spin briefly, then sleep on a futex, so an idle server uses no CPU.
/// run() and run_loops() may be called from one thread at a time. On every worker MXCSR is set to round-to-nearest with
/// subnormals kept, or two machines could disagree about a bit.
class ThreadPool {
 public:
  /// threads >= 1.
  explicit ThreadPool(int32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int32_t threads() const;

  /// Calls body(worker) once on each thread and returns when all have returned. body must not throw.
  void run(const std::function<void(Worker&)>& body);

  /// Calls body(worker) on this thread and on those that are awake in time, each at most once, and returns when all of
  /// them have returned. At most `loops` calls of each(). body must not throw.
  void run_loops(int32_t loops, const std::function<void(LoopWorker&)>& body);

 private:
  friend class Worker;
  friend class LoopWorker;
  struct State;
  std::unique_ptr<State> state_;
};

/// Threads to use when nobody says: CPUs in the affinity mask, lowered to the cgroup's CPU quota; at least 1.
int32_t default_threads();

}  // namespace pagoda
