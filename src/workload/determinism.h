#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "engine/batch.h"
#include "text/tokenizer.h"
#include "workload/covering_set.h"

namespace pagoda::workload {

enum class CacheState : uint8_t {
  kOff,   // no prefix cache
  kCold,  // empty at first: later requests find what earlier ones left
  kWarm,  // holds the common beginning from before
  kDisk,  // empty, but a server before this one left the common beginning on disk
};
enum class Preemption : uint8_t {
  kNone,
  kRecompute,  // a pool too small for all: some give their blocks back and are computed again
  kSwap,       // the same, but their full blocks wait in host memory; impossible without prefix cache
};

/// One way to run the same requests.
struct Cell {
  int32_t batch;  // requests in a step at most, reached at least once; 1 = one after another
  int32_t chunk;  // prompt rows in a step at most
  CacheState cache;
  Preemption preemption;
  int32_t threads;
  uint32_t isa;  // a level of isa::
  bool seeded;   // sampled with a seed; greedy otherwise
};

const char* name_of(CacheState cache);
const char* name_of(Preemption preemption);

/// The values that cells combine.
struct Matrix {
  std::vector<int32_t> batches{1, 7, 32};
  std::vector<int32_t> chunks{16, 64, 512};  // ascending
  std::vector<CacheState> caches{CacheState::kOff, CacheState::kCold, CacheState::kWarm, CacheState::kDisk};
  std::vector<Preemption> preemptions{Preemption::kNone, Preemption::kRecompute, Preemption::kSwap};
  std::vector<int32_t> threads{1, 2};
  std::vector<uint32_t> isas{};  // levels of this CPU, best first

  std::vector<int32_t> levels() const;  // how many values each has; the last factor is greedy, seeded
  Cell cell(const FactorRow& row) const;
  /// All but swapping without a prefix cache, by which swapped blocks are found again.
  bool possible(const FactorRow& row) const;
};

/// Cells in which any two values of any two factors meet that can, `least` or more (those beyond pairs run several
/// requests at once, which is quick); ordered so that cells with the same engine (ISA and threads) follow each other.
/// The first is the plainest: one by one, no cache, no preemption, one thread.
std::vector<Cell> pairwise_cells(const Matrix& matrix, int32_t least);
/// Every possible combination, in the same order.
std::vector<Cell> all_cells(const Matrix& matrix);

/// The requests of a cell: the first alone (its prompt fills chunks), then the others together: short ones that soon
/// need a second block, then three that begin as the first one does. Every cell runs and compares the same ones; large
/// batches have others for company, whose answers nobody compares. Where requests run one by one and the first is to be
/// preempted, `intruder` takes its blocks, and is not compared either.
struct Load {
  struct One {
    std::vector<TokenId> prompt{};
    int32_t max_tokens = 0;
    bool company = false;
  };
  std::vector<One> requests{};
  One intruder{};

  int64_t answer_tokens() const;  // of those that are compared
  /// Whether a cell of that batch runs requests[i].
  bool runs(size_t i, int32_t batch) const;
  int32_t blocks_max() const;  // KV blocks that hold all requests at once
};
/// `text`: any tokens, at least 64, no two stretches of three alike within the first 64; repeated as needed.
Load make_load(const std::vector<TokenId>& text);

/// What one request's reader saw of a token.
struct SeenToken {
  TokenId id;
  float logprob;  // compared by its bits
  bool operator==(const SeenToken& other) const;
};
using Answer = std::vector<SeenToken>;

struct CellResult {
  Cell cell;
  int64_t tokens;      // sampled, over the requests that are compared
  std::string sha256;  // hexadecimal, of their answers: count, then id and logprob bits of each token, little-endian
  std::vector<Answer> answers;
};

/// Where a cell first differs from the cell it should equal.
struct Difference {
  size_t cell;                             // index
  size_t reference;                        // index of the first cell with the same sampling
  int32_t request;                         // of those that are compared
  int32_t position;                        // in the answer
  std::optional<SeenToken> expected, got;  // absent past an answer's end
};

/// Sizes an engine must have for every cell of a load.
struct EngineNeeds {
  int32_t max_num_seqs;
  int32_t max_num_batched_tokens;
  int32_t max_model_len;
  int32_t total_blocks;
};
EngineNeeds needs_of(const Load& load, int32_t batch_max, int32_t chunk_max);

/// Runs the load as the cell says, with the scheduler that serves. `engine` is one of the cell's ISA and threads, sized
/// as needs_of() says; `tokenizer` may be null.
/// A disk cell keeps its blocks in a folder of its own below the system's temporary one, and removes it.
/// Errors: kInternal when the engine fails, or when the run did not exercise what the cell claims (batch not reached,
/// chunk not filled, no hit, no block from disk, no preemption, no block that came back from host memory): such a cell
/// would prove nothing. kIo without a folder.
Result<CellResult> run_cell(engine::Engine& engine, const text::Tokenizer* tokenizer, const Matrix& matrix,
                            const Load& load, const Cell& cell);

/// The first difference, by cell, request and position; nothing if all cells of each sampling are equal.
std::optional<Difference> first_difference(const std::vector<CellResult>& results);

}  // namespace pagoda::workload
