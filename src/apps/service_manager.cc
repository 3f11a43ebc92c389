#include "apps/service_manager.h"

#include <fmt/format.h>
#include <systemd/sd-daemon.h>

#include <chrono>
#include <string>

namespace pagoda::apps {

void ServiceManager::ready(const std::string& status, std::function<int64_t()> last_step_us) {
  sd_notify(0, fmt::format("READY=1\nSTATUS={}", status).c_str());
  uint64_t limit_us = 0;
  if (sd_watchdog_enabled(0, &limit_us) <= 0) return;
  last_step_us_ = std::move(last_step_us);
  watcher_ = std::thread([this, limit_us] { watch(std::chrono::microseconds(limit_us / 4)); });
}

void ServiceManager::watch(std::chrono::microseconds period) {
  int64_t seen = -1;
  std::unique_lock lock(mutex_);
  while (!end_) {
    if (const int64_t now = last_step_us_(); now != seen) {
      seen = now;
      sd_notify(0, "WATCHDOG=1");
    }
    ended_.wait_for(lock, period, [this] { return end_; });
  }
}

void ServiceManager::stopping() { sd_notify(0, "STOPPING=1"); }

ServiceManager::~ServiceManager() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

}  // namespace pagoda::apps
