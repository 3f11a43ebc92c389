#include "weights/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace pagoda::weights {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// A folder of its own for the cache and the files of one test, gone afterwards.
class CatalogueTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "pagoda_catalogue_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    if (const char* old = std::getenv("XDG_CACHE_HOME")) old_cache_ = old;
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    if (old_cache_.empty())
      unsetenv("XDG_CACHE_HOME");
    else
      setenv("XDG_CACHE_HOME", old_cache_.c_str(), 1);
    fs::remove_all(folder_);
  }
  std::string touch(const std::string& name, uintmax_t bytes = 0) {
    const fs::path path = fs::path(folder_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path).close();
    fs::resize_file(path, bytes);
    return path;
  }
  std::string folder_, old_cache_;
};

// Goal: entries are complete and distinct, so that pull can trust them.
TEST(Catalogue, EntriesAreComplete) {
  std::set<std::string> names, files;
  for (const CatalogueEntry& entry : catalogue()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_TRUE(files.insert(entry.file).second) << entry.file;
    EXPECT_GT(entry.bytes, 0);
    EXPECT_EQ(entry.sha256.size(), 64u);
    EXPECT_EQ(entry.sha256.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_FALSE(entry.licence.empty());
    EXPECT_FALSE(entry.wheels.empty() && entry.hub.file.empty()) << entry.name;
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"smollm2:135m", "gemma3:270m", "qwen2.5-coder:1.5b"}));
}

// Goal: a name is found only when its file is whole; before, the message says what to run.
TEST_F(CatalogueTest, ResolvesANameOnceItIsPulled) {
  const CatalogueEntry& entry = *find_entry("smollm2:135m");
  EXPECT_THAT(resolve_model(entry.name).error().message, HasSubstr("pagoda pull smollm2:135m"));
  touch("pagoda/models/" + entry.file, entry.bytes - 1);
  EXPECT_FALSE(resolve_model(entry.name).ok());
  const std::string path = touch("pagoda/models/" + entry.file, entry.bytes);  // a sparse file
  ASSERT_TRUE(resolve_model(entry.name).ok());
  EXPECT_EQ(resolve_model(entry.name).value(), path);
}

// Goal: files, folders and mistakes: one model is taken, several are listed, typing errors are answered with names.
TEST_F(CatalogueTest, ResolvesFilesAndFolders) {
  const std::string one = touch("one/a.gguf"), split = touch("split/b-00001-of-00002.gguf");
  touch("split/b-00002-of-00002.gguf");
  touch("two/a.gguf");
  touch("two/b.gguf");
  fs::create_directories(folder_ + "/none");
  EXPECT_EQ(resolve_model(one).value(), one);
  EXPECT_EQ(resolve_model(folder_ + "/one").value(), one);
  EXPECT_EQ(resolve_model(folder_ + "/split").value(), split);
  EXPECT_THAT(resolve_model(folder_ + "/two").error().message, AllOf(HasSubstr("a.gguf"), HasSubstr("b.gguf")));
  EXPECT_EQ(resolve_model(folder_ + "/none").error().code, Code::kNotFound);
  EXPECT_THAT(resolve_model(folder_ + "/none/x.gguf").error().message,
              AllOf(HasSubstr("x.gguf"), Not(HasSubstr(folder_))));
  EXPECT_THAT(resolve_model("smolm2:135").error().message,
              AllOf(HasSubstr("gemma3:270m"), HasSubstr("did you mean smollm2:135m?")));
  EXPECT_THAT(resolve_model("gpt-5").error().message, Not(HasSubstr("did you mean")));
  EXPECT_FALSE(resolve_model("").ok());
  EXPECT_FALSE(resolve_model("/dev/null").ok());
}

}  // namespace
}  // namespace pagoda::weights
