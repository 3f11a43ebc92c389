#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/exit_code.h"
#include "apps/loaded_model.h"
#include "apps/verbs.h"
#include "core/clock.h"
#include "core/machine.h"
#include "core/thread_pool.h"
#include "kernels/machine_rates.h"
#include "sizing/roofline.h"

namespace pagoda::apps {
namespace {

struct LatencyOptions {
  std::string model;
  int32_t prefill = 512;  // tokens
  int32_t decode = 128;   // context, tokens
  int32_t batch = 8;      // sequences
  int32_t rounds = 9;
  int32_t threads = 0;
  bool json = false;
};

constexpr int32_t kDecodeSteps = 24;

/// One round's speeds, and each as a share of what the machine could do at that moment.
struct Round {
  double prefill_tok_s, decode_tok_s, batch_decode_tok_s;
  double prefill_percent, decode_percent, batch_decode_percent;
  double bandwidth_gb_s;
  int64_t steal_ticks;
};

/// Drives the engine itself: what is measured is one sequence (or a batch of equal ones), without queues.
class LatencyBench {
 public:
  LatencyBench(const LatencyOptions& options, LoadedModel& model, int32_t rows_max)
      : options_(options), engine_(*model.engine), rows_max_(rows_max), pool_(engine_.info().threads) {
    cost_ = cost_of(*model.file);
    greedy_.temperature = 0;
  }

  Result<kernels::MachineRates> measure_machine(uint32_t isa) {
    PAGODA_TRY(rates_, kernels::measure_machine_rates(pool_, isa, engine_.packed_weights()));
    return rates_;
  }

  Result<Round> round() {
    const int64_t steal = steal_ticks();
    const double before = kernels::read_gb_s(pool_, engine_.packed_weights());
    PAGODA_TRY(const double prefill, time_prefill());
    PAGODA_TRY(const double decode, time_decode(1));
    PAGODA_TRY(const double batch, time_decode(options_.batch));
    Round r{};
    r.bandwidth_gb_s = (before + kernels::read_gb_s(pool_, engine_.packed_weights())) / 2;
    r.steal_ticks = steal_ticks() - steal;
    const sizing::MachineLimits machine{r.bandwidth_gb_s * 1e9, rates_.int_gmac_s * 1e9, rates_.f32_gmac_s * 1e9};
    r.prefill_tok_s = options_.prefill / prefill;
    r.decode_tok_s = 1 / decode;
    r.batch_decode_tok_s = options_.batch / batch;
    const int32_t context = options_.decode + kDecodeSteps / 2;  // of the average step
    r.prefill_percent = 100 * sizing::prefill_seconds(cost_, machine, options_.prefill) / prefill;
    r.decode_percent = 100 * sizing::decode_step_seconds(cost_, machine, context, 1) / decode;
    r.batch_decode_percent = 100 * sizing::decode_step_seconds(cost_, machine, context, options_.batch) / batch;
    return r;
  }

 private:
  sizing::ModelCost cost_of(const weights::GgufFile& file) const {
    const model::ModelConfig& config = engine_.config();
    const bool tied = file.find_tensor("output.weight") == nullptr;
    sizing::ModelCost cost{};
    cost.kv_value_bytes = 2;
    cost.head_macs = int64_t{config.vocab} * config.width;
    for (const weights::GgufTensor& tensor : file.tensors()) {
      const bool embedding = tensor.name == "token_embd.weight";
      if (!embedding || tied) cost.step_weight_bytes += static_cast<int64_t>(tensor.data.size());
      if (!embedding && tensor.name != "output.weight" && tensor.rows() > 1) cost.linear_macs += tensor.elements();
    }
    for (const model::LayerConfig& layer : config.layers)
      cost.layers.push_back({layer.heads, layer.kv_heads, config.head_dim, layer.window});
    return cost;
  }

  /// A sequence with arbitrary tokens in blocks of its own.
  struct Sequence {
    std::vector<TokenId> history;
    std::vector<BlockId> blocks;
    int32_t cached = 0;
  };
  Sequence sequence_of(int32_t tokens, int32_t room, int32_t index) const {
    Sequence s;
    const int32_t vocab = engine_.info().vocab_size, blocks = div_ceil(tokens + room, kBlockTokens);
    for (int32_t i = 0; i < tokens; ++i)
      s.history.push_back(static_cast<TokenId>((int64_t{7919} * (i + 1 + 31 * index)) % vocab));
    for (int32_t b = 0; b < blocks; ++b) s.blocks.push_back(BlockId{static_cast<uint32_t>(index * blocks + b)});
    return s;
  }

