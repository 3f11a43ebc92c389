#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/eval_text.h"
#include "apps/exit_code.h"
#include "apps/golden.h"
#include "apps/kv_flags.h"
#include "apps/loaded_model.h"
#include "apps/verbs.h"
#include "core/clock.h"
#include "metrics/serving_metrics.h"
#include "scheduler/scheduler.h"

namespace pagoda::apps {
namespace {

struct GoldenOptions {
  std::string model;
  std::string file;
  int32_t threads = 0;
  int32_t max_model_len = 0;
  KvFlags kv;
  bool json = false;
  double max_mean_ratio = 0;  // 0 = no bar
  double max_case_ratio = 0;
};

/// Keeps what a request's events bring. Used by the thread that steps the scheduler only.
class Collector final : public scheduler::EventSink {
 public:
  void push(scheduler::Event event) override {
    for (engine::PromptScore& score : event.prompt_scores) scores.push_back(std::move(score));
    if (event.error) error = std::move(event.error);
  }
  std::vector<engine::PromptScore> scores;
  std::optional<Error> error;
};

scheduler::Limits limits_of(const engine::EngineOptions& options, const engine::EngineInfo& info) {
  return {.max_num_seqs = options.max_num_seqs,
          .max_num_batched_tokens = options.max_num_batched_tokens,
          .max_model_len = info.max_model_len,
          .total_blocks = info.total_blocks};
}

/// All cases at once through the scheduler, as a server would run them.
Result<std::vector<GoldenResult>> evaluate(LoadedModel& model, const engine::EngineOptions& options,
                                           const std::vector<GoldenCase>& cases) {
  const SteadyClock clock;
  metrics::ServingMetrics metrics(model.name);
  scheduler::Scheduler scheduler(*model.engine, model.tokenizer.get(), limits_of(options, model.engine->info()), clock,
                                 metrics);
  std::vector<std::shared_ptr<Collector>> sinks;
  for (const GoldenCase& c : cases) {
    sinks.push_back(std::make_shared<Collector>());
    scheduler::Request request;
    request.prompt = c.ids;
    request.max_tokens = 0;
    request.prompt_logprobs = 1;
    request.score_ids = c.top_ids;
    request.sink = sinks.back();
    PAGODA_TRY(const scheduler::RequestId id, scheduler.submit(std::move(request)));
    static_cast<void>(id);
  }
  for (bool worked = true; worked;) {
    PAGODA_TRY(worked, scheduler.step());
  }
  std::vector<GoldenResult> results;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (sinks[i]->error) return *sinks[i]->error;
    results.push_back(compare_with_golden(cases[i], sinks[i]->scores));
  }
  return results;
}

/// The file's ids are what counts; a tokenizer that disagrees is worth a line.
void report_tokenizer(const text::Tokenizer& tokenizer, const std::vector<GoldenCase>& cases) {
  for (const GoldenCase& c : cases)
    if (!c.text.empty() && tokenizer.encode(c.text, {.add_special = true, .parse_special = false}) != c.ids)
      fmt::print(stderr, "pagoda eval: case {}: our tokenizer gives other ids than the file\n", c.name);
}

Status check_ids(const std::vector<GoldenCase>& cases, int32_t vocab) {
  const auto valid = [vocab](TokenId id) { return id >= 0 && id < vocab; };
  for (const GoldenCase& c : cases) {
    bool all = std::ranges::all_of(c.ids, valid);
    for (const std::vector<TokenId>& ids : c.top_ids) all &= std::ranges::all_of(ids, valid);
    if (!all)
      return Error{Code::kInvalidRequest,
                   fmt::format("golden case {} has ids outside the model's {} tokens", c.name, vocab)};
  }
  return ok_status();
}

void print_json(const std::vector<GoldenCase>& cases, const std::vector<GoldenResult>& results) {
  nlohmann::ordered_json out;
  for (size_t i = 0; i < cases.size(); ++i) {
    const GoldenResult& r = results[i];
    out["cases"][cases[i].name] = {{"kl_mean", r.kl_mean},
                                   {"kl_median", r.kl_median},
                                   {"kl_max", r.kl_max},
                                   {"top1_agree", r.top1_agree},
                                   {"nll_mean", r.nll_mean}};
  }
  fmt::print("{}\n", out.dump());
}

/// KL as a ratio to llama.cpp's; 0 where the file has none.
double ratio(double ours, double theirs) { return theirs > 0 ? ours / theirs : 0; }

struct Ratios {
  double mean, worst;
};
Ratios ratios_of(const std::vector<GoldenCase>& cases, const std::vector<GoldenResult>& results) {
  double ours = 0, theirs = 0, worst = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    ours += results[i].kl_mean;
    theirs += cases[i].llama_kl_mean;
    worst = std::max(worst, ratio(results[i].kl_mean, cases[i].llama_kl_mean));
  }
  return {ratio(ours, theirs), worst};
}

