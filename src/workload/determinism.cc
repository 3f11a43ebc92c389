#include "workload/determinism.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>

#include "core/check.h"
#include "core/clock.h"
#include "core/isa.h"
#include "engine/block_store.h"
#include "engine/host_blocks.h"
#include "metrics/serving_metrics.h"
#include "scheduler/scheduler.h"
#include "workload/observed_engine.h"

namespace pagoda::workload {
namespace {

constexpr size_t kShorts = 29;    // after the first request
constexpr size_t kCompared = 14;  // of these; with the others 256 tokens
constexpr size_t kCommon = 16;    // tokens with which the first request and those after the short ones begin
constexpr int32_t kIntruderPriority = -1;

int32_t blocks_of(const Load::One& one) {
  return div_ceil(static_cast<int32_t>(one.prompt.size()) + one.max_tokens, kBlockTokens);
}

/// Remembers what one request's reader saw.
class AnswerSink final : public scheduler::EventSink {
 public:
  void push(scheduler::Event event) override {
    if (event.token) answer.push_back({event.token->id, event.token->logprob});
    if (event.error) error = std::move(event.error);
    if (event.finish) finished = true;
    cached_tokens = event.cached_tokens;
  }
  Answer answer;
  std::optional<Error> error;
  bool finished = false;
  int32_t cached_tokens = 0;
};

/// What a run did besides its answers.
struct Exercised {
  int32_t sequences = 0;    // in one step, at most
  int32_t prompt_rows = 0;  // in one step, at most
  int64_t preemptions = 0;
  std::vector<int32_t> cached_tokens{};  // by request
  int64_t disk_blocks = 0;               // that came from the disk tier
  int64_t swapped_blocks = 0;            // that came back from host memory
};

/// One load on one scheduler.
class Run {
 public:
  Run(engine::Engine& engine, const text::Tokenizer* tokenizer, const Load& load, const Cell& cell,
      int32_t total_blocks, scheduler::Tiers tiers)
      : load_(load),
        cell_(cell),
        engine_(engine),
        tiers_(tiers),
        scheduler_(engine_, tokenizer, limits_of(load, cell, total_blocks), clock_, metrics_, tiers),
        sinks_(load.requests.size()) {}

  /// Somebody asked for the common beginning before; nothing of that run counts.
  Status warm_up() {
    PAGODA_TRY(const auto sink, submit({load_.requests[kShorts + 1].prompt, 1, true}, 0, 0));
    PAGODA_TRY_STATUS(finish());
    if (sink->error) return *sink->error;
    engine_.forget();
    return ok_status();
  }

  Status all() {
    if (cell_.cache == CacheState::kWarm) PAGODA_TRY_STATUS(warm_up());
    PAGODA_TRY_STATUS(alone(0));
    for (size_t i = 1; i < load_.requests.size(); ++i) {
      if (!load_.runs(i, cell_.batch)) continue;
      if (cell_.batch == 1) {
        PAGODA_TRY_STATUS(alone(i));
      } else {
        PAGODA_TRY(sinks_[i], submit(load_.requests[i], 0, i));
      }
    }
    PAGODA_TRY_STATUS(finish());
    for (const auto& sink : sinks_)
      if (sink && sink->error) return *sink->error;
    return ok_status();
  }

  std::vector<Answer> take_answers() {
    std::vector<Answer> answers;
    for (size_t i = 0; i < load_.requests.size(); ++i)
      if (!load_.requests[i].company) answers.push_back(std::move(sinks_[i]->answer));
    return answers;
  }

  Exercised exercised() const {
    const auto loaded = [](engine::BlockTier* tier) {
      return tier != nullptr ? tier->counters().blocks_loaded.load() : 0;
    };
    Exercised e{.sequences = engine_.sequences(),
                .prompt_rows = engine_.prompt_rows(),
                .preemptions = metrics_.preemptions(),
                .disk_blocks = loaded(tiers_.disk),
                .swapped_blocks = loaded(tiers_.host)};
    for (const auto& sink : sinks_)
      if (sink) e.cached_tokens.push_back(sink->cached_tokens);
    return e;
  }

