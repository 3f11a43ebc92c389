#include "apps/eval_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/exit_code.h"
#include "apps/kv_flags.h"
#include "apps/loaded_model.h"
#include "apps/median.h"
#include "core/mapped_file.h"
#include "kernels/attention/kv_type.h"
#include "kernels/ops.h"

namespace pagoda::apps {
namespace {

constexpr int32_t kTextStepRows = 64;     // a reference's logits are kept for so many: 64 MiB at 262,144 tokens
constexpr int32_t kTokenBytesMax = 64;    // of a text; what is read of a longer file
const engine::ScoreRequest kNextToken{};  // the logprob of the token that follows, no more

struct TextOptions {
  std::string model;
  std::string file;
  KvFlags kv;
  int32_t tokens = 4096;
  int32_t context = 1024;
  int32_t threads = 0;
  bool json = false;
};

Result<std::string> read_text(const std::string& path, int64_t bytes_max) {
  std::ifstream in(path, std::ios::binary);
  std::string text(static_cast<size_t>(bytes_max), '\0');
  in.read(text.data(), bytes_max);
  if (in.bad() || (in.gcount() == 0 && !in.eof()))
    return Error{Code::kNotFound, fmt::format("cannot read {}", file_name(path)), "FILE"};
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

/// One engine working through windows; every row's logits go to `see`, on the engine's threads.
class WindowRunner {
 public:
  using See = std::function<void(int32_t row, std::span<const float> logits)>;

  Status load(const TextOptions& o, kernels::KvTypes types) {
    engine::EngineOptions options;
    options.threads = o.threads;
    options.max_num_seqs = 1;
    options.max_model_len = o.context;
    options.max_num_batched_tokens = kTextStepRows;
    options.kv_types = types;
    options.alter_logits = [this](SeqId, int32_t position, std::span<float> logits) {
      if (see_) see_(position - begin_, logits);
    };
    PAGODA_TRY(model_, load_model(o.model, options));
    for (int32_t b = 0; b < div_ceil(o.context, kBlockTokens); ++b)
      blocks_.push_back(BlockId{static_cast<uint32_t>(b)});
    if (static_cast<int32_t>(blocks_.size()) > model_.engine->info().total_blocks)
      return Error{Code::kNoCapacity, fmt::format("a window of {} tokens does not fit the KV cache of {} blocks",
                                                  o.context, model_.engine->info().total_blocks)};
    return ok_status();
  }

  /// Rows [begin, begin + count) of a window; rows before it are in the cache. Adds the predicted tokens' -logprobs.
  Status step(std::span<const TokenId> window, int32_t begin, int32_t count, See see) {
    begin_ = begin;
    see_ = std::move(see);
    engine::Batch batch;
    batch.chunks.push_back({.id = SeqId{1},
                            .history = window,
                            .begin = begin,
                            .count = count,
                            .blocks = blocks_,
                            .sample = false,
                            .params = nullptr,
                            .prompt_tokens = static_cast<int32_t>(window.size()),
                            .sample_index = 0,
                            .score = &kNextToken});
    PAGODA_TRY(engine::StepOutput out, model_.engine->run(batch));
    if (out.chunks[0].error) return *out.chunks[0].error;
    for (const engine::PromptScore& score : out.chunks[0].prompt_scores)
      if (score.position + 1 < static_cast<int32_t>(window.size()))
        nll_.push_back(-static_cast<double>(score.next_logprob));
    return ok_status();
  }

  double perplexity() const {
    return std::exp(std::accumulate(nll_.begin(), nll_.end(), 0.0) / static_cast<double>(nll_.size()));
  }
  const LoadedModel& model() const { return model_; }
  const engine::EngineInfo& info() const { return model_.engine->info(); }

 private:
  LoadedModel model_;
  std::vector<BlockId> blocks_;
  int32_t begin_ = 0;
  See see_;
  std::vector<double> nll_;
};

Result<std::vector<std::vector<TokenId>>> windows_of(const TextOptions& o, const text::Tokenizer& tokenizer) {
  PAGODA_TRY(const std::string text, read_text(o.file, int64_t{o.tokens} * kTokenBytesMax));
  const std::vector<TokenId> ids = tokenizer.encode(text, {.add_special = false, .parse_special = false});
  return cut_windows(ids, tokenizer.spec(), o.tokens, o.context);
}

void say_progress(size_t window, size_t windows) {
  fmt::print(stderr, "pagoda eval: window {} of {}\n", window + 1, windows);
}

nlohmann::ordered_json facts(const TextOptions& o, const WindowRunner& runner, size_t windows) {
  const engine::EngineInfo& info = runner.info();
  return {{"model", runner.model().name},
          {"file", file_name(o.file)},
          {"k", kernels::kv_type_name(info.kv_types.k)},
          {"v", kernels::kv_type_name(info.kv_types.v)},
          {"kv_bytes_per_token", info.kv_bytes_per_token},
          {"windows", windows},
          {"context", o.context},
          {"tokens", static_cast<int64_t>(windows) * o.context}};
}

Status run_perplexity(const TextOptions& o) {
  WindowRunner runner;
  PAGODA_TRY_STATUS(runner.load(o, o.kv.types()));
  PAGODA_TRY(const auto windows, windows_of(o, *runner.model().tokenizer));
  for (size_t w = 0; w < windows.size(); ++w) {
    say_progress(w, windows.size());
    for (int32_t at = 0; at < o.context; at += kTextStepRows)
      PAGODA_TRY_STATUS(runner.step(windows[w], at, std::min(kTextStepRows, o.context - at), nullptr));
  }
  if (o.json) {
    nlohmann::ordered_json out = facts(o, runner, windows.size());
    out["perplexity"] = runner.perplexity();
    fmt::print("{}\n", out.dump());
  } else {
    fmt::print("{}, KV {}: perplexity {:.4f} over {} windows of {} tokens\n", runner.model().name,
               kernels::kv_types_name(runner.info().kv_types), runner.perplexity(), windows.size(), o.context);
  }
  return ok_status();
}

/// Distances of every row of every window.
struct Distances {
  std::vector<double> kl;
  std::vector<char> same_top;
};

/// Both engines through the windows, a step of each in turn.
Result<Distances> compare(const TextOptions& o, const std::vector<std::vector<TokenId>>& windows,
                          WindowRunner& reference, WindowRunner& chosen) {
  const auto vocab = static_cast<size_t>(reference.info().vocab_size);
  std::vector<float> rows(kTextStepRows * vocab);
  const auto row_at = [&](int32_t row) { return std::span(rows).subspan(static_cast<size_t>(row) * vocab, vocab); };
  Distances out;
  for (size_t w = 0; w < windows.size(); ++w) {
    say_progress(w, windows.size());
    for (int32_t at = 0; at < o.context; at += kTextStepRows) {
      const int32_t count = std::min(kTextStepRows, o.context - at);
      PAGODA_TRY_STATUS(reference.step(windows[w], at, count, [&](int32_t row, std::span<const float> logits) {
        std::ranges::copy(logits, row_at(row).begin());
      }));
      const size_t first = out.kl.size();
      out.kl.resize(first + static_cast<size_t>(count));
      out.same_top.resize(out.kl.size());
      PAGODA_TRY_STATUS(chosen.step(windows[w], at, count, [&](int32_t row, std::span<const float> logits) {
        const std::span<const float> p = row_at(row);
        const size_t i = first + static_cast<size_t>(row);
        out.kl[i] = kl_of_logits(p, logits);
        out.same_top[i] = std::ranges::max_element(p) - p.begin() == std::ranges::max_element(logits) - logits.begin();
      }));
    }
  }
  return out;
}

Status run_kl(const TextOptions& o) {
  WindowRunner reference, chosen;
  PAGODA_TRY_STATUS(chosen.load(o, o.kv.types()));  // first: a refusal of its types comes at once
  PAGODA_TRY(const auto windows, windows_of(o, *chosen.model().tokenizer));
  PAGODA_TRY_STATUS(reference.load(o, kernels::KvType::kF16));
  PAGODA_TRY(const Distances d, compare(o, windows, reference, chosen));
  const auto count = static_cast<double>(d.kl.size());
  const double mean = std::accumulate(d.kl.begin(), d.kl.end(), 0.0) / count;
  const double agree = static_cast<double>(std::ranges::count(d.same_top, 1)) / count;
  if (o.json) {
    nlohmann::ordered_json out = facts(o, chosen, windows.size());
    out["kv_bytes_per_token_f16"] = reference.info().kv_bytes_per_token;
    out["kl_mean"] = mean;
    out["kl_median"] = median_of(d.kl);
    out["kl_max"] = std::ranges::max(d.kl);
    out["top1_agree"] = agree;
    out["perplexity"] = chosen.perplexity();
    out["perplexity_f16"] = reference.perplexity();
    fmt::print("{}\n", out.dump());
    return ok_status();
  }
  fmt::print("{}, {} windows of {} tokens of {}\n", chosen.model().name, windows.size(), o.context, file_name(o.file));
  fmt::print("{:<20} {:>12} {:>10} {:>10} {:>10} {:>8} {:>12}\n", "KV", "bytes/token", "KL mean", "median", "max",
             "top-1", "perplexity");
  fmt::print("{:<20} {:>12} {:>10} {:>10} {:>10} {:>8} {:>12.4f}\n", "f16", reference.info().kv_bytes_per_token, 0, 0,
             0, 1, reference.perplexity());
  fmt::print("{:<20} {:>12} {:>10.6f} {:>10.6f} {:>10.4f} {:>8.4f} {:>12.4f}\n",
             kernels::kv_types_name(chosen.info().kv_types), chosen.info().kv_bytes_per_token, mean, median_of(d.kl),
             std::ranges::max(d.kl), agree, chosen.perplexity());
  return ok_status();
}

void add_verb(CLI::App& eval, Invocation& invocation, const char* name, const char* help, const char* footer,
              Status (*body)(const TextOptions&)) {
  CLI::App* verb = eval.add_subcommand(name, help);
  const auto options = std::make_shared<TextOptions>();
  verb->add_option("MODEL", options->model, "a catalogue name, a .gguf file or a folder that holds one")->required();
  verb->add_option("FILE", options->file, "a text; its first tokens are used")->required();
  add_kv_flags(*verb, options->kv);
  verb->add_option("--tokens", options->tokens, "tokens to evaluate, BOS included; whole windows only")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  verb->add_option("--context", options->context, "tokens of a window; windows do not see each other")
      ->check(CLI::Range(2, 1 << 20))
      ->capture_default_str();
  verb->add_option("--threads", options->threads, "threads of an engine (0: all CPUs)")->check(CLI::Range(0, 1024));
  verb->add_flag("--json", options->json, "print one JSON object");
  verb->footer(footer);
  verb->callback([&invocation, options, body] {
    invocation.run = [options, body] {
      const Status status = body(*options);
      return status.ok() ? kDone : fail("eval", status.error());
    };
  });
}

}  // namespace

Result<std::vector<std::vector<TokenId>>> cut_windows(std::span<const TokenId> ids, const text::VocabSpec& vocab,
                                                      int32_t tokens, int32_t context) {
  if (context > tokens)
    return Error{Code::kInvalidRequest,
                 fmt::format("a window of {} tokens is longer than the {} to evaluate", context, tokens), "--context"};
  const bool bos = vocab.add_bos && vocab.bos != kNoToken;
  const size_t count = static_cast<size_t>(tokens / context), own = static_cast<size_t>(context - (bos ? 1 : 0));
  if (ids.size() < count * own)
    return Error{Code::kInvalidRequest,
                 fmt::format("the text has {} tokens, {} windows of {} need {}: give a longer text, or fewer --tokens",
                             ids.size(), count, context, count * own),
                 "FILE"};
  std::vector<std::vector<TokenId>> windows;
  for (size_t w = 0; w < count; ++w) {
    windows.emplace_back();
    if (bos) windows.back().push_back(vocab.bos);
    const auto part = ids.subspan(w * own, own);
    windows.back().insert(windows.back().end(), part.begin(), part.end());
  }
  return windows;
}

double kl_of_logits(std::span<const float> p, std::span<const float> q) {
  const double p_max = static_cast<double>(std::ranges::max(p)), q_max = static_cast<double>(std::ranges::max(q));
  double p_sum = 0, q_sum = 0, weighted = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double weight = static_cast<double>(std::exp(p[i] - static_cast<float>(p_max)));
    p_sum += weight;
    q_sum += static_cast<double>(std::exp(q[i] - static_cast<float>(q_max)));
    weighted += weight * static_cast<double>(p[i] - q[i]);
  }
  return weighted / p_sum - (p_max + std::log(p_sum)) + (q_max + std::log(q_sum));
}

void add_eval_perplexity(CLI::App& eval, Invocation& invocation) {
  add_verb(eval, invocation, "perplexity", "Perplexity of a text, with K and V stored as you choose",
           "Example:\n  pagoda eval perplexity smollm2:135m book.txt -ctk int8 -ctv int4 --json", run_perplexity);
}

void add_eval_kl(CLI::App& eval, Invocation& invocation) {
  add_verb(
      eval, invocation, "kl",
      "Distance of the next-token distributions from those with K and V in f16 (KL divergence, nats)",
      "Loads the weights twice. Example:\n  pagoda eval kl qwen2.5-coder:1.5b book.txt --kv-cache-dtype fp8 --json",
      run_kl);
}

}  // namespace pagoda::apps
