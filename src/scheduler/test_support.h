#pragma once
// What the scheduler's tests share: an engine whose model is a hash, a byte vocabulary, and a sink that remembers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/batch.h"
#include "scheduler/scheduler.h"
#include "text/tokenizer.h"

namespace pagoda::scheduler {

inline constexpr TokenId kEos = 256;      // ends a generation
inline constexpr TokenId kControl = 257;  // has no text
inline constexpr TokenId kPoison = 258;   // as a prompt's first token: every sampling of that sequence fails

/// One token a byte, in GPT-2's printable alphabet, and the two above.
inline std::unique_ptr<text::Tokenizer> byte_tokenizer() {
  text::VocabSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code = printable ? byte : next++;
    std::string utf8;
    if (code < 0x80) {
      utf8 = static_cast<char>(code);
    } else {
      utf8 = {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
    }
    spec.tokens.push_back(utf8);
  }
  spec.types.assign(256, text::TokenType::kNormal);
  for (const char* control : {"<eos>", "<control>", "<poison>"}) {
    spec.tokens.emplace_back(control);
    spec.types.push_back(text::TokenType::kControl);
  }
  spec.eos = kEos;
  auto tokenizer = text::Tokenizer::create(std::move(spec));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return std::move(tokenizer).take();
}

/// A model whose next token is a hash of what it finds in the KV cache, read through the block table: a block that was
/// given away too early, shared by mistake or not computed again changes the output. A cell knows the whole text before
/// it, as K and V do, so that equal tokens after another beginning are no substitute.
class FakeEngine : public engine::Engine {
 public:
  FakeEngine(Limits limits, FakeClock* clock) : limits_(limits), clock_(clock) {
    cells_.assign(static_cast<size_t>(limits.total_blocks) * kBlockTokens, 0);
  }

  Result<engine::StepOutput> run(const engine::Batch& batch) override {
    ++steps;
    const int64_t took_us = cost_us ? cost_us(batch) : 1000;
    if (clock_ != nullptr) clock_->advance_us(took_us);
    took.push_back(took_us);
    if (fail_at_step == steps) return Error{Code::kInternal, "the fake engine was told to fail"};
    if (throw_at_step == steps) throw std::bad_alloc();
    check(batch);
    copy(batch);
    for (const engine::SequenceChunk& chunk : batch.chunks)
      for (int32_t i = chunk.begin; i < chunk.begin + chunk.count; ++i) {
        const uint64_t text = text_after(i > 0 ? cell(chunk, i - 1) : 0, chunk.history[i]);
        for (int32_t table = 0; table < limits_.shape.pages(); ++table) cell(chunk, i, table) = text;
      }
    engine::StepOutput out;
    for (const engine::SequenceChunk& chunk : batch.chunks) out.chunks.push_back(answer(chunk));
    return out;
  }

  std::function<int64_t(const engine::Batch&)> cost_us;  // what a step takes; 1 ms if empty
  std::vector<int64_t> took;                             // by step
  int64_t block_bytes() const override { return kBlockTokens * static_cast<int64_t>(sizeof(uint64_t)); }
  kvcache::BlockShape block_shape() const override { return limits_.shape; }
  void save_block(kvcache::Pages pages, std::span<std::byte> into) const override {
    ASSERT_EQ(pages.size(), static_cast<size_t>(limits_.shape.pages()));
    std::memcpy(into.data(), &cells_.at(static_cast<size_t>(pages.front()) * kBlockTokens), into.size());
    for (const BlockId page : pages)
      ASSERT_EQ(std::memcmp(into.data(), &cells_.at(static_cast<size_t>(page) * kBlockTokens), into.size()), 0);
  }
  void load_block(kvcache::Pages pages, std::span<const std::byte> from) override {
    ASSERT_EQ(pages.size(), static_cast<size_t>(limits_.shape.pages()));
    for (const BlockId page : pages)
      std::memcpy(&cells_.at(static_cast<size_t>(page) * kBlockTokens), from.data(), from.size());
  }

  /// Of the ids after a whole text, by what sample index 0 draws from.
  static std::vector<sampling::TokenLogprob> likeliest(const std::vector<TokenId>& history, uint64_t seed,
                                                       int32_t count) {
    uint64_t hash = mix(seed, 0), text = 0;
    for (const TokenId token : history) hash = mix(hash, text = text_after(text, token));
    return likeliest_after(hash, count);
  }

  int64_t steps = 0;
  int64_t rows_computed = 0;
  int64_t blocks_copied = 0;
  int64_t fail_at_step = -1;
  int64_t throw_at_step = -1;
  int32_t failing_choice = -1;          // this choice of every request fails at its third token
  uint64_t trace = 0;                   // of every batch: the same load must give the same
  std::vector<TokenId> script;          // by output position: instead of the hash, if not empty
  std::map<SeqId, int64_t> first_seen;  // step of a sequence's first row

