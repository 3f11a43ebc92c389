#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <string>

#include "core/clock.h"
#include "core/fresh_pages.h"
#include "core/huge_buffer.h"
#include "core/isa.h"
#include "core/log.h"
#include "core/machine.h"
#include "core/mapped_file.h"
#include "core/result.h"

namespace pagoda {
namespace {

Result<int> half_of(int n) {
  if (n % 2) return Error{Code::kInvalidRequest, "odd", "n"};
  return n / 2;
}
Result<int> quarter_of(int n) {
  PAGODA_TRY(const int half, half_of(n));
  return half_of(half);
}

TEST(Result, TryPassesTheErrorOn) {
  EXPECT_EQ(quarter_of(8).value(), 2);
  ASSERT_FALSE(quarter_of(6).ok());
  EXPECT_EQ(quarter_of(6).error().param, "n");
}

TEST(ResultDeathTest, ReadingTheWrongSideAborts) { EXPECT_DEATH((void)half_of(1).value(), "broken promise"); }

TEST(Isa, LevelsAreCheckedAgainstTheCpu) {
  EXPECT_EQ(isa::level("portable").value(), isa::kLevelPortable);
  EXPECT_EQ(isa::level("").value(), isa::detected());
  const auto unknown = isa::level("sse9");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("portable"), std::string::npos) << "the valid ones are listed";
  for (const char* name : {"avx2", "avx512"}) {
    const auto level = isa::level(name);
    if (level.ok()) {
      EXPECT_STREQ(isa::level_name(level.value()), name);
    } else {
      EXPECT_EQ(level.error().code, Code::kUnsupported);
    }
  }
}

TEST(MappedFile, MapsWholeFilesAndNamesTheMissing) {
  const std::string path = testing::TempDir() + "/pagoda_mapped";
  std::FILE* f = std::fopen(path.c_str(), "w");
  std::fputs("twelve bytes", f);
  std::fclose(f);
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(file.value().bytes().size(), 12u);
  EXPECT_EQ(0, std::memcmp(file.value().bytes().data(), "twelve bytes", 12));
  std::remove(path.c_str());

  const auto missing = MappedFile::open(path);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_EQ(missing.error().message.find(testing::TempDir()), std::string::npos) << "no folder in messages";
  EXPECT_FALSE(MappedFile::open(testing::TempDir()).ok()) << "a folder is not a file";
}

TEST(HugeBuffer, IsZeroAlignedAndWritable) {
  auto buffer = HugeBuffer::allocate(5 << 20);
  ASSERT_TRUE(buffer.ok());
  std::byte* data = buffer.value().data();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % (2 << 20), 0u);
  EXPECT_GE(buffer.value().bytes(), 5 << 20);
  EXPECT_EQ(data[(5 << 20) - 1], std::byte{0});
  data[(5 << 20) - 1] = std::byte{7};
  const HugeBuffer moved = std::move(buffer).take();
  EXPECT_EQ(moved.data()[(5 << 20) - 1], std::byte{7});
  EXPECT_EQ(HugeBuffer::allocate(0).value().data(), nullptr);
  EXPECT_FALSE(HugeBuffer::allocate(int64_t{1} << 60).ok());
}

// KiB of huge pages in the mapping that holds `at`.
int64_t huge_kib(const void* at) {
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    long long kib = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      here = begin <= reinterpret_cast<uintptr_t>(at) && reinterpret_cast<uintptr_t>(at) < end;
    if (here && std::sscanf(line.c_str(), "AnonHugePages: %lld kB", &kib) == 1) return kib;
  }
  return -1;
}

constexpr size_t kPart = 1 << 20, kParts = 24;

std::span<std::byte> whole(const HugeBuffer& buffer) { return {buffer.data(), static_cast<size_t>(buffer.bytes())}; }

// Commits and fills part after part: part i with bytes i + 1.
void fill(FreshPages& pages, const HugeBuffer& buffer) {
  for (size_t i = 0; i < kParts; ++i) {
    const std::span<std::byte> part = whole(buffer).subspan(i * kPart, kPart);
    pages.commit(part);
    ASSERT_EQ(part[0], std::byte{0});
    std::fill(part.begin(), part.end(), static_cast<std::byte>(i + 1));
    pages.commit(part);  // content stays
  }
}

// Goal: where huge pages are dear, memory comes in small ones, and its content survives becoming huge. Where the kernel
// grants huge pages at all, that is seen in its own account of the mapping.
TEST(FreshPages, GoesOverToSmallPagesAndBackWithoutLosingAByte) {
  int64_t all = 0;
  {
    const HugeBuffer buffer = HugeBuffer::allocate(kPart * kParts).take();
    FreshPages cheap(whole(buffer), {.huge_us = INT64_MAX, .small_us = INT64_MAX});
    fill(cheap, buffer);
    all = huge_kib(buffer.data());
    cheap.settle_later(0);
    cheap.settle_now();  // nothing to do
  }
  const HugeBuffer buffer = HugeBuffer::allocate(kPart * kParts).take();
  FreshPages dear(whole(buffer), {.huge_us = 0, .small_us = INT64_MAX});
  fill(dear, buffer);
  if (all > 0) {
    EXPECT_LE(huge_kib(buffer.data()), all / 2);
  }
  dear.settle_later(1'000'000);
  dear.settle_now();  // does not wait for the delay
  for (size_t i = 0; i < kParts * kPart; i += 512)
    ASSERT_EQ(buffer.data()[i], static_cast<std::byte>(i / kPart + 1)) << i;
  if (all > 0) {
    EXPECT_GT(huge_kib(buffer.data()), all / 2);
  }
}

// Goal: whoever leaves early does not wait for the background. Method: destruction within the delay.
TEST(FreshPages, EndsAtOnce) {
  const HugeBuffer buffer = HugeBuffer::allocate(64 << 20).take();
  FreshPages pages({buffer.data(), static_cast<size_t>(buffer.bytes())}, {.huge_us = 0, .small_us = INT64_MAX});
  for (int64_t at = 0; at < buffer.bytes(); at += 2 << 20) pages.commit({buffer.data() + at, 2 << 20});
  pages.settle_later(1'000'000);
}

TEST(Machine, ReadsWhatEveryLinuxHas) {
  const Machine m = inspect_machine();
  EXPECT_GE(m.affinity_cpus, 1);
  EXPECT_GT(m.memory_total_bytes, 0);
  EXPECT_GT(m.memory_available_bytes, 0);
  EXPECT_LE(m.memory_available_bytes, m.memory_total_bytes);
  EXPECT_GT(resident_bytes(), 0);
  EXPECT_GE(peak_resident_bytes(), resident_bytes());
  EXPECT_GE(huge_page_bytes(), 0);
  EXPECT_LE(huge_page_bytes(), resident_bytes());
  const CpuTicks ticks = cpu_ticks();
  EXPECT_GE(ticks.steal, 0);
  EXPECT_GT(ticks.total, ticks.steal);
}

TEST(Log, LevelsParse) {
  EXPECT_EQ(parse_log_level("warn").value(), LogLevel::kWarning);
  ASSERT_FALSE(parse_log_level("loud").ok());
  EXPECT_NE(parse_log_level("loud").error().message.find("debug, info"), std::string::npos);
}

TEST(Clock, FakeMovesOnlyWhenTold) {
  FakeClock fake;
  fake.advance_us(5);
  EXPECT_EQ(fake.now_us(), 5);
  const SteadyClock steady;
  const int64_t before = steady.now_us();
  EXPECT_GE(steady.now_us(), before);
}

}  // namespace
}  // namespace pagoda
