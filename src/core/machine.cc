#include "core/machine.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace pagoda {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// The value after `key` in a file of "key value" or "key: value" lines, -1 when absent.
int64_t field(const std::string& text, const std::string& key) {
  std::istringstream in(text);
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t digit = line.find_first_of("0123456789", key.size());
    if (digit != std::string::npos) return std::strtoll(line.c_str() + digit, nullptr, 10);
  }
  return -1;
}

int64_t number_in(const std::string& path) {
  const std::string text = read_text(path);
  if (text.empty() || text[0] < '0' || text[0] > '9') return -1;  // absent, or "max"
  return std::strtoll(text.c_str(), nullptr, 10);
}

std::string huge_page_mode() {
  const std::string text = read_text("/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos) return "unknown";
  return text.substr(open + 1, close - open - 1);
}

double cgroup_cpu_quota() {
  std::istringstream v2(read_text("/sys/fs/cgroup/cpu.max"));
  double quota = 0, period = 0;
  if (v2 >> quota >> period && period > 0) return quota / period;
  const int64_t quota_us = number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  const int64_t period_us = number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  return quota_us > 0 && period_us > 0 ? static_cast<double>(quota_us) / static_cast<double>(period_us) : 0;
}

void apply_cgroup_memory(Machine& m) {
  int64_t limit = number_in("/sys/fs/cgroup/memory.max");
  int64_t used = number_in("/sys/fs/cgroup/memory.current");
  if (limit < 0) {
    limit = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    used = number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes");
  }
  if (limit <= 0 || limit >= m.memory_total_bytes) return;
  m.memory_total_bytes = limit;
  m.memory_available_bytes =
      std::min(m.memory_available_bytes, std::max<int64_t>(0, limit - std::max<int64_t>(0, used)));
}

}  // namespace

Machine inspect_machine() {
  Machine m;
  const std::string cpuinfo = read_text("/proc/cpuinfo");
  const size_t at = cpuinfo.find("model name");
  if (at != std::string::npos) {
    const size_t colon = cpuinfo.find(": ", at), end = cpuinfo.find('\n', at);
    if (colon != std::string::npos && colon < end) m.cpu_model = cpuinfo.substr(colon + 2, end - colon - 2);
  }
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) m.affinity_cpus = std::max(1, CPU_COUNT(&allowed));
  m.cgroup_cpus = cgroup_cpu_quota();
  const std::string meminfo = read_text("/proc/meminfo");
  m.memory_total_bytes = std::max<int64_t>(0, field(meminfo, "MemTotal")) * 1024;
  m.memory_available_bytes = std::max<int64_t>(0, field(meminfo, "MemAvailable")) * 1024;
  apply_cgroup_memory(m);
  m.huge_pages = huge_page_mode();
  return m;
}

int64_t resident_bytes() { return std::max<int64_t>(0, field(read_text("/proc/self/status"), "VmRSS")) * 1024; }
int64_t peak_resident_bytes() { return std::max<int64_t>(0, field(read_text("/proc/self/status"), "VmHWM")) * 1024; }

int64_t huge_page_bytes() {
  return std::max<int64_t>(0, field(read_text("/proc/self/smaps_rollup"), "AnonHugePages")) * 1024;
}

CpuTicks cpu_ticks() {
  std::istringstream in(read_text("/proc/stat"));
  std::string cpu;
  CpuTicks ticks{0, 0};
  in >> cpu;
  for (int i = 0; i < 8 && in >> ticks.steal; ++i) ticks.total += ticks.steal;
  return ticks;  // user nice system idle iowait irq softirq steal: steal is the eighth
}

}  // namespace pagoda