 private:
  /// Letters and the end, on a coarse grid: ties are frequent.
  static std::vector<sampling::TokenLogprob> likeliest_after(uint64_t hash, int32_t count) {
    std::vector<sampling::TokenLogprob> all;
    for (TokenId id = 'a'; id <= 'z' + 1; ++id) {
      const TokenId token = id > 'z' ? kEos : id;
      all.push_back({token, -0.125f * static_cast<float>((mix(hash, static_cast<uint64_t>(token)) >> 20) % 64)});
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
    });
    all.resize(std::min(all.size(), static_cast<size_t>(count)));
    return all;
  }
  static uint64_t text_after(uint64_t before, TokenId token) { return mix(before + 1, static_cast<uint64_t>(token)); }

  uint64_t& cell(const engine::SequenceChunk& chunk, int32_t position, int32_t table = 0) {
    const auto index = static_cast<size_t>(position / kBlockTokens);
    const auto block = static_cast<size_t>(table == 0 ? chunk.blocks[index]
                                                      : chunk.further_blocks[static_cast<size_t>(table) - 1].at(index));
    return cells_.at(block * kBlockTokens + static_cast<size_t>(position % kBlockTokens));
  }

  static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
    return hash ^ (hash >> 29);
  }

  void check(const engine::Batch& batch) {
    int32_t rows = 0;
    std::map<BlockId, int> readers;
    for (const engine::SequenceChunk& chunk : batch.chunks) {
      std::set<BlockId> all(chunk.blocks.begin(), chunk.blocks.end());
      for (const std::vector<BlockId>& table : chunk.further_blocks) all.insert(table.begin(), table.end());
      all.erase(kvcache::kNoPage);
      for (const BlockId block : all) ++readers[block];
    }
    for (const engine::BlockCopy& copy : batch.copies) ASSERT_EQ(readers[copy.to], 1) << "copied into a shared block";
    for (const engine::SequenceChunk& chunk : batch.chunks) {
      ASSERT_GE(chunk.count, 1);
      ASSERT_LE(static_cast<size_t>(chunk.begin + chunk.count), chunk.history.size());
      ASSERT_LE(chunk.history.size(), static_cast<size_t>(limits_.max_model_len));
      ASSERT_EQ(chunk.blocks.size(), static_cast<size_t>(div_ceil(chunk.begin + chunk.count, kBlockTokens)));
      ASSERT_EQ(chunk.further_blocks.size(), static_cast<size_t>(limits_.shape.pages()) - 1);
      for (size_t b = static_cast<size_t>(chunk.begin / kBlockTokens); b < chunk.blocks.size(); ++b) {
        ASSERT_EQ(readers[chunk.blocks[b]], 1) << "a row writes to a block that others read";
        for (const std::vector<BlockId>& table : chunk.further_blocks) ASSERT_EQ(readers[table.at(b)], 1);
      }
      rows += chunk.count;
      rows_computed += chunk.count;
      first_seen.try_emplace(chunk.id, steps);
      for (const auto value : {static_cast<int64_t>(chunk.id), int64_t{chunk.begin}, int64_t{chunk.count},
                               static_cast<int64_t>(chunk.blocks.back())})
        trace = mix(trace, static_cast<uint64_t>(value));
    }
    ASSERT_LE(rows, limits_.max_num_batched_tokens);
    ASSERT_LE(batch.chunks.size(), static_cast<size_t>(limits_.max_num_seqs));
  }

  void copy(const engine::Batch& batch) {
    for (const engine::BlockCopy& copy : batch.copies) {
      const auto from = cells_.begin() + static_cast<std::ptrdiff_t>(copy.from) * kBlockTokens;
      std::copy(from, from + kBlockTokens, cells_.begin() + static_cast<std::ptrdiff_t>(copy.to) * kBlockTokens);
      ++blocks_copied;
    }
  }

  engine::ChunkOutput answer(const engine::SequenceChunk& chunk) {
    // Letters, the two halves of "é", now and then the end.
    constexpr std::array<TokenId, 12> kAlphabet = {'a', 'b', 'c', 'd', 'e', 'f', ' ', 0xC3, 0xA9, kControl, 'a', 'b'};
    engine::ChunkOutput out;
    uint64_t hash = mix(chunk.params->seed, static_cast<uint64_t>(chunk.sample_index));
    uint64_t text = 0;
    for (int32_t i = 0; i < chunk.begin + chunk.count; ++i) {
      text = text_after(text, chunk.history[static_cast<size_t>(i)]);
      for (int32_t table = 0; table < limits_.shape.pages(); ++table) {
        const bool seen = table < limits_.shape.always || i > chunk.begin - limits_.shape.window;
        if (seen) {
          EXPECT_EQ(cell(chunk, i, table), text) << "stale KV at position " << i << ", page " << table;
        }
      }
      hash = mix(hash, cell(chunk, i));
      if (chunk.score != nullptr && i >= chunk.begin && i < chunk.prompt_tokens)
        out.prompt_scores.push_back(score(chunk, i));
    }
    if (!chunk.sample) return out;
    const bool first = chunk.history.size() == static_cast<size_t>(chunk.prompt_tokens);
    if (chunk.history[0] == kPoison && (!first || hash % 2 == 0)) {
      out.error = Error{Code::kInternal, "poisoned"};
      return out;
    }
    sampling::SampledToken token;
    const size_t output = chunk.history.size() - static_cast<size_t>(chunk.prompt_tokens);
    if (chunk.sample_index == failing_choice && output == 2) {
      out.error = Error{Code::kInternal, "told to fail"};
      return out;
    }
    const bool may_end = static_cast<int32_t>(output) >= chunk.params->min_tokens;
    token.id = may_end && hash % 61 == 0 ? kEos : kAlphabet[(hash >> 8) % kAlphabet.size()];
    if (!script.empty()) token.id = script[std::min(output, script.size() - 1)];
    if (!chunk.allowed.empty()) token.id = allowed_from(token.id, chunk.allowed);
    if (token.id == kNoToken) {
      out.error = Error{Code::kInternal, "all masked"};
      return out;
    }
    token.logprob = -static_cast<float>(hash % 1000);
    if (chunk.params->logprobs > 0) token.top = likeliest_after(hash, chunk.params->logprobs);
    out.token = token;
    return out;
  }

  /// The first allowed id from `id` on, around the vocabulary.
  static TokenId allowed_from(TokenId id, std::span<const uint64_t> allowed) {
    const auto bits = static_cast<TokenId>(allowed.size() * 64);
    for (TokenId i = 0; i < bits; ++i) {
      const TokenId at = (id + i) % bits;
      if ((allowed[static_cast<size_t>(at) / 64] >> (at % 64) & 1u) != 0) return at;
    }
    return kNoToken;
  }

  static engine::PromptScore score(const engine::SequenceChunk& chunk, int32_t position) {
    engine::PromptScore score{position, std::numeric_limits<float>::quiet_NaN(), {}, {}};
    if (position + 1 < chunk.prompt_tokens) score.next_logprob = -static_cast<float>(chunk.history[position + 1]);
    for (int32_t i = 0; i < chunk.score->top; ++i) score.top.push_back({i, -static_cast<float>(position)});
    if (static_cast<size_t>(position) < chunk.score->ids_at.size())
      for (const TokenId id : chunk.score->ids_at[static_cast<size_t>(position)])
        score.ids.push_back(-static_cast<float>(id));
    return score;
  }

  Limits limits_;
  FakeClock* clock_;
  std::vector<uint64_t> cells_;  // [blocks, kBlockTokens]: a hash of all tokens up to this one
};

