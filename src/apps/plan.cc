#include <fmt/format.h>

#include <memory>

#include "apps/bench.h"
#include "apps/engine_flags.h"
#include "apps/exit_code.h"
#include "apps/kv_tiers.h"
#include "apps/memory_plan.h"
#include "apps/verbs.h"
#include "core/isa.h"
#include "core/log.h"
#include "core/thread_pool.h"
#include "weights/catalogue.h"

namespace pagoda::apps {
namespace {

struct PlanOptions {
  std::string model;
  EngineFlags engine{};
  int32_t context = 512;  // tokens, of the floors
  bool json = false;
};

/// The least time that this machine could take, seconds.
struct Floors {
  double bandwidth_gb_s;
  double tpot_s;        // a token of one sequence at that context
  double tpot_batch_s;  // ... of max_num_seqs sequences together
  double ttft_s;        // a prompt of that context
};

struct Plan {
  ServePlan serve;
  sizing::KvBytesPerToken kv_bytes_per_token;
  Floors floors;
};

Result<Floors> measure_floors(const sizing::ModelCost& cost, int32_t threads, const PlanOptions& o) {
  PAGODA_TRY(const uint32_t isa, isa::level_from_environment());
  ThreadPool pool(threads);
  PAGODA_TRY(const kernels::StreamRates streams, kernels::measure_streams(pool));
  double bandwidth = 0;
  for (const kernels::StreamRate& rate : streams.rates) bandwidth = std::max(bandwidth, rate.gb_s);
  const sizing::MachineLimits limits = limits_of(bandwidth, kernels::measure_arithmetic_rates(pool, isa));
  return Floors{bandwidth, sizing::decode_step_seconds(cost, limits, o.context, 1),
                sizing::decode_step_seconds(cost, limits, o.context, o.engine.options.max_num_seqs),
                sizing::prefill_seconds(cost, limits, o.context)};
}

Result<Plan> make_plan(const PlanOptions& o) {
  PAGODA_TRY(const std::string path, weights::resolve_model(o.model));
  PAGODA_TRY(const auto file, weights::GgufFile::open(path));
  const engine::EngineOptions options = o.engine.engine_options();
  PAGODA_TRY(const int64_t swap_bytes, parse_swap_space(o.engine.swap_space));
  PAGODA_TRY(ServePlan serve, plan_memory(*file, options, swap_bytes));
  const sizing::ModelCost cost = model_cost(*file, serve.engine.config, options.kv_types);
  const sizing::KvBytesPerToken per_token = sizing::kv_bytes_per_token(cost.layers, cost.k, cost.v);
  PAGODA_TRY(const Floors floors, measure_floors(cost, serve.engine.threads, o));
  return Plan{std::move(serve), per_token, floors};
}

void print_json(const Plan& plan, const PlanOptions& o, const Status& fits) {
  const sizing::MemoryPlan& m = plan.serve.memory;
  const engine::EnginePlan& e = plan.serve.engine;
  nlohmann::ordered_json out = {{"weight_bytes", m.weights},
                                {"kv_pool_bytes", m.kv_pool},
                                {"swap_bytes", m.swap},
                                {"scratch_bytes", m.scratch},
                                {"vocabulary_bytes", m.vocabulary},
                                {"process_bytes", m.process},
                                {"peak_bytes", m.peak()},
                                {"mapped_embedding_bytes", m.mapped_embedding},
                                {"available_bytes", plan.serve.available_bytes},
                                {"fits", fits.ok()},
                                {"kv_pool_tokens", e.kv_pool_tokens()},
                                {"max_model_len", e.max_model_len},
                                {"kv_sequence_bytes", e.kv_sequence_bytes()},
                                {"kv_sequences", e.longest_sequences()},
                                {"kv_bytes_per_token", e.block_shape.pages() * e.page_bytes / kBlockTokens},
                                {"kv_bytes_per_token_by_attention",
                                 {{"mha", plan.kv_bytes_per_token.mha},
                                  {"gqa", plan.kv_bytes_per_token.gqa},
                                  {"mqa", plan.kv_bytes_per_token.mqa}}},
                                {"floors",
                                 {{"context", o.context},
                                  {"bandwidth_gb_s", plan.floors.bandwidth_gb_s},
                                  {"tpot_ms", plan.floors.tpot_s * 1e3},
                                  {"sequences", o.engine.options.max_num_seqs},
                                  {"tpot_batch_ms", plan.floors.tpot_batch_s * 1e3},
                                  {"ttft_ms", plan.floors.ttft_s * 1e3}}}};
  out["refusal"] = nullptr;
  if (!fits.ok()) out["refusal"] = fits.error().message;
  fmt::print("{}\n", out.dump());
}

void print_table(const Plan& plan, const PlanOptions& o, const Status& fits) {
  const sizing::MemoryPlan& m = plan.serve.memory;
  const engine::EnginePlan& e = plan.serve.engine;
  const auto row = [](const char* what, int64_t bytes) {
    fmt::print("{:<28} {:>10.1f} MB\n", what, static_cast<double>(bytes) * 1e-6);
  };
  row("weights, packed", m.weights);
  row("KV pool", m.kv_pool);
  if (m.swap > 0) row("swap space", m.swap);
  row("scratch of a step", m.scratch);
  row("vocabulary", m.vocabulary);
  row("process", m.process);
  row("peak", m.peak());
  if (m.mapped_embedding > 0) row("... and of the file at most", m.mapped_embedding);
  row("available", plan.serve.available_bytes);
  fmt::print("\n{:<28} {:>10} tokens (context {})\n", "the pool holds", e.kv_pool_tokens(), e.max_model_len);
  if (e.block_shape.has_windows())
    fmt::print("{:<28} {:>10} tokens (windows of {} free what they leave)\n", "... in sequences that long",
               e.longest_sequences() * e.max_model_len, e.block_shape.window);
  fmt::print("{:<28} {:>10} bytes (as MHA {}, as MQA {})\n", "KV of a token", plan.kv_bytes_per_token.gqa,
             plan.kv_bytes_per_token.mha, plan.kv_bytes_per_token.mqa);
  fmt::print("{:<28} {:>10.2f} ms at context {}, {:.1f} GB/s\n", "least time of a token", plan.floors.tpot_s * 1e3,
             o.context, plan.floors.bandwidth_gb_s);
  fmt::print("{:<28} {:>10.2f} ms a token of each of {}\n", "... all sequences together",
             plan.floors.tpot_batch_s * 1e3, o.engine.options.max_num_seqs);
  fmt::print("{:<28} {:>10.2f} ms for {} tokens\n", "least time of a prompt", plan.floors.ttft_s * 1e3, o.context);
  if (!fits.ok()) fmt::print("\nserve would refuse: {}\n", fits.error().message);
}

int plan_model(const PlanOptions& o) {
  set_log_level(LogLevel::kWarning);
  const Result<Plan> plan = make_plan(o);
  if (!plan.ok()) return fail("plan", plan.error());
  const Status fits = check_fits(plan.value().serve);
  if (o.json)
    print_json(plan.value(), o, fits);
  else
    print_table(plan.value(), o, fits);
  return fits.ok() ? kDone : kFailed;
}

}  // namespace

void add_plan(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("plan", "What serving a model would take: memory by part, and the least times");
  auto options = std::make_shared<PlanOptions>();
  verb->add_option("MODEL", options->model, "a catalogue name, a .gguf file or a folder that holds one")->required();
  add_engine_flags(*verb, options->engine);
  verb->add_option("--context", options->context, "tokens at which the least times are computed")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  verb->add_flag("--json", options->json, "print one JSON object");
  verb->footer(
      "Its flags but --context are those of serve, and can be set in the environment as well: PAGODA_MAX_NUM_SEQS.\n"
      "Exit code 1: serve would refuse this, and the reason. Formulas: src/sizing/memory.h, src/sizing/roofline.h.\n"
      "Examples:\n  pagoda plan smollm2:135m\n"
      "  pagoda plan qwen2.5-coder:1.5b --max-model-len 8192 --max-num-seqs 16 -ctk int8 -ctv int8 --json");
  verb->callback([&invocation, options] { invocation.run = [options] { return plan_model(*options); }; });
}

}  // namespace pagoda::apps
