#pragma once
#include <cstdint>
#include <string>

namespace pagoda {

/// What the process may use of the machine it runs on.
struct Machine {
  std::string cpu_model;               // as /proc/cpuinfo names it
  int32_t affinity_cpus = 1;           // CPUs the scheduler may put us on
  double cgroup_cpus = 0;              // CPU quota of the cgroup, 0 = none
  int64_t memory_available_bytes = 0;  // MemAvailable, lowered to what the cgroup limit leaves
  int64_t memory_total_bytes = 0;      // MemTotal, lowered to the cgroup limit
  std::string huge_pages;              // "always", "madvise", "never" or "unknown" (transparent huge pages)
};

/// Reads /proc and /sys; what cannot be read keeps its default.
Machine inspect_machine();

/// Resident set of this process now and at its highest, bytes.
int64_t resident_bytes();
int64_t peak_resident_bytes();

/// Bytes of this process's anonymous memory in huge pages now.
int64_t huge_page_bytes();

/// Ticks of all CPUs since boot (/proc/stat): what the hypervisor took from us, and all there were.
struct CpuTicks {
  int64_t steal;
  int64_t total;
};
CpuTicks cpu_ticks();

}  // namespace pagoda