/// Remembers every event.
class MemorySink : public EventSink {
 public:
  void push(Event event) override {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  std::vector<Event> events() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  /// How many choices have ended.
  int32_t finished() const {
    int32_t n = 0;
    for (const Event& event : events()) n += event.finish.has_value();
    return n;
  }
  std::string text(int32_t choice = 0) const {
    std::string all;
    for (const Event& event : events())
      if (event.choice == choice) all += event.text;
    return all;
  }
  std::vector<TokenId> tokens(int32_t choice = 0) const {
    std::vector<TokenId> ids;
    for (const Event& event : events())
      if (event.choice == choice && event.token) ids.push_back(event.token->id);
    return ids;
  }
  Event last(int32_t choice = 0) const {
    Event found;
    for (const Event& event : events())
      if (event.choice == choice) found = event;
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Event> events_;
};

/// One scheduler with its fakes.
struct Rig {
  explicit Rig(Limits limits_in, std::shared_ptr<const text::Tokenizer> tokenizer_in = byte_tokenizer(),
               Tiers tiers = {})
      : limits(limits_in),
        tokenizer(std::move(tokenizer_in)),
        engine(limits, &clock),
        scheduler(engine, tokenizer.get(), limits, clock, metrics, tiers) {}

  std::shared_ptr<MemorySink> submit(Request request) {
    auto sink = std::make_shared<MemorySink>();
    request.sink = sink;
    auto id = scheduler.submit(std::move(request));
    EXPECT_TRUE(id.ok()) << id.error().message;
    if (id.ok()) last_id = id.value();
    return sink;
  }
  /// Steps until nobody has work; false if that takes more than `steps_max`.
  bool run(int steps_max = 100000) {
    for (int i = 0; i < steps_max; ++i) {
      const Result<bool> worked = scheduler.step();
      if (worked.ok() && !worked.value()) return true;
    }
    return false;
  }

  /// The metrics page has this text.
  bool exposes(const std::string& text) const { return metrics.expose().find(text) != std::string::npos; }

  Limits limits;
  FakeClock clock;
  metrics::ServingMetrics metrics{"fake"};
  std::shared_ptr<const text::Tokenizer> tokenizer;
  FakeEngine engine;
  Scheduler scheduler;
  RequestId last_id{};
};

/// The preemption counter of an exposed /metrics page.
inline int64_t preemptions_in(const std::string& page) {
  const size_t at = page.find("\nvllm:num_preemptions_total{");
  return at == std::string::npos ? 0 : std::stoll(page.substr(page.find("} ", at) + 2));
}

}  // namespace pagoda::scheduler
