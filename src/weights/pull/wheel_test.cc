#include "weights/pull/wheel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "weights/pull/wheel_for_test.h"

namespace pagoda::weights {
namespace {

class WheelTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "pagoda_wheel_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = pattern + "/a.whl";
  }
  void TearDown() override { std::filesystem::remove_all(std::filesystem::path(path_).parent_path()); }

  Result<std::string> extract(const std::string& zip, const std::string& member) {
    write_file(path_, zip);
    std::string out;
    PAGODA_TRY_STATUS(extract_member(path_, member, [&](std::span<const std::byte> piece) {
      out.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      return ok_status();
    }));
    return out;
  }
  std::string path_;
};

std::string compressible_bytes(size_t size) {
  std::mt19937 rng(20261130);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(rng() % 7 == 0 ? rng() : 'a');  // compressible, but not wholly
  return bytes;
}

// Goal: stored and deflated members come out whole, also over more than one piece, and empty.
TEST_F(WheelTest, ExtractsStoredAndDeflatedMembers) {
  const std::string big = compressible_bytes(3 << 20);
  for (const bool deflated : {false, true}) {
    const std::string zip = zip_of({{"a/empty", ""}, {"a/big.bin", big}, {"a/small", "xyz"}}, deflated);
    EXPECT_EQ(extract(zip, "a/big.bin").value(), big);
    EXPECT_EQ(extract(zip, "a/small").value(), "xyz");
    EXPECT_EQ(extract(zip, "a/empty").value(), "");
    EXPECT_EQ(extract(zip, "a/none").error().code, Code::kNotFound);
  }
}

// Goal: no damage passes: each byte of an archive is flipped, each length is cut; the member is refused or unchanged.
TEST_F(WheelTest, NoDamagePasses) {
  const std::string content = compressible_bytes(300);
  for (const bool deflated : {false, true}) {
    const std::string zip = zip_of({{"m", content}}, deflated);
    for (size_t i = 0; i < zip.size(); ++i) {
      std::string damaged = zip;
      damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
      const auto got = extract(damaged, "m");
      if (got.ok()) {
        EXPECT_EQ(got.value(), content) << "byte " << i;
      }
      EXPECT_FALSE(extract(zip.substr(0, i), "m").ok()) << "cut at " << i;
    }
  }
}

}  // namespace
}  // namespace pagoda::weights
