#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>

#include "apps/bench.h"
#include "apps/exit_code.h"
#include "apps/loaded_model.h"
#include "apps/svg_plot.h"
#include "core/log.h"
#include "workload/trace_run.h"

namespace pagoda::apps {
namespace {

struct ServeBenchOptions {
  std::string model;
  std::string trace;
  std::vector<std::string> modes{"paged"};
  int32_t requests = 100;
  double scale = 0.1;
  double rate = 0;
  std::string goodput;
  engine::EngineOptions engine{};
  uint64_t kv_cache_bytes = 0;
  bool prefix_caching = true;
  bool json = false;
  std::string svg;
};

/// The objective of a good request, seconds; 0 = none.
struct Objective {
  double ttft_s = 0, tpot_s = 0, e2e_s = 0;
};

/// "ttft:200,tpot:50": milliseconds, as vLLM's bench takes them.
Result<Objective> parse_goodput(const std::string& text) {
  Objective objective;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    const size_t colon = part.find(':');
    const std::string name = part.substr(0, colon);
    double* const value = name == "ttft"   ? &objective.ttft_s
                          : name == "tpot" ? &objective.tpot_s
                          : name == "e2el" ? &objective.e2e_s
                                           : nullptr;
    char* rest = nullptr;
    const double ms = colon == std::string::npos ? 0 : std::strtod(part.c_str() + colon + 1, &rest);
    if (value == nullptr || rest == nullptr || *rest != '\0' || !(ms > 0))
      return Error{Code::kInvalidRequest,
                   fmt::format("--goodput is \"{}\"; wanted is ttft:MS, tpot:MS, e2el:MS, several with commas", text),
                   "--goodput"};
    *value = ms * 1e-3;
    at = end + 1;
  }
  return objective;
}

struct Spread {
  double p50, p90, p99;
};
Spread spread_of(const std::vector<double>& values) {
  return {workload::percentile(values, 50), workload::percentile(values, 90), workload::percentile(values, 99)};
}

/// One mode's run in the numbers that people compare.
struct ModeReport {
  std::string mode;
  double seconds, requests_s, output_tok_s, total_tok_s;
  Spread ttft, tpot, itl, e2e;  // seconds
  double good_percent, goodput_requests_s;
  double used_percent, internal_percent, reserved_percent, external_percent;  // of the pool while it was wanted
  double hit_percent;                                                         // of prompt tokens
  double mean_batch;
  int64_t preemptions;
  int64_t padding_rows;                 // nobody computes them: FasterTransformer would
  double padding_percent;               // of the prompt rows with them
  std::vector<double> batch_over_time;  // means over time of equal parts of the run; a moment without a step counts 0
  uint64_t digest;
};

void add_kv(const metrics::KvUse& kv, ModeReport& r) {
  const double wanted = static_cast<double>(kv.used + kv.internal + kv.reserved + kv.external);
  const auto share = [&](int64_t part) { return wanted > 0 ? 100 * static_cast<double>(part) / wanted : 0; };
  r.used_percent = share(kv.used);
  r.internal_percent = share(kv.internal);
  r.reserved_percent = share(kv.reserved);
  r.external_percent = share(kv.external);
}

void add_batches(const workload::TraceRun& run, ModeReport& r) {
  constexpr size_t kParts = 10;
  const double part_s = std::max(run.seconds, 1e-9) / kParts;
  r.batch_over_time.assign(kParts, 0);
  double all = 0;
  for (const workload::BatchPoint& point : run.batches) {
    for (size_t i = 0; i < kParts; ++i) {
      const double from = std::max(point.at_s, static_cast<double>(i) * part_s);
      const double to = std::min(point.at_s + point.seconds, static_cast<double>(i + 1) * part_s);
      r.batch_over_time[i] += point.sequences * std::max(0.0, to - from) / part_s;
    }
    all += point.sequences;
  }
  r.mean_batch = all / static_cast<double>(std::max<size_t>(1, run.batches.size()));
}

ModeReport report_of(const std::string& mode, const workload::TraceRun& run, const Objective& objective) {
  ModeReport r{};
  r.mode = mode;
  r.seconds = run.seconds;
  r.preemptions = run.preemptions;
  r.digest = run.digest;
  std::vector<double> ttft, tpot, itl, e2e;
  double output = 0, prompt = 0, cached = 0, good = 0;
  for (const workload::RequestTimes& one : run.requests) {
    ttft.push_back(one.ttft());
    e2e.push_back(one.e2e());
    if (one.token_s.size() > 1) tpot.push_back(one.tpot());
    for (size_t i = 1; i < one.token_s.size(); ++i) itl.push_back(one.token_s[i] - one.token_s[i - 1]);
    output += static_cast<double>(one.token_s.size());
    prompt += one.prompt_tokens;
    cached += one.cached_tokens;
    good += (objective.ttft_s == 0 || one.ttft() <= objective.ttft_s) &&
            (objective.tpot_s == 0 || one.tpot() <= objective.tpot_s) &&
            (objective.e2e_s == 0 || one.e2e() <= objective.e2e_s);
  }
  const double requests = static_cast<double>(run.requests.size());
  r.requests_s = requests / run.seconds;
  r.output_tok_s = output / run.seconds;
  r.total_tok_s = (output + prompt) / run.seconds;
  r.ttft = spread_of(ttft);
  r.tpot = spread_of(tpot);
  r.itl = spread_of(itl);
  r.e2e = spread_of(e2e);
  r.good_percent = 100 * good / requests;
  r.goodput_requests_s = good / run.seconds;
  r.hit_percent = 100 * cached / prompt;
  r.padding_rows = run.padding_rows;
  r.padding_percent = 100 * static_cast<double>(run.padding_rows) / (prompt + static_cast<double>(run.padding_rows));
  add_kv(run.kv_us, r);
  add_batches(run, r);
  return r;
}

Result<std::vector<ModeReport>> run_modes(const ServeBenchOptions& o) {
  PAGODA_TRY(const Objective objective, parse_goodput(o.goodput));
  std::vector<scheduler::SchedulingMode> modes;
  for (const std::string& name : o.modes) {
    PAGODA_TRY(const scheduler::SchedulingMode mode, scheduler::parse_scheduling_mode(name));
    modes.push_back(mode);
  }
  PAGODA_TRY(const std::vector<workload::TraceRequest> trace, workload::read_trace(o.trace, o.requests));
  engine::EngineOptions options = o.engine;
  options.kv_cache_bytes = static_cast<int64_t>(o.kv_cache_bytes);
  options.pages_by_window = true;
  PAGODA_TRY(LoadedModel model, load_model(o.model, options));
  const engine::EngineInfo& info = model.engine->info();
  scheduler::Limits limits{.max_num_seqs = options.max_num_seqs,
                           .max_num_batched_tokens = options.max_num_batched_tokens,
                           .max_model_len = info.max_model_len,
                           .max_queued = static_cast<int32_t>(trace.size()),
                           .total_blocks = info.total_blocks,
                           .prefix_caching = o.prefix_caching};
  const int32_t tokens_max = std::min(info.max_model_len, info.total_blocks / info.block_shape.pages() * kBlockTokens);
  const auto requests = workload::scale_trace(
      trace, {.lengths = o.scale, .requests_per_s = o.rate, .tokens_max = tokens_max, .vocab = info.vocab_size});
  std::vector<ModeReport> reports;
  for (const scheduler::SchedulingMode mode : modes) {
    limits.mode = mode;
    fmt::print(stderr, "{}: {} requests ...\n", name_of(mode), requests.size());
    PAGODA_TRY(const workload::TraceRun run, workload::run_trace(*model.engine, limits, requests));
    reports.push_back(report_of(std::string(name_of(mode)), run, objective));
    fmt::print(stderr, "{}: {:.1f} s, {:.1f} tokens/s\n", name_of(mode), run.seconds, reports.back().output_tok_s);
    if (run.digest != reports.front().digest)
      return Error{Code::kInternal,
                   fmt::format("mode {} gave other answers than {}", reports.back().mode, reports.front().mode)};
  }
  return reports;
}

nlohmann::ordered_json milliseconds(const Spread& s) {
  return {{"p50_ms", s.p50 * 1e3}, {"p90_ms", s.p90 * 1e3}, {"p99_ms", s.p99 * 1e3}};
}

void print_json(const std::vector<ModeReport>& reports, const ServeBenchOptions& o) {
  nlohmann::ordered_json out = {{"model", o.model}, {"requests", o.requests}, {"scale", o.scale}, {"rate", o.rate}};
  for (const ModeReport& r : reports)
    out["modes"][r.mode] = {{"seconds", r.seconds},
                            {"requests_s", r.requests_s},
                            {"output_tok_s", r.output_tok_s},
                            {"total_tok_s", r.total_tok_s},
                            {"ttft", milliseconds(r.ttft)},
                            {"tpot", milliseconds(r.tpot)},
                            {"itl", milliseconds(r.itl)},
                            {"e2e", milliseconds(r.e2e)},
                            {"goodput_percent", r.good_percent},
                            {"goodput_requests_s", r.goodput_requests_s},
                            {"kv",
                             {{"used_percent", r.used_percent},
                              {"internal_percent", r.internal_percent},
                              {"reserved_percent", r.reserved_percent},
                              {"external_percent", r.external_percent}}},
                            {"prefix_hit_percent", r.hit_percent},
                            {"mean_batch", r.mean_batch},
                            {"batch_over_time", r.batch_over_time},
                            {"preemptions", r.preemptions},
                            {"padding_rows_not_computed", r.padding_rows},
                            {"padding_percent_of_prompt_rows", r.padding_percent}};
  out["answers_equal"] = true;  // run_modes() refuses otherwise
  fmt::print("{}\n", out.dump());
}

void print_table(const std::vector<ModeReport>& reports) {
  const auto row = [&](const char* what, auto value) {
    fmt::print("{:<34}", what);
    for (const ModeReport& r : reports) fmt::print(" {:>22}", value(r));
    fmt::print("\n");
  };
  const auto three = [](const Spread& s) {
    return fmt::format("{:.0f} / {:.0f} / {:.0f}", s.p50 * 1e3, s.p90 * 1e3, s.p99 * 1e3);
  };
  const auto percent = [](double p) { return fmt::format("{:.1f} %", p); };
  row("", [](const ModeReport& r) { return r.mode; });
  row("requests/s", [](const ModeReport& r) { return fmt::format("{:.2f}", r.requests_s); });
  row("answer tokens/s", [](const ModeReport& r) { return fmt::format("{:.1f}", r.output_tok_s); });
  row("TTFT p50 / p90 / p99, ms", [&](const ModeReport& r) { return three(r.ttft); });
  row("TPOT", [&](const ModeReport& r) { return three(r.tpot); });
  row("ITL", [&](const ModeReport& r) { return three(r.itl); });
  row("E2E", [&](const ModeReport& r) { return three(r.e2e); });
  row("within the objective", [&](const ModeReport& r) { return percent(r.good_percent); });
  row("KV slots that hold a token", [&](const ModeReport& r) { return percent(r.used_percent); });
  row("... lost inside blocks", [&](const ModeReport& r) { return percent(r.internal_percent); });
  row("... reserved", [&](const ModeReport& r) { return percent(r.reserved_percent); });
  row("... free but too few", [&](const ModeReport& r) { return percent(r.external_percent); });
  row("prompt tokens found cached", [&](const ModeReport& r) { return percent(r.hit_percent); });
  row("sequences in a step, mean", [](const ModeReport& r) { return fmt::format("{:.1f}", r.mean_batch); });
  row("preemptions", [](const ModeReport& r) { return fmt::format("{}", r.preemptions); });
  row("padding rows, not computed", [&](const ModeReport& r) {
    return r.padding_rows > 0 ? fmt::format("{} ({})", r.padding_rows, percent(r.padding_percent)) : "0";
  });
}

Status write_svg(const std::vector<ModeReport>& reports, const ServeBenchOptions& o) {
  std::vector<Panel> panels;
  for (const ModeReport& r : reports) {
    Panel panel{r.mode, "percent of the run's time", {}, {}, {}, {}};
    for (size_t i = 0; i < r.batch_over_time.size(); ++i) {
      panel.x.push_back(fmt::format("{}", 10 * i + 5));
      panel.measured.push_back(r.batch_over_time[i]);
      panel.limit.push_back(o.engine.max_num_seqs);
    }
    panels.push_back(std::move(panel));
  }
  std::ofstream out(o.svg, std::ios::binary);
  out << svg_plot(o.model + ": sequences in a step over time",
                  fmt::format("{} requests, lengths x {}", o.requests, o.scale), "sequences", panels, "--max-num-seqs");
  out.close();
  if (out.fail()) return Error{Code::kIo, fmt::format("cannot write {}", o.svg), "--svg"};
  return ok_status();
}

int bench_serve(const ServeBenchOptions& o) {
  set_log_level(LogLevel::kWarning);
  const auto reports = run_modes(o);
  if (!reports.ok()) return fail("bench", reports.error());
  if (o.json)
    print_json(reports.value(), o);
  else
    print_table(reports.value());
  if (!o.svg.empty())
    if (const Status written = write_svg(reports.value(), o); !written.ok()) return fail("bench", written.error());
  return kDone;
}

}  // namespace

