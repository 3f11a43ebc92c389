#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/exit_code.h"
#include "apps/loaded_model.h"
#include "apps/verbs.h"
#include "core/clock.h"
#include "core/isa.h"
#include "core/log.h"
#include "core/thread_pool.h"
#include "workload/determinism.h"

namespace pagoda::apps {
namespace {

constexpr int32_t kQuickCells = 24, kCells = 48;
// Any text: prompts are pieces of it.
constexpr const char* kText =
    "A pagoda is a tower of several storeys, each with its own roof. Builders in Nepal, China, Korea, Japan, Vietnam "
    "and "
    "Myanmar raised them of brick, stone or wood; some have stood for more than a thousand years of wind and "
    "earthquakes, "
    "because their floors move against each other while a central pillar keeps them together. def area(width, height): "
    "return width * height  # 12 storeys, 67.31 metres, about 3,000 tonnes; what one floor forgets the next one holds.";

struct DeterminismOptions {
  std::string model;
  bool quick = false;
  bool all = false;
  bool json = false;
};

/// What runs a cell of one ISA and thread count; the last one loaded is kept.
class EngineShelf {
 public:
  EngineShelf(std::string model, workload::EngineNeeds needs) : model_(std::move(model)), needs_(needs) {}

  Result<LoadedModel*> of(const workload::Cell& cell) {
    if (isa_ == cell.isa && threads_ == cell.threads) return &loaded_;
    loaded_ = {};  // the old weights are gone before the new ones come
    isa_.reset();
    engine::EngineOptions options;
    options.isa = cell.isa;
    options.threads = cell.threads;
    options.max_num_seqs = needs_.max_num_seqs;
    options.max_num_batched_tokens = needs_.max_num_batched_tokens;
    options.max_model_len = needs_.max_model_len;
    options.kv_cache_bytes = int64_t{1} << 40;  // no more than max_num_seqs can use, touched as needed
    PAGODA_TRY(loaded_, load_model(model_, options));
    const engine::EngineInfo& info = loaded_.engine->info();
    if (info.isa != isa::level_name(cell.isa) || info.threads != cell.threads)
      return Error{Code::kInternal, fmt::format("the engine runs {} on {} threads, the cell wants {} on {}", info.isa,
                                                info.threads, isa::level_name(cell.isa), cell.threads)};
    if (info.total_blocks < needs_.total_blocks)
      return Error{Code::kInternal,
                   fmt::format("the KV pool has {} blocks, the load needs {}", info.total_blocks, needs_.total_blocks)};
    isa_ = cell.isa;
    threads_ = cell.threads;
    return &loaded_;
  }

