#include <fmt/format.h>

#include <memory>
#include <vector>

#include "apps/bench.h"
#include "apps/exit_code.h"
#include "core/isa.h"
#include "core/thread_pool.h"

namespace pagoda::apps {
namespace {

struct MachineOptions {
  int32_t threads = 0;
  bool json = false;
};

struct ThreadRates {
  int32_t threads;
  kernels::ArithmeticRates rates;
};

/// Everything `bench machine` prints.
struct Report {
  Machine machine;
  std::string isa;
  int32_t threads;
  kernels::StreamRates streams;
  std::vector<ThreadRates> arithmetic;  // of one thread, then of all
  int64_t steal_ticks;
  double steal_percent;
};

Result<Report> measure(const MachineOptions& options) {
  PAGODA_TRY(const uint32_t isa, isa::level_from_environment());
  const StealWatch steal;
  ThreadPool one(1), all(options.threads > 0 ? options.threads : default_threads());
  Report report{};
  report.machine = inspect_machine();
  report.isa = isa::level_name(isa);
  report.threads = all.threads();
  PAGODA_TRY(report.streams, kernels::measure_streams(all));
  report.arithmetic.push_back({1, kernels::measure_arithmetic_rates(one, isa)});
  if (all.threads() > 1) report.arithmetic.push_back({all.threads(), kernels::measure_arithmetic_rates(all, isa)});
  report.steal_ticks = steal.ticks();
  report.steal_percent = steal.percent();
  return report;
}

void print_json(const Report& r) {
  nlohmann::ordered_json out = {{"cpu", r.machine.cpu_model},
                                {"isa", r.isa},
                                {"threads", r.threads},
                                {"affinity_cpus", r.machine.affinity_cpus},
                                {"cgroup_cpus", nullptr},
                                {"memory_total_bytes", r.machine.memory_total_bytes},
                                {"memory_available_bytes", r.machine.memory_available_bytes},
                                {"huge_pages", r.machine.huge_pages},
                                {"huge_pages_granted_percent", 100 * r.streams.huge_share}};
  if (r.machine.cgroup_cpus > 0) out["cgroup_cpus"] = r.machine.cgroup_cpus;
  out["reads"] = nlohmann::ordered_json::array();
  for (const kernels::StreamRate& s : r.streams.rates)
    out["reads"].push_back(
        {{"threads", s.threads}, {"streams", s.streams}, {"huge_pages", s.huge_pages}, {"gb_s", s.gb_s}});
  out["arithmetic"] = nlohmann::ordered_json::array();
  for (const ThreadRates& a : r.arithmetic)
    out["arithmetic"].push_back({{"threads", a.threads},
                                 {"int_gmac_s", a.rates.int_gmac_s},
                                 {"int_mac_per_cycle", mac_per_cycle(a.rates.int_gmac_s * 1e9, a.rates, a.threads)},
                                 {"f32_gmac_s", a.rates.f32_gmac_s},
                                 {"f32_mac_per_cycle", mac_per_cycle(a.rates.f32_gmac_s * 1e9, a.rates, a.threads)},
                                 {"clock_ghz", a.rates.clock_ghz}});
  out["steal_ticks"] = r.steal_ticks;
  out["steal_percent"] = r.steal_percent;
  fmt::print("{}\n", out.dump());
}

std::string threads_text(int32_t threads) { return threads == 1 ? "1 thread" : fmt::format("{} threads", threads); }

void print_table(const Report& r) {
  const Machine& m = r.machine;
  fmt::print("{}: {} of {} CPUs, cgroup quota {}, level {}\n", m.cpu_model, r.threads, m.affinity_cpus,
             m.cgroup_cpus > 0 ? fmt::format("{:.2f} CPUs", m.cgroup_cpus) : "none", r.isa);
  fmt::print("{:.1f} GB memory, {:.1f} available; huge pages {}, {:.0f} % granted; {} ticks stolen ({:.1f} %)\n\n",
             static_cast<double>(m.memory_total_bytes) * 1e-9, static_cast<double>(m.memory_available_bytes) * 1e-9,
             m.huge_pages, 100 * r.streams.huge_share, r.steal_ticks, r.steal_percent);
  fmt::print("{:<28} {:>12} {:>12}\n", "plain reads, GB/s", "1 stream", "4 streams");
  for (size_t i = 0; i + 1 < r.streams.rates.size(); i += 2) {
    const kernels::StreamRate &one = r.streams.rates[i], &four = r.streams.rates[i + 1];
    fmt::print("{:<28} {:>12.1f} {:>12.1f}\n",
               fmt::format("{}, {}", threads_text(one.threads), one.huge_pages ? "huge pages" : "4 KiB pages"),
               one.gb_s, four.gb_s);
  }
  fmt::print("\n{:<28} {:>12} {:>12} {:>8}\n", "arithmetic (MAC/cycle)", "int8 GMAC/s", "f32 GMAC/s", "GHz");
  for (const ThreadRates& a : r.arithmetic) {
    const auto cell = [&](double gmac_s) {
      return fmt::format("{:.0f} ({:.1f})", gmac_s, mac_per_cycle(gmac_s * 1e9, a.rates, a.threads));
    };
    fmt::print("{:<28} {:>12} {:>12} {:>8.2f}\n", threads_text(a.threads), cell(a.rates.int_gmac_s),
               cell(a.rates.f32_gmac_s), a.rates.clock_ghz);
  }
}

}  // namespace

void add_bench_machine(CLI::App& bench, Invocation& invocation) {
  CLI::App* verb =
      bench.add_subcommand("machine", "What this machine can do at most: memory, arithmetic, clock, steal");
  auto options = std::make_shared<MachineOptions>();
  verb->add_option("--threads", options->threads, "threads beside the run with one (0: all CPUs)")
      ->check(CLI::Range(0, 1024));
  verb->add_flag("--json", options->json, "print one JSON object");
  verb->footer(
      "Example:\n  pagoda bench machine\n"
      "Reads are plain sums over 256 MiB; arithmetic runs in registers at the level in use (PAGODA_ISA); the best of\n"
      "several rounds counts. These are the limits that the other benches are held to.");
  verb->callback([&invocation, options] {
    invocation.run = [options] {
      const Result<Report> report = measure(*options);
      if (!report.ok()) return fail("bench", report.error());
      if (options->json)
        print_json(report.value());
      else
        print_table(report.value());
      return kDone;
    };
  });
}

}  // namespace pagoda::apps
