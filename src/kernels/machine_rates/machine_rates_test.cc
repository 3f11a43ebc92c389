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
  std::vector<std::byte> memory(size_t{32} << 20, std::byte{1});
  for (uint32_t level : {isa::kLevelPortable, isa::kLevelAvx2}) {
    if (!isa::covers(isa::detected(), level)) continue;
    const auto rates = measure_machine_rates(pool, level, memory);
    ASSERT_TRUE(rates.ok());
    const MachineRates& r = rates.value();
    std::printf("%s: %.1f GB/s, %.1f int GMAC/s, %.1f f32 GMAC/s, %.2f GHz\n", isa::level_name(level), r.bandwidth_gb_s,
                r.int_gmac_s, r.f32_gmac_s, r.clock_ghz);
    EXPECT_GT(r.clock_ghz, 0.3);
    EXPECT_LT(r.clock_ghz, 8.0);
    EXPECT_GT(r.bandwidth_gb_s, 0.5);
    EXPECT_LT(r.bandwidth_gb_s, 2000.0);
    EXPECT_GT(r.int_gmac_s, 0.1);
    EXPECT_LT(r.int_gmac_s, 256 * 8.0);
    EXPECT_GT(r.f32_gmac_s, 0.01);
    EXPECT_LT(r.f32_gmac_s, 64 * 8.0);
  }
}

// Goal: an empty or tiny region is no division by zero and no read past its end.
TEST(MachineRates, ReadsNothingFromNothing) {
  ThreadPool pool(2);
  const std::vector<std::byte> tiny(1000);
  EXPECT_EQ(read_gb_s(pool, {}), 0);
  EXPECT_EQ(read_gb_s(pool, tiny), 0);
}

}  // namespace
}  // namespace pagoda::kernels
