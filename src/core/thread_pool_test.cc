#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace pagoda {
namespace {

// Goal: shares cover [0, n) once, in order, cut at multiples of the grain.
TEST(Worker, SharesPartitionTheRange) {
  for (int32_t threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    for (int32_t n : {0, 1, 5, 64, 1000}) {
      for (int32_t grain : {1, 8, 32}) {
        std::vector<Range> shares(threads);
        pool.run([&](Worker& w) { shares[w.index()] = w.share(n, grain); });
        int32_t next = 0;
        for (const Range& r : shares) {
          EXPECT_EQ(r.begin, next);
          EXPECT_TRUE(r.begin % grain == 0 || r.begin == n);
          next = r.end;
        }
        EXPECT_EQ(next, n);
      }
    }
  }
}

// Goal: what any thread wrote before a barrier is seen by every thread after it. Method: each thread adds its part to a
// sum in turn; a missing or leaky barrier makes the running totals differ.
TEST(ThreadPool, BarrierSeparatesPhases) {
  for (int32_t threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    std::vector<int64_t> cell(threads, 0);
    std::atomic<int> wrong{0};
    for (int round = 0; round < 20; ++round) {
      pool.run([&](Worker& w) {
        for (int phase = 0; phase < 50; ++phase) {
          cell[w.index()] += w.index() + 1;
          w.barrier();
          int64_t sum = 0;
          for (int64_t c : cell) sum += c;
          const int64_t want = int64_t{round * 50 + phase + 1} * w.count() * (w.count() + 1) / 2;
          if (sum != want) ++wrong;
          w.barrier();
        }
      });
    }
    EXPECT_EQ(wrong.load(), 0) << threads << " threads";
  }
}

// Goal: a pool that slept (its threads on the futex) wakes for the next region, and run() returns only when all are
// done.
TEST(ThreadPool, WakesAfterSleeping) {
  ThreadPool pool(3);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> ran{0};
    pool.run([&](Worker&) { ++ran; });
    EXPECT_EQ(ran.load(), 3);
  }
}

TEST(DefaultThreads, IsAtLeastOne) { EXPECT_GE(default_threads(), 1); }

}  // namespace
}  // namespace pagoda
