#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace pagoda::apps {

/// Tells systemd how the service does (sd_notify(3)): ready, stopping, and, where the unit has WatchdogSec, that the
/// serving loop still turns. Does nothing where no service manager asks (no NOTIFY_SOCKET).
class ServiceManager {
 public:
  ServiceManager() = default;
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  /// From now on the service is ready. `last_step_us` grows while the serving loop lives, also when it has no work;
  /// another thread calls it until this object ends. A loop that stands for a whole WatchdogSec is not vouched for.
  void ready(const std::string& status, std::function<int64_t()> last_step_us);
  /// No new work is taken; what runs may finish. Any thread.
  static void stopping();

 private:
  void watch(std::chrono::microseconds period);

  std::function<int64_t()> last_step_us_;
  std::thread watcher_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
};

}  // namespace pagoda::apps