 private:
  static scheduler::Limits limits_of(const Load& load, const Cell& cell, int32_t total_blocks) {
    const EngineNeeds needs = needs_of(load, cell.batch, cell.chunk);
    return {.max_num_seqs = needs.max_num_seqs,
            .max_num_batched_tokens = needs.max_num_batched_tokens,
            .max_model_len = needs.max_model_len,
            .total_blocks = total_blocks,
            .prefix_caching = cell.cache != CacheState::kOff,
            .policy = scheduler::Policy::kPriority,  // the intruder's
            .preemption = cell.preemption == Preemption::kSwap ? scheduler::PreemptionMode::kSwap
                                                               : scheduler::PreemptionMode::kRecompute,
            .max_prompt_rows = cell.chunk};
  }

  Result<std::shared_ptr<AnswerSink>> submit(const Load::One& one, int32_t priority, size_t index) {
    auto sink = std::make_shared<AnswerSink>();
    scheduler::Request request;
    request.prompt = one.prompt;
    request.max_tokens = one.max_tokens;
    request.ignore_eos = true;
    request.priority = priority;
    request.sampling.logprobs = 0;
    request.sampling.seed = 1000 + index;
    request.sampling.temperature = cell_.seeded ? 1.f : 0.f;
    if (cell_.seeded) request.sampling.top_p = 0.95f;
    request.sink = sink;
    PAGODA_TRY(const scheduler::RequestId id, scheduler_.submit(std::move(request)));
    static_cast<void>(id);
    return sink;
  }

  Status finish() {
    for (bool worked = true; worked;) {
      PAGODA_TRY(worked, scheduler_.step());
    }
    return ok_status();
  }

  /// The first one meets the intruder, if it is to be preempted.
  Status alone(size_t i) {
    PAGODA_TRY(sinks_[i], submit(load_.requests[i], 0, i));
    const bool disturbed = cell_.batch == 1 && cell_.preemption != Preemption::kNone && i == 0;
    if (disturbed) {
      while (sinks_[i]->answer.empty() && !sinks_[i]->finished) {
        PAGODA_TRY(const bool worked, scheduler_.step());
        PAGODA_CHECK(worked);
      }
      PAGODA_TRY(const auto nobody, submit(load_.intruder, kIntruderPriority, load_.requests.size()));
      static_cast<void>(nobody);
    }
    return finish();
  }

