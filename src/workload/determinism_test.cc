// Goal: every cell exercises what it claims, equal engines give equal cells, and one that depends on its batch, chunks,
// cache or preemption is found and named. Method: all cells of the matrix on the fake engine (its token is a hash of
// what it finds in the KV cache), then engines broken on purpose.
#include "workload/determinism.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/isa.h"
#include "scheduler/test_support.h"

namespace pagoda::workload {
namespace {

using ::testing::HasSubstr;

Matrix matrix() {
  Matrix m;
  m.isas = {isa::kLevelPortable};
  return m;
}

Load load() {
  std::vector<TokenId> text;
  for (int32_t i = 0; i < 64; ++i) text.push_back('0' + i);
  return make_load(text);
}

/// The fake engine, which may lie about a token.
class BrokenEngine : public engine::Engine {
 public:
  using Lie = std::function<bool(const engine::Batch&, const engine::SequenceChunk&)>;
  BrokenEngine(engine::Engine& inner, Lie lie) : inner_(inner), lie_(std::move(lie)) {}

  Result<engine::StepOutput> run(const engine::Batch& batch) override {
    auto out = inner_.run(batch);
    if (!out.ok()) return out;
    for (size_t i = 0; i < batch.chunks.size(); ++i)
      if (auto& token = out.value().chunks[i].token; token && lies(batch, batch.chunks[i])) token->logprob -= 1;
    return out;
  }
  int64_t block_bytes() const override { return keeps_blocks ? 0 : inner_.block_bytes(); }
  void save_block(kvcache::Pages pages, std::span<std::byte> into) const override { inner_.save_block(pages, into); }
  void load_block(kvcache::Pages pages, std::span<const std::byte> from) override {
    inner_.load_block(pages, from);
    loaded_ = true;
  }
  bool lies_after_loads = false;
  bool keeps_blocks = false;  // no other tier gets them

 private:
  bool lies(const engine::Batch& batch, const engine::SequenceChunk& chunk) const {
    return (lie_ && lie_(batch, chunk)) || (lies_after_loads && loaded_);
  }

