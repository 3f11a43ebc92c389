#include "apps/bench_latency.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <memory>

#include "apps/bench.h"
#include "apps/bench_sequences.h"
#include "apps/exit_code.h"
#include "apps/kv_flags.h"
#include "apps/loaded_model.h"
#include "core/clock.h"
#include "core/isa.h"
#include "weights/catalogue.h"

namespace pagoda::apps {
namespace {

constexpr int32_t kStepRows = 512;      // of a prefill step
constexpr int32_t kBatchContext = 128;  // of the batches in the whole table
constexpr int32_t kLoadsMax = 3;

struct LatencyOptions {
  std::string model;
  bool one_shape = false;  // --prefill, --decode or --batch was given
  int32_t prefill = 512;   // tokens
  int32_t decode = 128;    // context, tokens
  int32_t batch = 8;       // sequences
  std::vector<int32_t> contexts{128, 512, 2048, 8192};
  std::vector<int32_t> batches{1, 2, 4, 8, 16, 32};
  int32_t rounds = 9;
  int32_t threads = 0;
  KvFlags kv;
  bool json = false;
  std::string svg;
};

/// What to measure in every round, in this order: prefills first, which leave the cache filled for the decodes.
Result<std::vector<LatencyCell>> plan_cells(const LatencyOptions& o, int32_t context_length) {
  if (o.one_shape)
    return std::vector<LatencyCell>{
        {Work::kPrefill, o.prefill, 1}, {Work::kDecode, o.decode, 1}, {Work::kBatch, o.decode, o.batch}};
  std::vector<LatencyCell> cells;
  for (const int32_t tokens : o.contexts)
    if (tokens <= context_length) cells.push_back({Work::kPrefill, tokens, 1});
  // At the end of a model's context decoding starts a little earlier, so that its steps still fit.
  for (const int32_t tokens : o.contexts)
    if (tokens <= context_length && context_length > kDecodeSteps)
      cells.push_back({Work::kDecode, std::min(tokens, context_length - kDecodeSteps), 1});
  for (const int32_t sequences : o.batches)
    if (kBatchContext + kDecodeSteps <= context_length) cells.push_back({Work::kBatch, kBatchContext, sequences});
  if (cells.empty())
    return Error{Code::kInvalidRequest, fmt::format("no context of {} fits the model's {} tokens",
                                                    fmt::join(o.contexts, ", "), context_length)};
  return cells;
}

/// A loaded model, the sequences that the cells need, and the machine's rates beside them.
class LatencyBench {
 public:
  LatencyBench(LoadedModel model, uint32_t isa, std::vector<LatencyCell> cells)
      : model_(std::move(model)), isa_(isa), runner_(*model_.engine, kStepRows) {
    report_.cells = std::move(cells);
  }

  Result<LatencyReport> run(int32_t rounds, bool chatty) {
    model_.engine->settle_memory();
    PAGODA_TRY_STATUS(make_sequences());
    measure_rates();
    const StealWatch all;
    for (int32_t r = 0; r < rounds; ++r) {
      const StealWatch one;
      bandwidth_ = read();
      for (LatencyCell& cell : report_.cells) {
        PAGODA_TRY(const LatencyCell::Round round, measure(cell));
        cell.rounds.push_back(round);
        if (chatty) say(r + 1, rounds, cell);
      }
      report_.steal_ticks.push_back(one.ticks());
    }
    report_.steal_percent = all.percent();
    measure_rates();
    finish();
    return std::move(report_);
  }

 private:
  Status make_sequences() {
    int32_t longest = 0, batch_tokens = 0, batch = 0;
    for (const LatencyCell& cell : report_.cells) {
      if (cell.work == Work::kPrefill) {
        longest = std::max(longest, cell.tokens);
      } else if (cell.sequences == 1) {
        longest = std::max(longest, cell.tokens + kDecodeSteps);
      } else {
        batch_tokens = cell.tokens + kDecodeSteps;
        batch = std::max(batch, cell.sequences);
      }
    }
    PAGODA_TRY(single_, runner_.make(longest, 0));
    for (int32_t i = 0; i < batch; ++i) {
      PAGODA_TRY(BenchSequence sequence, runner_.make(batch_tokens, i + 1));
      batch_.push_back(std::move(sequence));
    }
    return ok_status();
  }

