#pragma once
// What tests on real models share: a model of the catalogue behind the scheduler, and outputs as comparable bits.
#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/clock.h"
#include "engine/cpu_engine.h"
#include "scheduler/scheduler.h"
#include "scheduler/test_support.h"
#include "weights/catalogue.h"
#include "weights/gguf.h"
#include "weights/gguf_vocab.h"

namespace pagoda::scheduler {

/// A pulled model, without engine.
struct ModelFile {
  std::unique_ptr<weights::GgufFile> file;
  std::unique_ptr<text::Tokenizer> tokenizer;
};

/// Null, and a failed test, if it is not there.
inline std::unique_ptr<ModelFile> open_model_file(const std::string& name) {
  const auto open = [&]() -> Result<std::unique_ptr<ModelFile>> {
    auto model = std::make_unique<ModelFile>();
    PAGODA_TRY(const std::string path, weights::resolve_model(name));
    PAGODA_TRY(model->file, weights::GgufFile::open(path));
    PAGODA_TRY(text::VocabSpec vocab, weights::read_vocab(*model->file));
    PAGODA_TRY(model->tokenizer, text::Tokenizer::create(std::move(vocab)));
    return model;
  };
  Result<std::unique_ptr<ModelFile>> model = open();
  EXPECT_TRUE(model.ok()) << model.error().message;
  return model.ok() ? std::move(model).take() : nullptr;
}

inline std::unique_ptr<engine::CpuEngine> load_engine(const ModelFile& model, uint32_t isa, int32_t threads,
                                                      int32_t max_model_len = 512, bool pages_by_window = false) {
  engine::EngineOptions options;
  options.isa = isa;
  options.threads = threads;
  options.max_num_seqs = 8;
  options.max_model_len = max_model_len;
  options.kv_cache_bytes = int64_t{256} << 20;
  options.pages_by_window = pages_by_window;
  auto loaded = engine::CpuEngine::load(*model.file, options);
  EXPECT_TRUE(loaded.ok()) << loaded.error().message;
  return loaded.ok() ? std::move(loaded).take() : nullptr;
}

/// Everything a client could see of one choice, logprobs as bits.
struct Seen {
  std::vector<TokenId> ids;
  std::vector<uint32_t> logprob_bits;  // prompt's first, then of each token with its likeliest
  std::string text;
  std::string finish;

  bool operator==(const Seen&) const = default;
};

inline void PrintTo(const Seen& seen, std::ostream* out) {
  *out << seen.ids.size() << " tokens \"" << seen.text << "\" finish " << seen.finish << ", "
       << seen.logprob_bits.size() << " logprobs";
}

inline Seen seen_by(const MemorySink& sink, int32_t choice = 0) {
  Seen seen;
  const auto keep = [&](float value) { seen.logprob_bits.push_back(std::bit_cast<uint32_t>(value)); };
  for (const Event& event : sink.events()) {
    if (event.choice != choice) continue;
    for (const engine::PromptScore& score : event.prompt_scores) {
      keep(score.next_logprob);
      for (const auto& top : score.top) keep(top.logprob);
    }
    if (event.token) {
      seen.ids.push_back(event.token->id);
      keep(event.token->logprob);
      for (const auto& top : event.token->top) keep(top.logprob);
    }
    seen.text += event.text;
    if (event.finish) seen.finish = std::to_string(static_cast<int>(*event.finish)) + event.stop_string;
    if (event.error) seen.finish += event.error->message;
  }
  return seen;
}

/// What a load did besides its answers.
struct Served {
  int64_t preemptions = 0;
  std::vector<int32_t> cached_tokens;  // by request, of choice 0
  std::vector<int32_t> from_disk;      // of these
  std::vector<CacheExit> why;          // no more were
};

/// Serves the requests, `at_once` or one after another, and returns what each choice's reader saw. Cache and budget are
/// the limits'; the prefix cache is cold at first. `served` may be null.
inline std::vector<Seen> serve(engine::Engine& engine, const text::Tokenizer& tokenizer, const Limits& limits,
                               const std::vector<Request>& requests, bool at_once, Served* served = nullptr,
                               Tiers tiers = {}) {
  SteadyClock clock;
  metrics::ServingMetrics metrics("test");
  Scheduler scheduler(engine, &tokenizer, limits, clock, metrics, tiers);
  std::vector<std::shared_ptr<MemorySink>> sinks;
  const auto run = [&] {
    for (Result<bool> worked = true; worked.value();) {
      worked = scheduler.step();
      if (!worked.ok()) {
        ADD_FAILURE() << worked.error().message;
        return;
      }
    }
  };
  for (Request request : requests) {
    sinks.push_back(std::make_shared<MemorySink>());
    request.sink = sinks.back();
    const auto id = scheduler.submit(std::move(request));
    EXPECT_TRUE(id.ok()) << id.error().message;
    if (!at_once) run();
  }
  run();
  if (served != nullptr) {
    *served = {.preemptions = preemptions_in(metrics.expose()), .cached_tokens = {}, .from_disk = {}, .why = {}};
    for (const auto& sink : sinks) {
      served->cached_tokens.push_back(sink->last().cached_tokens);
      served->why.push_back(sink->last().cache_exit);
      served->from_disk.push_back(sink->last().from_tiers.disk);
    }
  }
  std::vector<Seen> all;
  for (size_t i = 0; i < requests.size(); ++i)
    for (int32_t choice = 0; choice < requests[i].n; ++choice) all.push_back(seen_by(*sinks[i], choice));
  return all;
}

}  // namespace pagoda::scheduler