  const Load& load_;
  const Cell& cell_;
  ObservedEngine engine_;
  const scheduler::Tiers tiers_;
  const SteadyClock clock_;
  metrics::ServingMetrics metrics_{"determinism"};
  scheduler::Scheduler scheduler_;
  std::vector<std::shared_ptr<AnswerSink>> sinks_;  // by request; null = not run
};

/// Whether the run was what the cell claims.
Status check_claims(const Exercised& e, const Cell& cell, const std::vector<int32_t>& chunks) {
  const auto refuse = [&](std::string what) {
    return Error{Code::kInternal, "the cell did not exercise what it claims: " + std::move(what)};
  };
  const bool preempts = cell.preemption != Preemption::kNone;
  const int32_t sequences = cell.batch == 1 && preempts ? 2 : cell.batch;  // the intruder
  if (e.sequences != sequences)
    return refuse(fmt::format("batch {}, but at most {} sequences shared a step", cell.batch, e.sequences));
  const auto larger = std::ranges::lower_bound(chunks, cell.chunk);
  const int32_t least = larger == chunks.begin() ? cell.chunk : *(larger - 1) + 1;
  if (e.prompt_rows > cell.chunk || e.prompt_rows < least)
    return refuse(fmt::format("chunk {}, but a step had up to {} prompt rows", cell.chunk, e.prompt_rows));
  if (preempts != (e.preemptions > 0))
    return refuse(fmt::format("preemption {}, but there were {}", name_of(cell.preemption), e.preemptions));
  const int32_t first = e.cached_tokens.front();  // before it nobody of this load had its beginning
  const int32_t all = std::accumulate(e.cached_tokens.begin(), e.cached_tokens.end(), 0);
  const bool as_claimed = cell.cache == CacheState::kOff    ? all == 0
                          : cell.cache == CacheState::kCold ? first == 0 && all > 0
                                                            : first > 0;
  if (!as_claimed)
    return refuse(fmt::format("cache {}, but {} prompt tokens were found, {} of them by the first with that beginning",
                              name_of(cell.cache), all, first));
  if ((cell.cache == CacheState::kDisk) != (e.disk_blocks > 0))
    return refuse(fmt::format("cache {}, but {} blocks came from disk", name_of(cell.cache), e.disk_blocks));
  if ((cell.preemption == Preemption::kSwap) != (e.swapped_blocks > 0))
    return refuse(fmt::format("preemption {}, but {} blocks came back from host memory", name_of(cell.preemption),
                              e.swapped_blocks));
  return ok_status();
}

/// What a server before this one left: the common beginning, in a folder of its own that goes with it.
class DiskBefore {
 public:
  static Result<std::unique_ptr<DiskBefore>> create(engine::Engine& engine, const text::Tokenizer* tokenizer,
                                                    const Load& load, const Cell& cell) {
    std::string folder = (std::filesystem::temp_directory_path() / "pagoda-verify-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr)
      return Error{Code::kIo, fmt::format("{} cannot be created: {}", folder, std::strerror(errno))};
    std::unique_ptr<DiskBefore> disk(new DiskBefore(folder));
    const engine::KvFingerprint fingerprint{.digest = {}, .text = "verify", .block_bytes = engine.block_bytes()};
    PAGODA_TRY(disk->store_, engine::BlockStore::open({.folder = folder}, fingerprint));
    Run before(engine, tokenizer, load, cell, load.blocks_max(), {.disk = disk->store_.get()});
    PAGODA_TRY_STATUS(before.warm_up());
    if (!disk->store_->flush(kFlushUs)) return Error{Code::kIo, folder + ": the common beginning was not written"};
    return disk;
  }
  ~DiskBefore() {
    store_.reset();
    std::error_code nobody_cares;
    std::filesystem::remove_all(folder_, nobody_cares);
  }

  engine::BlockStore* store() { return store_.get(); }

 private:
  static constexpr int64_t kFlushUs = 10'000'000;
  explicit DiskBefore(std::string folder) : folder_(std::move(folder)) {}

  const std::string folder_;
  std::unique_ptr<engine::BlockStore> store_{};
};

/// Host memory for all blocks of the load, if the cell swaps.
Result<std::unique_ptr<engine::HostBlocks>> swap_space(const Load& load, const Cell& cell, int64_t block_bytes) {
  if (cell.preemption != Preemption::kSwap || block_bytes == 0) return std::unique_ptr<engine::HostBlocks>();
  return engine::HostBlocks::create({}, block_bytes, load.blocks_max() * block_bytes);
}

/// What a run would exercise in such a pool, found without computing: lengths are fixed, so what the scheduler does
/// depends on the pool alone.
Result<Exercised> rehearse(const Load& load, const Cell& cell, int32_t total_blocks, int64_t block_bytes) {
  NullEngine nothing(block_bytes);
  PAGODA_TRY(const auto host, swap_space(load, cell, block_bytes));
  Run rehearsal(nothing, nullptr, load, cell, total_blocks, {.host = host.get()});
  PAGODA_TRY_STATUS(rehearsal.all());
  return rehearsal.exercised();
}

/// A large pool in which the load does what the cell claims.
Result<int32_t> choose_pool(const Load& load, const Cell& cell, const std::vector<int32_t>& chunks,
                            int64_t block_bytes) {
  if (cell.preemption == Preemption::kNone) return load.blocks_max();
  int32_t least = blocks_of(load.intruder);
  for (const Load::One& one : load.requests) least = std::max(least, blocks_of(one));
  Cell rehearsed = cell;
  if (cell.cache == CacheState::kDisk) rehearsed.cache = CacheState::kCold;  // as empty at first, in as many blocks
  int32_t preempts = least, too_large = load.blocks_max();
  while (too_large - preempts > 1) {
    const int32_t blocks = preempts + (too_large - preempts) / 2;
    PAGODA_TRY(const Exercised e, rehearse(load, rehearsed, blocks, block_bytes));
    (e.preemptions > 0 ? preempts : too_large) = blocks;
  }
  Status claims = ok_status();
  for (int32_t blocks = preempts; blocks >= least; --blocks) {
    PAGODA_TRY(const Exercised e, rehearse(load, rehearsed, blocks, block_bytes));
    claims = check_claims(e, rehearsed, chunks);
    if (claims.ok()) return blocks;
  }
  return Error{Code::kInternal, "no KV pool makes this happen; in the smallest " + claims.error().message};
}

void append_u32(std::vector<unsigned char>& bytes, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<unsigned char>(value >> shift));
}

std::string digest_of(const std::vector<Answer>& answers) {
  std::vector<unsigned char> bytes;
  for (const Answer& answer : answers) {
    append_u32(bytes, static_cast<uint32_t>(answer.size()));
    for (const SeenToken& token : answer) {
      append_u32(bytes, static_cast<uint32_t>(token.id));
      append_u32(bytes, std::bit_cast<uint32_t>(token.logprob));
    }
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(bytes.data(), bytes.size(), digest);
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

std::vector<Cell> cells_of(const Matrix& matrix, const std::vector<FactorRow>& rows) {
  std::vector<Cell> cells;
  for (const FactorRow& row : rows) cells.push_back(matrix.cell(row));
  const auto engine = [&](const Cell& cell) {
    return std::pair{std::ranges::find(matrix.isas, cell.isa), std::ranges::find(matrix.threads, cell.threads)};
  };
  std::ranges::stable_sort(cells, [&](const Cell& a, const Cell& b) { return engine(a) < engine(b); });
  return cells;
}

}  // namespace

const char* name_of(CacheState cache) {
  switch (cache) {
    case CacheState::kOff:
      return "off";
    case CacheState::kCold:
      return "cold";
    case CacheState::kWarm:
      return "warm";
    case CacheState::kDisk:
      return "disk";
  }
  return "off";
}

const char* name_of(Preemption preemption) {
  switch (preemption) {
    case Preemption::kNone:
      return "none";
    case Preemption::kRecompute:
      return "recompute";
    case Preemption::kSwap:
      return "swap";
  }
  return "none";
}

std::vector<int32_t> Matrix::levels() const {
  const auto count = [](const auto& values) { return static_cast<int32_t>(values.size()); };
  return {count(batches), count(chunks), count(caches), count(preemptions), count(threads), count(isas), 2};
}

Cell Matrix::cell(const FactorRow& row) const {
  PAGODA_CHECK(row.size() == levels().size());
  const auto at = [&](size_t factor) { return static_cast<size_t>(row[factor]); };
  return {batches[at(0)], chunks[at(1)], caches[at(2)], preemptions[at(3)], threads[at(4)], isas[at(5)], row[6] == 1};
}

bool Matrix::possible(const FactorRow& row) const {
  const Cell c = cell(row);
  return c.cache != CacheState::kOff || c.preemption != Preemption::kSwap;
}

std::vector<Cell> pairwise_cells(const Matrix& matrix, int32_t least) {
  const auto several = [&](const FactorRow& row) { return matrix.batches[static_cast<size_t>(row[0])] > 1; };
  const auto possible = [&](const FactorRow& row) { return matrix.possible(row); };
  return cells_of(matrix, pairwise_rows(matrix.levels(), least, several, possible));
}

std::vector<Cell> all_cells(const Matrix& matrix) {
  std::vector<FactorRow> rows = all_rows(matrix.levels());
  std::erase_if(rows, [&](const FactorRow& row) { return !matrix.possible(row); });
  return cells_of(matrix, rows);
}

int64_t Load::answer_tokens() const {
  int64_t tokens = 0;
  for (const One& one : requests) tokens += one.company ? 0 : one.max_tokens;
  return tokens;
}

bool Load::runs(size_t i, int32_t batch) const {
  return !requests[i].company || batch > std::ssize(requests) - static_cast<int32_t>(kShorts - kCompared);
}

int32_t Load::blocks_max() const {
  int32_t blocks = blocks_of(intruder);
  for (const One& one : requests) blocks += blocks_of(one) + 1;
  return blocks;
}

Load make_load(const std::vector<TokenId>& text) {
  PAGODA_CHECK(text.size() >= 64);
  const auto stretch = [&](size_t from, size_t count) {
    std::vector<TokenId> tokens;
    for (size_t i = from; i < from + count; ++i) tokens.push_back(text[i % text.size()]);
    return tokens;
  };
  Load load;
  const std::vector<TokenId> common = stretch(0, kCommon);
  const auto begin_alike = [&](size_t from, size_t own, int32_t answer) {
    Load::One one{common, answer, false};
    const std::vector<TokenId> rest = stretch(from, own);
    one.prompt.insert(one.prompt.end(), rest.begin(), rest.end());
    load.requests.push_back(std::move(one));
  };
  begin_alike(60, 66, 4);
  // With chunks of 16 rows about four of these enter in a step: the earlier ones are still there when the last enters.
  for (size_t i = 0; i < kShorts; ++i)
    load.requests.push_back(
        {stretch(2 * i + 1, i < kShorts - 5 ? 2 : 14), 16 - static_cast<int32_t>(i) / 8, i >= kCompared});
  begin_alike(23, 4, 14);
  begin_alike(25, 9, 12);
  begin_alike(16, 15, 8);
  load.intruder = {stretch(40, 15), 56, true};
  return load;
}

bool SeenToken::operator==(const SeenToken& other) const {
  return id == other.id && std::bit_cast<uint32_t>(logprob) == std::bit_cast<uint32_t>(other.logprob);
}

EngineNeeds needs_of(const Load& load, int32_t batch_max, int32_t chunk_max) {
  int32_t longest = 0;
  for (const Load::One& one : load.requests)
    longest = std::max(longest, static_cast<int32_t>(one.prompt.size()) + one.max_tokens);
  const int32_t sequences = batch_max == 1 ? 2 : batch_max;  // the intruder
  return {sequences, sequences + chunk_max, std::max(longest, 64), load.blocks_max()};
}

Result<CellResult> run_cell(engine::Engine& engine, const text::Tokenizer* tokenizer, const Matrix& matrix,
                            const Load& load, const Cell& cell) {
  PAGODA_TRY(const int32_t blocks, choose_pool(load, cell, matrix.chunks, engine.block_bytes()));
  std::unique_ptr<DiskBefore> disk;
  if (cell.cache == CacheState::kDisk) {
    PAGODA_TRY(disk, DiskBefore::create(engine, tokenizer, load, cell));
  }
  PAGODA_TRY(const auto host, swap_space(load, cell, engine.block_bytes()));
  Run run(engine, tokenizer, load, cell, blocks, {.host = host.get(), .disk = disk ? disk->store() : nullptr});
  PAGODA_TRY_STATUS(run.all());
  PAGODA_TRY_STATUS(check_claims(run.exercised(), cell, matrix.chunks));
  CellResult result{cell, 0, "", run.take_answers()};
  for (const Answer& answer : result.answers) result.tokens += std::ssize(answer);
  result.sha256 = digest_of(result.answers);
  return result;
}

std::optional<Difference> first_difference(const std::vector<CellResult>& results) {
  for (size_t c = 0; c < results.size(); ++c) {
    size_t reference = 0;
    while (results[reference].cell.seeded != results[c].cell.seeded) ++reference;
    const auto &expected = results[reference].answers, &got = results[c].answers;
    for (size_t r = 0; r < std::max(expected.size(), got.size()); ++r) {
      const auto at = [&](const std::vector<Answer>& answers, size_t position) -> std::optional<SeenToken> {
        if (r >= answers.size() || position >= answers[r].size()) return std::nullopt;
        return answers[r][position];
      };
      for (size_t p = 0; at(expected, p) || at(got, p); ++p)
        if (at(expected, p) != at(got, p))
          return Difference{c,         reference, static_cast<int32_t>(r), static_cast<int32_t>(p), at(expected, p),
                            at(got, p)};
    }
  }
  return std::nullopt;
}

}  // namespace pagoda::workload