  double read() {
    const double gb_s = kernels::read_gb_s(model_.engine->thread_pool(), model_.engine->packed_weights());
    reads_.push_back(gb_s);
    return gb_s;
  }

  void measure_rates() {
    const kernels::ArithmeticRates now = kernels::measure_arithmetic_rates(model_.engine->thread_pool(), isa_);
    kernels::ArithmeticRates& best = report_.rates;
    best = {std::max(best.int_gmac_s, now.int_gmac_s), std::max(best.f32_gmac_s, now.f32_gmac_s),
            std::max(best.clock_ghz, now.clock_ghz)};
  }

  Result<LatencyCell::Round> measure(const LatencyCell& cell) {
    const size_t sequences = static_cast<size_t>(cell.sequences);
    PAGODA_TRY(const double seconds,
               cell.work == Work::kPrefill ? runner_.time_prefill(single_, cell.tokens)
               : cell.sequences == 1  // a batch of one is the one sequence: a second one's KV would count as memory
                   ? runner_.time_decode({&single_, 1}, cell.tokens, kDecodeSteps)
                   : runner_.time_decode(std::span(batch_).first(sequences), cell.tokens, kDecodeSteps));
    const double before = bandwidth_;
    bandwidth_ = read();
    return LatencyCell::Round{seconds, (before + bandwidth_) / 2};
  }

  void say(int32_t round, int32_t rounds, const LatencyCell& cell) const {
    const double tokens = cell.work == Work::kPrefill ? cell.tokens : cell.sequences;
    fmt::print(stderr, "round {}/{}: {} {}: {:.1f} tok/s at {:.1f} GB/s\n", round, rounds,
               cell.work == Work::kPrefill  ? "prefill of"
               : cell.work == Work::kDecode ? "decode at context"
                                            : "decode of a batch of",
               cell.work == Work::kBatch ? cell.sequences : cell.tokens, tokens / cell.rounds.back().seconds,
               cell.rounds.back().bandwidth_gb_s);
  }

  void finish() {
    report_.model = model_.name;
    report_.info = model_.engine->info();
    report_.cost = model_cost(*model_.file, model_.engine->config(), model_.engine->info().kv_types);
    report_.bandwidth_gb_s = median_of(reads_);
    report_.file_bytes = model_.file->file_bytes();
    for (const weights::GgufTensor& tensor : model_.file->tensors())
      report_.tensor_bytes += static_cast<int64_t>(tensor.data.size());
    report_.kv_bytes = report_.info.kv_bytes_per_token * kBlockTokens * runner_.blocks_used();
    report_.peak_bytes = peak_resident_bytes();
  }

