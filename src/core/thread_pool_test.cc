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

// Goal: every unit of every loop is done exactly once, in pieces within their bounds, and a loop sees all of the one
// before. Method: loop l adds to each cell what it finds in its neighbour; a unit lost, doubled or early changes sums.
TEST(LoopWorker, DoesEveryUnitOnceAndInOrderOfLoops) {
  constexpr int32_t kLoops = 40;
  for (int32_t threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (int32_t units : {0, 1, 2, 7, 100}) {
      for (const Pieces pieces : {Pieces{}, Pieces{3, 3}, Pieces{1, 1}}) {
        std::vector<std::vector<int64_t>> cells(kLoops + 1, std::vector<int64_t>(units, 1));
        std::atomic<int> wrong{0};
        pool.run_loops(kLoops, [&](LoopWorker& w) {
          for (int32_t l = 0; l < kLoops; ++l) {
            w.each(units, pieces, [&](Range piece) {
              if (piece.begin < 0 || piece.end > units || piece.empty()) ++wrong;
              if (threads > 1 && piece.size() > pieces.most) ++wrong;
              for (int32_t u = piece.begin; u < piece.end; ++u) cells[l + 1][u] += cells[l][(u + 1) % units] % 1000;
            });
          }
        });
        std::vector<int64_t> want(units, 1), next(units);
        for (int32_t l = 0; l < kLoops; ++l) {
          for (int32_t u = 0; u < units; ++u) next[u] = 1 + want[(u + 1) % units] % 1000;
          want = next;
        }
        EXPECT_EQ(cells[kLoops], want) << threads << " threads, " << units << " units";
        EXPECT_EQ(wrong.load(), 0);
      }
    }
  }
}

// Goal: a thread that is put aside holds nobody up. Method: the others' body waits, outside of any loop, for worker 0
// to have finished all loops: with barriers neither would ever go on.
TEST(LoopWorker, DoesNotWaitForThreads) {
  ThreadPool pool(3);
  for (int round = 0; round < 50; ++round) {
    std::atomic<bool> all_done{false};
    std::atomic<int32_t> units{0};
    pool.run_loops(10, [&](LoopWorker& w) {
      while (w.index() != 0 && !all_done) std::this_thread::yield();
      for (int l = 0; l < 10; ++l) w.each(20, [&](Range piece) { units += piece.size(); });
      if (w.index() == 0) all_done = true;
    });
    EXPECT_EQ(units.load(), 200);
  }
}

// Goal: both kinds of regions follow each other, whoever overslept one.
TEST(ThreadPool, MixesRegions) {
  ThreadPool pool(3);
  for (int i = 0; i < 300; ++i) {
    std::atomic<int> ran{0}, units{0};
    pool.run_loops(1, [&](LoopWorker& w) { w.each(5, [&](Range piece) { units += piece.size(); }); });
    if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    pool.run([&](Worker&) { ++ran; });
    EXPECT_EQ(ran.load(), 3);
    EXPECT_EQ(units.load(), 5);
  }
}

TEST(DefaultThreads, IsAtLeastOne) { EXPECT_GE(default_threads(), 1); }

}  // namespace
}  // namespace pagoda