 private:
  std::string model_;
  workload::EngineNeeds needs_;
  LoadedModel loaded_{};
  std::optional<uint32_t> isa_{};
  int32_t threads_ = 0;
};

/// The levels of this CPU that are worth a whole matrix, best first.
std::vector<uint32_t> fast_levels() {
  std::vector<uint32_t> levels;
  for (const uint32_t level : {isa::kLevelAvx512, isa::kLevelAvx2})
    if (isa::covers(isa::detected(), level)) levels.push_back(level);
  if (levels.empty()) levels.push_back(isa::kLevelPortable);
  return levels;
}

/// The portable kernels need a second for 10 to 50 tokens of the smallest model: the quick set has them once, the
/// others not at all.
std::vector<workload::Cell> choose_cells(const workload::Matrix& matrix, const DeterminismOptions& o) {
  if (o.all) return workload::all_cells(matrix);
  std::vector<workload::Cell> cells = workload::pairwise_cells(matrix, o.quick ? kQuickCells - 1 : kCells);
  if (o.quick && matrix.isas.back() != isa::kLevelPortable) {
    workload::Cell portable = cells.back();
    // A row is dear there: a batch without company.
    portable = {
        7,    64, workload::CacheState::kCold, workload::Preemption::kNone, matrix.threads.back(), isa::kLevelPortable,
        false};
    cells.push_back(portable);
  }
  return cells;
}

std::string text_of(const workload::Cell& cell) {
  return fmt::format("batch {}, chunk {}, cache {}, preempt {}, {} threads, {}, {}", cell.batch, cell.chunk,
                     name_of(cell.cache), name_of(cell.preemption), cell.threads, isa::level_name(cell.isa),
                     cell.seeded ? "seeded" : "greedy");
}

Result<std::vector<workload::CellResult>> run_cells(const workload::Matrix& matrix, const DeterminismOptions& o) {
  PAGODA_TRY(const LoadedModel model, open_model(o.model));
  const workload::Load load = workload::make_load(model.tokenizer->encode(kText, {.add_special = false}));
  const std::vector<workload::Cell> cells = choose_cells(matrix, o);
  EngineShelf engines(o.model, workload::needs_of(load, matrix.batches.back(), matrix.chunks.back()));
  const SteadyClock clock;
  const int64_t begin_us = clock.now_us();
  std::vector<workload::CellResult> results;
  for (const workload::Cell& cell : cells) {
    PAGODA_TRY(LoadedModel* const loaded, engines.of(cell));
    auto result = workload::run_cell(*loaded->engine, loaded->tokenizer.get(), matrix, load, cell);
    if (!result.ok()) return Error{result.error().code, fmt::format("{}: {}", text_of(cell), result.error().message)};
    results.push_back(std::move(result).take());
    fmt::print(stderr, "[{:5.1f} s] {}/{} {}: {} tokens, {:.12}\n",
               static_cast<double>(clock.now_us() - begin_us) * 1e-6, results.size(), cells.size(), text_of(cell),
               results.back().tokens, results.back().sha256);
  }
  return results;
}

void print_json(const std::vector<workload::CellResult>& results, bool equal) {
  nlohmann::ordered_json out;
  out["cells"] = nlohmann::ordered_json::array();
  for (const workload::CellResult& r : results)
    out["cells"].push_back({{"batch", r.cell.batch},
                            {"chunk", r.cell.chunk},
                            {"cache", name_of(r.cell.cache)},
                            {"preempt", name_of(r.cell.preemption)},
                            {"threads", r.cell.threads},
                            {"isa", isa::level_name(r.cell.isa)},
                            {"sampling", r.cell.seeded ? "seeded" : "greedy"},
                            {"tokens", r.tokens},
                            {"sha256", r.sha256}});
  out["equal"] = equal;
  fmt::print("{}\n", out.dump());
}

void print_table(const std::vector<workload::CellResult>& results) {
  fmt::print("{:>5} {:>5} {:>5} {:>9} {:>7} {:>8} {:>8} {:>6}  sha256 of the answers\n", "batch", "chunk", "cache",
             "preempt", "threads", "isa", "sampling", "tokens");
  for (const workload::CellResult& r : results)
    fmt::print("{:>5} {:>5} {:>5} {:>9} {:>7} {:>8} {:>8} {:>6}  {:.16}\n", r.cell.batch, r.cell.chunk,
               name_of(r.cell.cache), name_of(r.cell.preemption), r.cell.threads, isa::level_name(r.cell.isa),
               r.cell.seeded ? "seeded" : "greedy", r.tokens, r.sha256);
}

std::string text_of(const std::optional<workload::SeenToken>& token, const text::Tokenizer& tokenizer) {
  if (!token) return "the end";
  const std::string spelled = tokenizer.valid(token->id) ? tokenizer.token_bytes(token->id) : "";
  return fmt::format("token {} {:?} (logprob {:.9g})", token->id, spelled, token->logprob);
}

void report(const workload::Difference& d, const std::vector<workload::CellResult>& results,
            const text::Tokenizer& tokenizer) {
  fmt::print(stderr,
             "pagoda verify: NOT equal: request {}, position {} of its answer: {} where it should be {}\n"
             "  in cell  {}: {}\n  unlike   {}: {}\n",
             d.request, d.position, text_of(d.got, tokenizer), text_of(d.expected, tokenizer), d.cell + 1,
             text_of(results[d.cell].cell), d.reference + 1, text_of(results[d.reference].cell));
}

int verify_determinism(const DeterminismOptions& o) {
  set_log_level(LogLevel::kWarning);
  workload::Matrix matrix;
  matrix.isas = fast_levels();
  const auto results = run_cells(matrix, o);
  if (!results.ok()) return fail("verify", results.error());
  const std::optional<workload::Difference> difference = workload::first_difference(results.value());
  if (o.json)
    print_json(results.value(), !difference);
  else
    print_table(results.value());
  if (!difference) {
    fmt::print(stderr, "all {} cells equal\n", results.value().size());
    return kDone;
  }
  const Result<LoadedModel> model = open_model(o.model);
  if (!model.ok()) return fail("verify", model.error());
  report(*difference, results.value(), *model.value().tokenizer);
  return kFailed;
}

}  // namespace

void add_verify(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("verify", "Check a promise on this machine");
  verb->require_subcommand(1);
  CLI::App* determinism = verb->add_subcommand(
      "determinism",
      "The same requests in many batches, chunks, caches, threads and instruction sets: the same bytes?");
  auto options = std::make_shared<DeterminismOptions>();
  determinism->add_option("MODEL", options->model, "a catalogue name, a .gguf file or a folder that holds one")
      ->required();
  CLI::Option* quick = determinism->add_flag(
      "--quick", options->quick, "23 cells that cover all pairs, and one on the portable kernels: 45 s for smollm2");
  determinism->add_flag("--all", options->all, "every combination, instead of 48 cells that cover all pairs")
      ->excludes(quick);
  determinism->add_flag("--json", options->json, "print one JSON object");
  determinism->footer(
      "Exit code 0: every cell gave the same tokens and logprob bits as the first one with its sampling; 1: one did "
      "not\n"
      "(standard error names request, position and token), or a cell did not do what it claims.\n"
      "Examples:\n  pagoda verify determinism smollm2:135m --quick\n"
      "  pagoda verify determinism qwen2.5-coder:1.5b --json");
  determinism->callback(
      [&invocation, options] { invocation.run = [options] { return verify_determinism(*options); }; });
}

}  // namespace pagoda::apps
