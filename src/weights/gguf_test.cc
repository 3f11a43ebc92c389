#include "weights/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "weights/gguf_check.h"
#include "weights/gguf_parse.h"

namespace pagoda::weights {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

const std::string kMalformed = PAGODA_SHARED_DIR "/cases/malformed/";

// What `pagoda inspect` decides about a file.
Status judge(const std::string& path) {
  PAGODA_TRY(const auto file, GgufFile::open(path));
  return check_metadata(*file);
}

int64_t peak_rss_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Goal: every hostile or odd file is judged as the manifest says, in 50 ms and 16 MiB.
// Method: the shown manifest, each file opened and its keys checked.
TEST(Gguf, JudgesTheMalformedFilesAsTheManifestSays) {
  std::ifstream manifest(kMalformed + "manifest_dev.jsonl");
  ASSERT_TRUE(manifest) << "cases/malformed is missing";
  int files = 0;
  for (std::string line; std::getline(manifest, line);) {
    const auto row = nlohmann::json::parse(line);
    const std::string path = row.at("file"), expect = row.at("expect");
    if (!path.starts_with("gguf/")) continue;
    ++files;
    const int64_t rss_before = peak_rss_kib();
    const auto start = std::chrono::steady_clock::now();
    const Status status = judge(kMalformed + path);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (expect != "no_crash") {
      EXPECT_EQ(status.ok(), expect == "accept") << path << ": " << (status.ok() ? "accepted" : status.error().message);
    }
    EXPECT_LT(took.count(), 50) << path;
    EXPECT_LT(peak_rss_kib() - rss_before, 16 * 1024) << path;
  }
  EXPECT_GE(files, 30);
}

}  // namespace
}  // namespace pagoda::weights