  engine::Engine& inner_;
  Lie lie_;
  bool loaded_ = false;
};

/// Of an engine that holds the whole load.
scheduler::Limits limits() {
  const EngineNeeds needs = needs_of(load(), 32, 512);
  return {.max_num_seqs = needs.max_num_seqs,
          .max_num_batched_tokens = needs.max_num_batched_tokens,
          .max_model_len = needs.max_model_len,
          .total_blocks = needs.total_blocks};
}

Result<std::vector<CellResult>> run(const std::vector<Cell>& cells, BrokenEngine::Lie lie = nullptr,
                                    bool lies_after_loads = false) {
  std::vector<CellResult> results;
  for (const Cell& cell : cells) {
    scheduler::FakeEngine fake(limits(), nullptr);
    BrokenEngine engine(fake, lie);
    engine.lies_after_loads = lies_after_loads;
    PAGODA_TRY(CellResult result, run_cell(engine, nullptr, matrix(), load(), cell));
    results.push_back(std::move(result));
  }
  return results;
}

TEST(Determinism, EveryCellOfTheMatrixExercisesWhatItClaims) {
  const std::vector<Cell> cells = all_cells(matrix());
  ASSERT_EQ(cells.size(), 3u * 3 * (4 * 3 - 1) * 2 * 2);  // no swapping without prefix cache
  for (const Cell& cell : cells) {
    if (cell.threads == 2) continue;  // the fake engine has no threads
    const auto results = run({cell});
    EXPECT_TRUE(results.ok()) << results.error().message << ": batch " << cell.batch << " chunk " << cell.chunk
                              << " cache " << name_of(cell.cache) << " preempt " << name_of(cell.preemption);
    if (!results.ok()) continue;
    EXPECT_GE(results.value()[0].tokens, 256);
    EXPECT_EQ(results.value()[0].tokens, load().answer_tokens());
  }
}

TEST(Determinism, EqualEnginesGiveEqualCells) {
  const std::vector<Cell> cells = pairwise_cells(matrix(), 24);
  EXPECT_GE(cells.size(), 24u);
  EXPECT_EQ(cells[0].batch, 1);
  const auto results = run(cells);
  ASSERT_TRUE(results.ok()) << results.error().message;
  EXPECT_FALSE(first_difference(results.value()));
  for (const CellResult& result : results.value())
    for (const CellResult& other : results.value())
      EXPECT_EQ(result.sha256, other.sha256);  // the fake knows no temperature
}

TEST(Determinism, NamesTheFirstRequestPositionAndToken) {
  // A logprob that is off when 32 sequences share a step and one has answered three tokens.
  const auto results = run(pairwise_cells(matrix(), 24), [](const engine::Batch& batch, const auto& chunk) {
    return batch.chunks.size() == 32 && chunk.history.size() == static_cast<size_t>(chunk.prompt_tokens) + 3;
  });
  ASSERT_TRUE(results.ok()) << results.error().message;
  const auto difference = first_difference(results.value());
  ASSERT_TRUE(difference);
  EXPECT_EQ(results.value()[difference->cell].cell.batch, 32);
  EXPECT_NE(results.value()[difference->reference].cell.batch, 32);
  EXPECT_EQ(difference->position, 3);
  ASSERT_TRUE(difference->expected && difference->got);
  EXPECT_EQ(difference->expected->id, difference->got->id);
  EXPECT_EQ(difference->expected->logprob - 1, difference->got->logprob);
}

TEST(Determinism, FindsWhatOnlyChunksCacheOrPreemptionBreak) {
  const auto differs = [](BrokenEngine::Lie lie) {
    const auto results = run(pairwise_cells(matrix(), 24), std::move(lie));
    EXPECT_TRUE(results.ok()) << results.error().message;
    return results.ok() && first_difference(results.value()).has_value();
  };
  // A prompt that was cut, or not computed here: its last chunk does not begin at 0.
  EXPECT_TRUE(differs([](const auto&, const auto& chunk) { return chunk.count > 1 && chunk.begin > 0; }));
  // Output that is computed again, as only preemption makes it happen.
  EXPECT_TRUE(differs([](const auto&, const auto& chunk) {
    return chunk.count > 1 && chunk.history.size() > static_cast<size_t>(chunk.prompt_tokens);
  }));
}

TEST(Determinism, FindsWhatTheTiersBreak) {
  std::vector<Cell> cells = pairwise_cells(matrix(), 24);
  for (const bool swap : {false, true}) {
    std::erase_if(cells, [&](const Cell& cell) { return swap && cell.cache == CacheState::kDisk; });
    const auto results = run(cells, nullptr, true);
    ASSERT_TRUE(results.ok()) << results.error().message;
    const auto difference = first_difference(results.value());
    ASSERT_TRUE(difference);
    const Cell& found = results.value()[difference->cell].cell;
    EXPECT_TRUE(found.cache == CacheState::kDisk || found.preemption == Preemption::kSwap);
    EXPECT_TRUE(!swap || found.preemption == Preemption::kSwap);
  }
}

TEST(Determinism, RefusesASwapThatDoesNotHappen) {
  scheduler::FakeEngine fake(limits(), nullptr);
  BrokenEngine engine(fake, nullptr);
  engine.keeps_blocks = true;
  const Cell cell{7, 64, CacheState::kCold, Preemption::kSwap, 1, isa::kLevelPortable, false};
  const auto result = run_cell(engine, nullptr, matrix(), load(), cell);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("no KV pool makes this happen"));
}

TEST(Determinism, RefusesACellThatProvesNothing) {
  Matrix m = matrix();
  m.chunks = {16, 100, 512};
  Cell cell = m.cell({0, 2, 0, 0, 0, 0, 0});  // 512 rows: but no prompt has more than 100
  scheduler::FakeEngine fake(limits(), nullptr);
  const auto result = run_cell(fake, nullptr, m, load(), cell);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.error().message, HasSubstr("chunk 512"));
}

}  // namespace
}  // namespace pagoda::workload
