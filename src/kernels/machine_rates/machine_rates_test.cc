#include "kernels/machine_rates.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "core/isa.h"

namespace pagoda::kernels {
namespace {

// Goal: the rates are real numbers of this machine at every level. Method: bounds that any x86-64 of the last decade
// keeps (a loop the compiler removed would show thousands of GMAC/s a cycle), and the arithmetic of one cycle: no core
// does more than 256 int8 or 64 f32 MACs.
TEST(MachineRates, AreWithinWhatHardwareCanDo) {
  ThreadPool pool(1);
  for (uint32_t level : {isa::kLevelPortable, isa::kLevelAvx2, isa::kLevelAvx512}) {
    if (!isa::covers(isa::detected(), level)) {
      std::printf("%s: not on this CPU\n", isa::level_name(level));
      continue;
    }
    const ArithmeticRates r = measure_arithmetic_rates(pool, level);
    std::printf("%s: %.1f int GMAC/s, %.1f f32 GMAC/s, %.2f GHz\n", isa::level_name(level), r.int_gmac_s, r.f32_gmac_s,
                r.clock_ghz);
    EXPECT_GT(r.clock_ghz, 0.3);
    EXPECT_LT(r.clock_ghz, 8.0);
    EXPECT_GT(r.int_gmac_s, 0.1);
    EXPECT_LT(r.int_gmac_s, 256 * 8.0);
    EXPECT_GT(r.f32_gmac_s, 0.01);
    EXPECT_LT(r.f32_gmac_s, 64 * 8.0);
  }
}

// Goal: a pass reads its memory, whole and at a possible speed. Method: bounds as above.
TEST(MachineRates, ReadsMemory) {
  ThreadPool pool(2);
  const std::vector<std::byte> memory(size_t{32} << 20, std::byte{1});
  EXPECT_GT(read_gb_s(pool, memory), 0.1);
  EXPECT_LT(read_gb_s(pool, memory), 4000.0);
}

// Goal: an empty or tiny region is no division by zero and no read past its end.
TEST(MachineRates, ReadsNothingFromNothing) {
  ThreadPool pool(2);
  const std::vector<std::byte> tiny(1000);
  EXPECT_EQ(read_gb_s(pool, {}), 0);
  EXPECT_EQ(read_gb_s(pool, tiny), 0);
}

// Goal: both a cache's and the memory's rate come out, whichever is larger under instrumentation and neighbours.
// Method: 16 KiB a thread is the first-level cache of every CPU, 256 MiB none's; bounds of hardware, no comparison of
// times.
TEST(MachineRates, ResidentReadsAreWithinWhatHardwareCanDo) {
  ThreadPool pool(1);
  for (const int64_t bytes : {int64_t{16} << 10, int64_t{256} << 20}) {
    const auto rate = resident_read_gb_s(pool, bytes);
    ASSERT_TRUE(rate.ok());
    EXPECT_GT(rate.value(), 0.1) << bytes;
    EXPECT_LT(rate.value(), 4000.0) << bytes;
  }
}

// Goal: every combination is measured once. Method: the list, by hand.
TEST(MachineRates, StreamsCoverThreadsPagesAndStreams) {
  for (const int32_t threads : {1, 2}) {
    ThreadPool pool(threads);
    const auto measured = measure_streams(pool);
    ASSERT_TRUE(measured.ok());
    const StreamRates& streams = measured.value();
    EXPECT_EQ(streams.rates.size(), threads == 1 ? 4u : 8u);
    EXPECT_GE(streams.huge_share, 0.0);
    EXPECT_LE(streams.huge_share, 1.0);
    for (const StreamRate& rate : streams.rates) {
      EXPECT_TRUE(rate.threads == 1 || rate.threads == threads);
      EXPECT_TRUE(rate.streams == 1 || rate.streams == 4);
      EXPECT_GT(rate.gb_s, 0.1);
      EXPECT_LT(rate.gb_s, 4000.0);
    }
  }
}

}  // namespace
}  // namespace pagoda::kernels
