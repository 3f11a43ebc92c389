#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include "apps/bench.h"
#include "apps/bench_kernel_cases.h"
#include "apps/exit_code.h"
#include "apps/loaded_model.h"
#include "core/isa.h"
#include "kernels/machine_rates.h"
#include "weights/catalogue.h"

namespace pagoda::apps {
namespace {

constexpr double kResidentSeconds = 0.002;  // a measurement of operands in cache: many calls

struct KernelsOptions {
  std::string model;
  int32_t rounds = 9;
  int32_t threads = 0;
  bool json = false;
};

/// One operator, measured: medians over the rounds.
struct KernelRow {
  KernelCase what;
  double seconds;  // a call
  double percent;  // of the limit
  bool memory_bound;
};

struct ModelRows {
  std::string model;
  double bandwidth_gb_s;
  std::vector<KernelRow> rows;
};

/// Measures the cases of one model, all of them once a round.
class KernelBench {
 public:
  KernelBench(const KernelCases& cases, ThreadPool& pool, const kernels::ArithmeticRates& rates)
      : cases_(cases), pool_(pool), rates_(rates) {}

  Result<ModelRows> run(std::vector<KernelCase> cases, int32_t rounds) {
    std::vector<std::vector<double>> seconds(cases.size()), percents(cases.size());
    std::vector<KernelRow> rows;
    for (KernelCase& one : cases) {
      PAGODA_TRY_STATUS(prepare(one));
      rows.push_back({one, 0, 0, false});
    }
    for (int32_t r = 0; r < rounds; ++r) {
      fmt::print(stderr, "round {}/{}\n", r + 1, rounds);
      for (size_t i = 0; i < rows.size(); ++i) measure(rows[i], seconds[i], percents[i]);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].seconds = median_of(seconds[i]);
      rows[i].percent = median_of(percents[i]);
    }
    return ModelRows{"", median_of(reads_), std::move(rows)};
  }

 private:
  /// Seconds that all threads take for `calls` calls.
  double time(const KernelCase& one, int32_t calls) {
    std::chrono::steady_clock::time_point begin, end;
    pool_.run([&](Worker& worker) {
      worker.barrier();  // all are awake
      if (worker.index() == 0) begin = std::chrono::steady_clock::now();
      for (int32_t call = 0; call < calls; ++call) one.body(worker, call);
      worker.barrier();
      if (worker.index() == 0) end = std::chrono::steady_clock::now();
    });
    return std::chrono::duration<double>(end - begin).count();
  }

  /// How many calls fill a measurement, and how fast the cache is that their operands lie in.
  Status prepare(KernelCase& one) {
    if (one.resident_bytes == 0) return ok_status();
    one.calls = 1;
    while (time(one, one.calls) < kResidentSeconds && one.calls < (1 << 24)) one.calls *= 2;
    const auto known = resident_gb_s_.find(one.resident_bytes);
    if (known != resident_gb_s_.end()) return ok_status();
    PAGODA_TRY(resident_gb_s_[one.resident_bytes], kernels::resident_read_gb_s(pool_, one.resident_bytes));
    return ok_status();
  }

  double read() {
    reads_.push_back(kernels::read_gb_s(pool_, cases_.packed()));
    return reads_.back();
  }

  void measure(KernelRow& row, std::vector<double>& seconds, std::vector<double>& percents) {
    const bool resident = row.what.resident_bytes > 0;
    double gb_s = 0;
    if (resident) {
      gb_s = resident_gb_s_[row.what.resident_bytes];
    } else {
      gb_s = read();
      if (row.what.cost.int_macs > 0) kernels::read_gb_s(pool_, cases_.kv());
    }
    const double spent = time(row.what, row.what.calls) / row.what.calls;
    if (!resident) gb_s = (gb_s + read()) / 2;
    const sizing::KernelLimit limit = sizing::kernel_limit(row.what.cost, limits_of(gb_s, rates_));
    seconds.push_back(spent);
    percents.push_back(100 * limit.seconds / spent);
    row.memory_bound = limit.memory_bound;
  }

  const KernelCases& cases_;
  ThreadPool& pool_;
  kernels::ArithmeticRates rates_;
  std::map<int64_t, double> resident_gb_s_;
  std::vector<double> reads_;
};

double gb_s_of(const KernelRow& row) { return static_cast<double>(row.what.cost.bytes) / row.seconds * 1e-9; }

double mac_per_cycle_of(const KernelRow& row, const kernels::ArithmeticRates& rates, int32_t threads) {
  return mac_per_cycle(static_cast<double>(row.what.cost.int_macs + row.what.cost.f32_macs) / row.seconds, rates,
                       threads);
}

struct Measured {
  std::string isa;
  int32_t threads;
  kernels::ArithmeticRates rates;
  std::vector<ModelRows> models;
  int64_t steal_ticks;
  double steal_percent;
};

void print_json(const Measured& m) {
  nlohmann::ordered_json out = {{"machine",
                                 {{"isa", m.isa},
                                  {"threads", m.threads},
                                  {"int_gmac_s", m.rates.int_gmac_s},
                                  {"f32_gmac_s", m.rates.f32_gmac_s},
                                  {"clock_ghz", m.rates.clock_ghz},
                                  {"steal_ticks", m.steal_ticks},
                                  {"steal_percent", m.steal_percent}}},
                                {"models", nlohmann::ordered_json::array()}};
  for (const ModelRows& model : m.models) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const KernelRow& row : model.rows)
      rows.push_back({{"operator", row.what.name},
                      {"type", row.what.type},
                      {"shape", row.what.shape},
                      {"rows", row.what.rows},
                      {"seconds", row.seconds},
                      {"gb_s", gb_s_of(row)},
                      {"mac_per_cycle", mac_per_cycle_of(row, m.rates, m.threads)},
                      {"limit", row.memory_bound ? "memory" : "arithmetic"},
                      {"operands", row.what.resident_bytes > 0 ? "cache" : "dram"},
                      {"percent_of_limit", row.percent}});
    out["models"].push_back(
        {{"model", model.model}, {"bandwidth_gb_s", model.bandwidth_gb_s}, {"kernels", std::move(rows)}});
  }
  fmt::print("{}\n", out.dump());
}