  /// One step: up to `rows` tokens of each sequence; those that reach their end sample.
  Status step(std::vector<Sequence>& sequences, int32_t rows) {
    engine::Batch batch;
    for (Sequence& s : sequences) {
      const int32_t count = std::min(rows, static_cast<int32_t>(s.history.size()) - s.cached);
      batch.chunks.push_back({.id = SeqId{1},
                              .history = s.history,
                              .begin = s.cached,
                              .count = count,
                              .blocks = s.blocks,
                              .sample = s.cached + count == static_cast<int32_t>(s.history.size()),
                              .params = &greedy_,
                              .prompt_tokens = 1,
                              .sample_index = 0});
      s.cached += count;
    }
    PAGODA_TRY(const engine::StepOutput out, engine_.run(batch));
    for (size_t i = 0; i < sequences.size(); ++i) {
      if (out.chunks[i].error) return *out.chunks[i].error;
      if (out.chunks[i].token) sequences[i].history.push_back(out.chunks[i].token->id);
    }
    return ok_status();
  }

  Result<double> time_prefill() {
    std::vector<Sequence> one{sequence_of(options_.prefill, 0, 0)};
    const int64_t begin = clock_.now_us();
    while (one[0].cached < options_.prefill) PAGODA_TRY_STATUS(step(one, rows_max_));
    return static_cast<double>(clock_.now_us() - begin) * 1e-6;
  }

  /// Seconds a step of `count` sequences that all decode.
  Result<double> time_decode(int32_t count) {
    std::vector<Sequence> all;
    for (int32_t i = 0; i < count; ++i) {
      std::vector<Sequence> one{sequence_of(options_.decode, kDecodeSteps + 1, i)};
      while (one[0].cached < options_.decode) PAGODA_TRY_STATUS(step(one, rows_max_));
      all.push_back(std::move(one[0]));
    }
    const int64_t begin = clock_.now_us();
    for (int32_t i = 0; i < kDecodeSteps; ++i) PAGODA_TRY_STATUS(step(all, 1));
    return static_cast<double>(clock_.now_us() - begin) * 1e-6 / kDecodeSteps;
  }