void print_table(const std::vector<GoldenCase>& cases, const std::vector<GoldenResult>& results, const Ratios& ratios) {
  fmt::print("{:<12} {:>9} {:>9} {:>9} {:>6} {:>8} {:>8} {:>13}\n", "case", "KL mean", "median", "max", "top-1", "nll",
             "exact", "of llama.cpp's");
  for (size_t i = 0; i < cases.size(); ++i) {
    const GoldenResult& r = results[i];
    fmt::print("{:<12} {:>9.5f} {:>9.5f} {:>9.5f} {:>6.3f} {:>8.4f} {:>8.4f} {:>13.3f}\n", cases[i].name, r.kl_mean,
               r.kl_median, r.kl_max, r.top1_agree, r.nll_mean, cases[i].nll_mean,
               ratio(r.kl_mean, cases[i].llama_kl_mean));
  }
  fmt::print("mean of KL means, of llama.cpp's: {:.3f}; worst case: {:.3f}\n", ratios.mean, ratios.worst);
}

Status run_golden(const GoldenOptions& golden) {
  PAGODA_TRY(const std::vector<GoldenCase> cases, read_golden(golden.file));
  engine::EngineOptions options;
  options.threads = golden.threads;
  options.max_model_len = golden.max_model_len;
  options.kv_types = golden.kv.types();
  PAGODA_TRY(LoadedModel model, load_model(golden.model, options));
  PAGODA_TRY_STATUS(check_ids(cases, model.engine->info().vocab_size));
  report_tokenizer(*model.tokenizer, cases);
  PAGODA_TRY(const std::vector<GoldenResult> results, evaluate(model, options, cases));
  const Ratios ratios = ratios_of(cases, results);
  if (golden.json)
    print_json(cases, results);
  else
    print_table(cases, results, ratios);
  const auto over = [](double value, double bar) { return bar > 0 && value > bar; };
  if (over(ratios.mean, golden.max_mean_ratio) || over(ratios.worst, golden.max_case_ratio))
    return Error{Code::kInvalidRequest,
                 fmt::format("over the bar: mean ratio {:.3f} (limit {}), worst case {:.3f} (limit {})", ratios.mean,
                             golden.max_mean_ratio, ratios.worst, golden.max_case_ratio)};
  return ok_status();
}

}  // namespace

void add_eval(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("eval", "Measure how near a model's answers come to a reference");
  verb->require_subcommand(1);
  add_eval_perplexity(*verb, invocation);
  add_eval_kl(*verb, invocation);
  CLI::App* golden =
      verb->add_subcommand("golden", "Distance of the logits to an exact float32 evaluation (KL divergence, nats)");
  auto options = std::make_shared<GoldenOptions>();
  golden->add_option("MODEL", options->model, "a catalogue name, a .gguf file or a folder that holds one")->required();
  golden->add_option("FILE", options->file, "golden file: cases with ids, top_ids and top_logprobs")->required();
  golden->add_option("--threads", options->threads, "threads of the engine (0: all CPUs)")->check(CLI::Range(0, 1024));
  golden->add_option("--max-model-len", options->max_model_len,
                     "context in tokens, 0 for the model's own; chooses between long and short rope factors");
  golden->add_option("--max-mean-ratio", options->max_mean_ratio,
                     "fail if the mean KL is above so many times llama.cpp's");
  golden->add_option("--max-case-ratio", options->max_case_ratio, "the same for each single case");
  add_kv_flags(*golden, options->kv);
  golden->add_flag("--json", options->json, "print one JSON object");
  golden->footer(
      "Example:\n  pagoda eval golden smollm2:135m golden-smollm2.json --max-mean-ratio 1.25\n"
      "Exit: 0 done, 1 failed or over the bar");
  golden->callback([&invocation, options] {
    invocation.run = [options] {
      const Status status = run_golden(*options);
      return status.ok() ? kDone : fail("eval", status.error());
    };
  });
}

}  // namespace pagoda::apps