void print_tables(const Measured& m) {
  for (const ModelRows& model : m.models) {
    fmt::print(
        "{}, weights and long caches from memory at {:.1f} GB/s\n{:<42} {:>9} {:>19} {:>5} {:>10} {:>7} {:>7} {:>14}\n",
        model.model, model.bandwidth_gb_s, "operator", "type", "shape", "rows", "us a call", "GB/s", "MAC/cyc",
        "% of limit");
    for (const KernelRow& row : model.rows) {
      const double macs = mac_per_cycle_of(row, m.rates, m.threads);
      fmt::print("{:<42.42} {:>9} {:>19} {:>5} {:>10.2f} {:>7.1f} {:>7} {:>6.0f} {:<7}\n", row.what.name, row.what.type,
                 row.what.shape, row.what.rows, row.seconds * 1e6, gb_s_of(row),
                 macs > 0 ? fmt::format("{:.1f}", macs) : "", row.percent,
                 !row.memory_bound             ? "MAC"
                 : row.what.resident_bytes > 0 ? "cache"
                                               : "memory");
    }
    fmt::print("\n");
  }
  fmt::print("{} on {} threads, {:.2f} GHz, {:.0f} int8 and {:.0f} f32 GMAC/s; {} ticks stolen ({:.1f} %)\n", m.isa,
             m.threads, m.rates.clock_ghz, m.rates.int_gmac_s, m.rates.f32_gmac_s, m.steal_ticks, m.steal_percent);
}

/// The model asked for, or every one of the catalogue that is here.
Result<std::vector<std::string>> models_to_measure(const std::string& asked) {
  if (!asked.empty()) return std::vector<std::string>{asked};
  std::vector<std::string> names;
  for (const weights::CatalogueEntry& entry : weights::catalogue())
    if (weights::resolve_model(entry.name).ok()) names.push_back(entry.name);
  if (names.empty()) return Error{Code::kNotFound, "no model is here yet, run: pagoda pull smollm2:135m", "MODEL"};
  return names;
}

Result<Measured> measure(const KernelsOptions& o) {
  PAGODA_TRY(const uint32_t isa, isa::level_from_environment());
  PAGODA_TRY(const std::vector<std::string> names, models_to_measure(o.model));
  const StealWatch steal;
  ThreadPool pool(o.threads > 0 ? o.threads : default_threads());
  Measured out{isa::level_name(isa), pool.threads(), kernels::measure_arithmetic_rates(pool, isa), {}, 0, 0};
  for (const std::string& name : names) {
    PAGODA_TRY(const LoadedModel model, open_model(name));
    PAGODA_TRY(const std::unique_ptr<KernelCases> cases,
               KernelCases::create(*model.file, kernels::make_ops(isa), pool));
    fmt::print(stderr, "{}\n", model.name);
    PAGODA_TRY(ModelRows rows, KernelBench(*cases, pool, out.rates).run(cases->all(), o.rounds));
    rows.model = model.name;
    out.models.push_back(std::move(rows));
  }
  out.steal_ticks = steal.ticks();
  out.steal_percent = steal.percent();
  return out;
}

}  // namespace

void add_bench_kernels(CLI::App& bench, Invocation& invocation) {
  CLI::App* verb =
      bench.add_subcommand("kernels", "Each operator at the shapes of real models, beside the machine's limit");
  auto options = std::make_shared<KernelsOptions>();
  verb->add_option("MODEL", options->model,
                   "a catalogue name, a .gguf file or a folder that holds one (default: all models that are here)");
  verb->add_option("--rounds", options->rounds, "rounds; medians are printed")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  verb->add_option("--threads", options->threads, "threads (0: all CPUs)")->check(CLI::Range(0, 1024));
  verb->add_flag("--json", options->json, "print one JSON object");
  verb->footer(
      "Example:\n  pagoda bench kernels smollm2:135m\n"
      "All threads work together. Limits: bytes that must move over the rate of plain reads of memory (weights, "
      "decode\n"
      "caches) or of a buffer of the same size in cache (everything else), or the int8 and f32 multiply rates.");
  verb->callback([&invocation, options] {
    invocation.run = [options] {
      const Result<Measured> measured = measure(*options);
      if (!measured.ok()) return fail("bench", measured.error());
      if (options->json)
        print_json(measured.value());
      else
        print_tables(measured.value());
      return kDone;
    };
  });
}

}  // namespace pagoda::apps