  LoadedModel model_;
  uint32_t isa_;
  SequenceRunner runner_;
  BenchSequence single_;
  std::vector<BenchSequence> batch_;
  double bandwidth_ = 0;
  std::vector<double> reads_;
  LatencyReport report_{};
};

engine::EngineOptions engine_options(const LatencyOptions& o, const std::vector<LatencyCell>& cells) {
  engine::EngineOptions options;
  options.threads = o.threads;
  options.kv_types = o.kv.types();
  int32_t sequences = 1;
  for (const LatencyCell& cell : cells) {
    sequences = std::max(sequences, cell.sequences);
    options.max_model_len =
        std::max(options.max_model_len, cell.work == Work::kPrefill ? cell.tokens : cell.tokens + kDecodeSteps);
  }
  options.max_num_seqs = sequences + 1;  // blocks that nobody uses cost nothing
  options.max_num_batched_tokens = std::max(kStepRows, sequences);
  return options;
}

/// Opens and packs the model a few times, as a server does that starts again; the last one stays.
Result<LoadedModel> load_timed(const LatencyOptions& o, const std::vector<LatencyCell>& cells, int32_t loads,
                               std::vector<double>& seconds) {
  const SteadyClock clock;
  LoadedModel model;
  for (int32_t i = 0; i < loads; ++i) {
    model = {};  // the old one's memory is free before the new one's is taken
    const int64_t begin = clock.now_us();
    PAGODA_TRY(model, load_model(o.model, engine_options(o, cells)));
    seconds.push_back(static_cast<double>(clock.now_us() - begin) * 1e-6);
  }
  return model;
}

Result<int32_t> read_context_length(const std::string& model) {
  PAGODA_TRY(const std::string path, weights::resolve_model(model));
  PAGODA_TRY(const auto file, weights::GgufFile::open(path));
  PAGODA_TRY(const model::ModelConfig config, model::read_config(*file, 0));
  return config.context_length;
}

Result<LatencyReport> run_latency(const LatencyOptions& o) {
  PAGODA_TRY(const uint32_t isa, isa::level_from_environment());
  PAGODA_TRY(const int32_t context_length, read_context_length(o.model));
  PAGODA_TRY(std::vector<LatencyCell> cells, plan_cells(o, context_length));
  std::vector<double> load_seconds;
  PAGODA_TRY(LoadedModel model, load_timed(o, cells, o.one_shape ? 1 : std::min(kLoadsMax, o.rounds), load_seconds));
  LatencyBench bench(std::move(model), isa, std::move(cells));
  PAGODA_TRY(LatencyReport report, bench.run(o.rounds, true));
  report.load_seconds = std::move(load_seconds);
  return report;
}

Status write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (out.fail()) return Error{Code::kIo, fmt::format("cannot write {}", path), "--svg"};
  return ok_status();
}

Status run_and_print(const LatencyOptions& o) {
  PAGODA_TRY(const LatencyReport report, run_latency(o));
  if (o.json)
    fmt::print("{}\n", o.one_shape ? latency_shape_json(report) : latency_json(report));
  else
    fmt::print("{}", latency_table(report));
  if (!o.svg.empty()) PAGODA_TRY_STATUS(write_file(o.svg, latency_svg(report)));
  return ok_status();
}

void add_options(CLI::App& verb, LatencyOptions& o) {
  const CLI::Range tokens(1, 1 << 20), sequences(1, 1024);
  verb.add_option("MODEL", o.model, "a catalogue name, a .gguf file or a folder that holds one")->required();
  CLI::Option* contexts = verb.add_option("--contexts", o.contexts, "prompts and contexts of the table, tokens")
                              ->delimiter(',')
                              ->capture_default_str()
                              ->check(tokens);
  CLI::Option* batches = verb.add_option("--batches", o.batches, "sequences that decode together, of the table")
                             ->delimiter(',')
                             ->capture_default_str()
                             ->check(sequences);
  CLI::Option* svg = verb.add_option("--svg", o.svg, "also draw the table into this file");
  CLI::Option* shape[] = {
      verb.add_option("--prefill", o.prefill, "one shape instead of the table: prompt tokens")->check(tokens),
      verb.add_option("--decode", o.decode, "... context at which decoding starts, tokens")->check(tokens),
      verb.add_option("--batch", o.batch, "... sequences that decode together, at that context")->check(sequences)};
  for (CLI::Option* one : shape) one->capture_default_str()->excludes(contexts)->excludes(batches)->excludes(svg);
  verb.add_option("--rounds", o.rounds, "rounds; medians are printed")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  verb.add_option("--threads", o.threads, "threads of the engine (0: all CPUs)")->check(CLI::Range(0, 1024));
  add_kv_flags(verb, o.kv);
  verb.add_flag("--json", o.json, "print one JSON object");
}

}  // namespace

void add_bench_latency(CLI::App& bench, Invocation& invocation) {
  CLI::App* verb = bench.add_subcommand(
      "latency", "Load time, prefill, decode, batches and memory of one model, and percent of the machine's limit");
  auto options = std::make_shared<LatencyOptions>();
  add_options(*verb, *options);
  verb->footer(
      "Examples:\n  pagoda bench latency smollm2:135m --svg smollm2.svg\n"
      "  pagoda bench latency qwen2.5-coder:1.5b --contexts 128,512 --batches 4 --rounds 3\n"
      "  pagoda bench latency qwen2.5-coder:1.5b --prefill 512 --decode 128 --batch 8 --json\n"
      "Limits: decode, file bytes of the tensors a step touches and its KV bytes over the rate of plain reads of the\n"
      "same pages before and after, or the int8 and f32 multiply rates where those are slower; prefill, the multiply\n"
      "rates; loading, reading the file and writing the packed weights once; memory, the file's tensors and the KV "
      "used.");
  verb->callback([verb, &invocation, options] {
    options->one_shape = verb->count("--prefill") + verb->count("--decode") + verb->count("--batch") > 0;
    invocation.run = [options] {
      const Status status = run_and_print(*options);
      return status.ok() ? kDone : fail("bench", status.error());
    };
  });
}

}  // namespace pagoda::apps
