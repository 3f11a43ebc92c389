#include "kernels/ops.h"

#include <gtest/gtest.h>

#include <cstring>

namespace pagoda::kernels {
namespace {

// Goal: a table for each level is whole and says its level: a null here would be a crash in a layer.
TEST(Ops, EveryLevelFillsTheTable) {
  for (uint32_t level : {isa::kLevelPortable, isa::kLevelAvx2, isa::kLevelAvx512}) {
    const Ops ops = make_ops(level);
    EXPECT_EQ(ops.isa, level);
    EXPECT_STREQ(ops.name, isa::level_name(level));
    EXPECT_TRUE(ops.matmul.packed_bytes && ops.matmul.pack && ops.matmul.matmul && ops.matmul.unpack_row);
    EXPECT_GE(ops.matmul.row_grain, 1);
    EXPECT_TRUE(ops.quantize_act && ops.kv_write && ops.attention && ops.rms_norm && ops.rope && ops.add && ops.scale);
    EXPECT_TRUE(ops.silu_mul && ops.gelu_mul && ops.softcap);
    EXPECT_TRUE(ops.arg_max && ops.log_sum_exp && ops.exp_shifted && ops.sum);
  }
}

// Goal: a forced level is obeyed: the portable table holds no kernel of another level, and two tables live side by side.
TEST(Ops, LevelsDoNotMix) {
  const Ops portable = make_ops(isa::kLevelPortable), avx2 = make_ops(isa::kLevelAvx2);
#if defined(__x86_64__)
  EXPECT_NE(portable.attention, avx2.attention);
  EXPECT_NE(portable.rms_norm, avx2.rms_norm);
  EXPECT_NE(portable.matmul.matmul, avx2.matmul.matmul);
  EXPECT_NE(avx2.matmul.matmul, make_ops(isa::kLevelAvx512).matmul.matmul);
#endif
  EXPECT_EQ(portable.attention, make_ops(isa::kNone).attention);
}

}  // namespace
}  // namespace pagoda::kernels