void add_bench_serve(CLI::App& bench, Invocation& invocation) {
  CLI::App* verb = bench.add_subcommand(
      "serve",
      "Replay a production trace through scheduler and engine, in Pagoda's mode and in those it is held against");
  auto o = std::make_shared<ServeBenchOptions>();
  o->engine.max_num_seqs = 32;
  o->engine.max_model_len = 2048;
  verb->add_option("MODEL", o->model, "a catalogue name, a .gguf file or a folder that holds one")->required();
  verb->add_option("--trace", o->trace, "Azure csv or Mooncake jsonl")->required();
  verb->add_option("--modes", o->modes, "static, orca, paged")->delimiter(',')->capture_default_str();
  verb->add_option("--requests", o->requests, "the first so many of the trace")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  verb->add_option("--scale", o->scale, "factor of all lengths")->check(CLI::Range(1e-4, 1e2))->capture_default_str();
  verb->add_option("--rate", o->rate, "mean requests/s; the trace's times are stretched (0: all at once)")
      ->check(CLI::Range(0.0, 1e6));
  verb->add_option("--goodput", o->goodput, "objective in ms, such as ttft:500,tpot:50");
  verb->add_option("--threads", o->engine.threads, "as of serve")->check(CLI::Range(0, 1024));
  verb->add_option("--max-num-seqs", o->engine.max_num_seqs, "as of serve")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  verb->add_option("--max-num-batched-tokens", o->engine.max_num_batched_tokens, "as of serve")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  verb->add_option("--max-model-len", o->engine.max_model_len, "as of serve")
      ->check(CLI::Range(16, 1 << 24))
      ->capture_default_str();
  verb->add_option("--kv-cache-memory", o->kv_cache_bytes, "as of serve")->transform(CLI::AsSizeValue(false));
  verb->add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", o->prefix_caching, "as of serve");
  verb->add_flag("--json", o->json, "print one JSON object");
  verb->add_option("--svg", o->svg, "also draw the batch size over time into this file");
  verb->footer(
      "All modes must give the same answers, or the bench fails.\n"
      "Example:\n  pagoda bench serve smollm2:135m --modes static,orca,paged --trace AzureLLMInferenceTrace_conv.csv "
      "\\\n"
      "    --requests 60 --scale 0.1 --kv-cache-memory 64MiB --goodput ttft:5000,tpot:200");
  verb->callback([&invocation, o] { invocation.run = [o] { return bench_serve(*o); }; });
}

}  // namespace pagoda::apps