  LatencyOptions options_;
  engine::CpuEngine& engine_;
  int32_t rows_max_;
  ThreadPool pool_;  // as many threads as the engine's, which sleep meanwhile
  SteadyClock clock_;
  sizing::ModelCost cost_{};
  kernels::MachineRates rates_{};
  sampling::SamplingParams greedy_{};
};

double median_of(const std::vector<Round>& rounds, double Round::*member) {
  std::vector<double> v;
  for (const Round& r : rounds) v.push_back(r.*member);
  std::ranges::sort(v);
  return v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

void print_json(const std::vector<Round>& rounds, const engine::EngineInfo& info, const kernels::MachineRates& rates) {
  nlohmann::ordered_json out;
  const auto add = [&](const char* name, double Round::*speed, double Round::*percent) {
    out[name] = median_of(rounds, speed);
    out[std::string(name) + "_percent_of_limit"] = median_of(rounds, percent);
  };
  add("prefill_tok_s", &Round::prefill_tok_s, &Round::prefill_percent);
  add("decode_tok_s", &Round::decode_tok_s, &Round::decode_percent);
  add("batch_decode_tok_s", &Round::batch_decode_tok_s, &Round::batch_decode_percent);
  out["rounds"] = nlohmann::ordered_json::array();
  for (const Round& r : rounds)
    out["rounds"].push_back({{"prefill_tok_s", r.prefill_tok_s},
                             {"decode_tok_s", r.decode_tok_s},
                             {"batch_decode_tok_s", r.batch_decode_tok_s},
                             {"bandwidth_gb_s", r.bandwidth_gb_s},
                             {"steal_ticks", r.steal_ticks}});
  out["machine"] = {{"isa", info.isa},
                    {"threads", info.threads},
                    {"bandwidth_gb_s", median_of(rounds, &Round::bandwidth_gb_s)},
                    {"int_gmac_s", rates.int_gmac_s},
                    {"clock_ghz", rates.clock_ghz}};
  fmt::print("{}\n", out.dump());
}

void print_table(const LatencyOptions& o, const std::vector<Round>& rounds, const engine::EngineInfo& info,
                 const kernels::MachineRates& rates) {
  const auto row = [&](const std::string& what, double Round::*speed, double Round::*percent) {
    fmt::print("{:<34} {:>9.1f} tok/s {:>5.0f} % of limit\n", what, median_of(rounds, speed),
               median_of(rounds, percent));
  };
  row(fmt::format("prefill of {} tokens", o.prefill), &Round::prefill_tok_s, &Round::prefill_percent);
  row(fmt::format("decode at context {}", o.decode), &Round::decode_tok_s, &Round::decode_percent);
  row(fmt::format("decode of {} sequences", o.batch), &Round::batch_decode_tok_s, &Round::batch_decode_percent);
  int64_t steal = 0;
  for (const Round& r : rounds) steal += r.steal_ticks;
  fmt::print("medians of {} rounds; {} on {} threads, {:.2f} GHz, {:.1f} GB/s, {:.0f} int8 GMAC/s, {} ticks stolen\n",
             rounds.size(), info.isa, info.threads, rates.clock_ghz, median_of(rounds, &Round::bandwidth_gb_s),
             rates.int_gmac_s, steal);
}

Status run_latency(const LatencyOptions& o) {
  engine::EngineOptions options;
  options.threads = o.threads;
  options.max_num_seqs = o.batch;
  options.max_num_batched_tokens = std::max({512, o.batch});
  options.max_model_len = std::max(o.prefill, o.decode + kDecodeSteps + 1);
  PAGODA_TRY(LoadedModel model, load_model(o.model, options));
  if (int64_t{model.engine->info().total_blocks} < int64_t{o.batch} * div_ceil(options.max_model_len, kBlockTokens))
    return Error{Code::kNoCapacity, fmt::format("{} sequences of {} tokens do not fit the KV cache of {} blocks",
                                                o.batch, options.max_model_len, model.engine->info().total_blocks)};
  PAGODA_TRY(uint32_t isa, isa::level_from_environment());
  LatencyBench bench(o, model, options.max_num_batched_tokens);
  PAGODA_TRY(const kernels::MachineRates rates, bench.measure_machine(isa));
  std::vector<Round> rounds;
  for (int32_t i = 0; i < o.rounds; ++i) {
    PAGODA_TRY(const Round r, bench.round());
    rounds.push_back(r);
    fmt::print(stderr, "round {}/{}: prefill {:.1f}, decode {:.1f}, batch {:.1f} tok/s, {:.1f} GB/s\n", i + 1, o.rounds,
               r.prefill_tok_s, r.decode_tok_s, r.batch_decode_tok_s, r.bandwidth_gb_s);
  }
  if (o.json)
    print_json(rounds, model.engine->info(), rates);
  else
    print_table(o, rounds, model.engine->info(), rates);
  return ok_status();
}

}  // namespace

void add_bench(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("bench", "Measure speed beside what the machine could do");
  verb->require_subcommand(1);
  CLI::App* latency =
      verb->add_subcommand("latency", "Prefill and decode speed of one model, and percent of the machine's limit");
  auto options = std::make_shared<LatencyOptions>();
  latency->add_option("MODEL", options->model, "a catalogue name, a .gguf file or a folder that holds one")->required();
  latency->add_option("--prefill", options->prefill, "prompt tokens")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  latency->add_option("--decode", options->decode, "context at which decoding starts, tokens")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  latency->add_option("--batch", options->batch, "sequences that decode together")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  latency->add_option("--rounds", options->rounds, "rounds; medians are printed")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  latency->add_option("--threads", options->threads, "threads of the engine (0: all CPUs)")->check(CLI::Range(0, 1024));
  latency->add_flag("--json", options->json, "print one JSON object");
  latency->footer(
      "Example:\n  pagoda bench latency qwen2.5-coder:1.5b --prefill 512 --decode 128\n"
      "Limits: file bytes over measured bandwidth for decode, int8 and f32 multiply rates for prefill.");
  latency->callback([&invocation, options] {
    invocation.run = [options] {
      const Status status = run_latency(*options);
      return status.ok() ? kDone : fail("bench", status.error());
    };
  });
}

}  // namespace pagoda::apps
