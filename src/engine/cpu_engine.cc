#include "engine/cpu_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/isa.h"
#include "core/machine.h"
#include "core/thread_pool.h"
#include "engine/kv_storage.h"
#include "engine/step_plan.h"
#include "model/model.h"
#include "sampling/sampler.h"

namespace pagoda::engine {
namespace {

constexpr int32_t kMaxLogitRows = 32;  // bounds V x rows: 32 MiB at 262,144 tokens
constexpr int32_t kMaxThreads = 1024;

class CpuEngineImpl final : public CpuEngine {
 public:
  CpuEngineImpl(const EngineOptions& options, const kernels::Ops& ops, int32_t threads)
      : options_(options), ops_(ops), pool_(threads), scratch_(static_cast<size_t>(threads)) {}

  Status load_model(const weights::GgufFile& file, int64_t memory_available);
  Result<StepOutput> run(const Batch& batch) override;
  int64_t block_bytes() const override { return kv_.block_bytes(); }
  kvcache::BlockShape block_shape() const override { return info_.block_shape; }
  void save_block(kvcache::Pages pages, std::span<std::byte> into) const override { kv_.save(pages, into); }
  void load_block(kvcache::Pages pages, std::span<const std::byte> from) override { kv_.load(pages, from); }
  const EngineInfo& info() const override { return info_; }
  const model::ModelConfig& config() const override { return model_->config(); }
  std::span<const std::byte> packed_weights() const override { return model_->weights().packed(); }
  void settle_memory() override { model_->weights().settle(); }
  ThreadPool& thread_pool() override { return pool_; }

 private:
  Status size_cache(int64_t memory_available);
  /// Scores and samples one row; its outputs are its own, so rows run on different threads.
  std::optional<Error> finish_row(const Batch& batch, const LogitRow& row, std::span<float> logits,
                                  sampling::SamplerScratch& scratch, ChunkOutput& out) const;
  Status score_row(const SequenceChunk& chunk, std::span<const float> logits, sampling::SamplerScratch& scratch,
                   PromptScore& score) const;

  EngineOptions options_;
  kernels::Ops ops_;
  ThreadPool pool_;
  std::vector<sampling::SamplerScratch> scratch_;
  std::unique_ptr<model::Model> model_;
  model::KeyBiases key_biases_;
  KvLayout layout_;
  KvStorage kv_;
  model::Workspace workspace_;
  EngineInfo info_{};
};

Status CpuEngineImpl::load_model(const weights::GgufFile& file, int64_t memory_available) {
  PAGODA_TRY(model_, model::Model::load(file, options_.max_model_len, ops_, pool_, options_.progress));
  const model::ModelConfig& config = model_->config();
  info_.architecture = config.family->name;
  info_.model_name = config.name;
  info_.isa = ops_.name;
  info_.threads = pool_.threads();
  info_.vocab_size = config.vocab;
  info_.context_length = config.context_length;
  info_.weight_bytes = model_->weights().bytes();
  for (const weights::GgufTensor& tensor : file.tensors()) info_.parameters += tensor.elements();
  PAGODA_TRY_STATUS(size_cache(memory_available));
  const kernels::KvTypes types = options_.kv_types;
  PAGODA_TRY(key_biases_, model::KeyBiases::create(config, model_->weights(), ops_, types.k, info_.max_model_len));
  PAGODA_TRY(kv_, KvStorage::create(config, types, layout_, key_biases_, info_.total_blocks));
  PAGODA_TRY(workspace_,
             model::Workspace::create(config, options_.max_num_batched_tokens, kMaxLogitRows, pool_.threads(),
                                      kernels::attention_expands(types, key_biases_.any())));
  return ok_status();
}

Status CpuEngineImpl::size_cache(int64_t memory_available) {
  const model::ModelConfig& config = model_->config();
  info_.max_model_len = options_.max_model_len > 0 ? options_.max_model_len : config.context_length;
  layout_ = kv_layout(config, options_.kv_types, info_.max_model_len, options_.max_num_batched_tokens,
                      options_.pages_by_window);
  info_.block_shape = layout_.shape;
  info_.kv_types = options_.kv_types;
  info_.kv_bytes_per_token = layout_.shape.pages() * layout_.page_bytes / kBlockTokens;
  PAGODA_TRY(info_.total_blocks, plan_kv_blocks({.max_num_seqs = options_.max_num_seqs,
                                                 .max_model_len = info_.max_model_len,
                                                 .shape = layout_.shape,
                                                 .step_tokens = options_.max_num_batched_tokens,
                                                 .page_bytes = layout_.page_bytes,
                                                 .weight_bytes = info_.weight_bytes,
                                                 .memory_available_bytes = memory_available,
                                                 .memory_utilization = options_.memory_utilization,
                                                 .kv_cache_bytes = options_.kv_cache_bytes}));
  return ok_status();
}

Result<StepOutput> CpuEngineImpl::run(const Batch& batch) {
  StepOutput out;
  if (batch.chunks.empty()) return out;
  const StepPlan plan = plan_rows(batch,
                                  {.max_rows = workspace_.max_rows(),
                                   .total_blocks = info_.total_blocks,
                                   .vocab = info_.vocab_size,
                                   .max_model_len = info_.max_model_len,
                                   .shape = info_.block_shape},
                                  out);
  const int32_t logit_count = static_cast<int32_t>(plan.logit_rows.size());
  std::vector<int32_t> rows;
  for (const LogitRow& row : plan.logit_rows) rows.push_back(row.row);
  std::vector<std::optional<Error>> errors(rows.size());
  workspace_.begin_step(plan.rows.rows());
  const int32_t loops = (batch.copies.empty() ? 0 : 1) + model_->loops() +
                        div_ceil(logit_count, kMaxLogitRows) * (model::Model::kLogitLoops + 1);

  pool_.run_loops(loops, [&](LoopWorker& worker) {
    if (!batch.copies.empty()) {
      worker.each(kv_.copy_pieces(), [&](Range pieces) {
        for (const BlockCopy& copy : batch.copies) kv_.copy(copy, pieces);
      });
    }
    model_->forward(worker, plan.rows, kv_.layers(), workspace_);
    for (int32_t first = 0; first < logit_count; first += kMaxLogitRows) {
      const int32_t count = std::min(kMaxLogitRows, logit_count - first);
      model_->logits(worker, std::span(rows).subspan(static_cast<size_t>(first), static_cast<size_t>(count)),
                     workspace_);
      const Mat<float> logits = workspace_.logits(count);
      worker.each(count, {.least = 1, .most = 1}, [&](Range mine) {
        for (int32_t r = mine.begin; r < mine.end; ++r) {
          const LogitRow& row = plan.logit_rows[static_cast<size_t>(first + r)];
          errors[static_cast<size_t>(first + r)] =
              finish_row(batch, row, {logits.row(r), static_cast<size_t>(logits.cols)},
                         scratch_[static_cast<size_t>(worker.index())], out.chunks[static_cast<size_t>(row.chunk)]);
        }
      });
    }
  });

  for (size_t i = 0; i < errors.size(); ++i) {
    ChunkOutput& chunk = out.chunks[static_cast<size_t>(plan.logit_rows[i].chunk)];
    if (!errors[i] || chunk.error) continue;
    chunk.error = std::move(errors[i]);
    chunk.token.reset();
  }
  return out;
}

std::optional<Error> CpuEngineImpl::finish_row(const Batch& batch, const LogitRow& row, std::span<float> logits,
                                               sampling::SamplerScratch& scratch, ChunkOutput& out) const {
  const SequenceChunk& chunk = batch.chunks[static_cast<size_t>(row.chunk)];
  if (options_.alter_logits) {
    const int32_t position = row.score_index >= 0 ? out.prompt_scores[static_cast<size_t>(row.score_index)].position
                                                  : chunk.begin + chunk.count - 1;
    options_.alter_logits(chunk.id, position, logits);
  }
  if (row.score_index >= 0) {
    const Status scored = score_row(chunk, logits, scratch, out.prompt_scores[static_cast<size_t>(row.score_index)]);
    if (!scored.ok()) return scored.error();
  }
  if (!row.sample) return std::nullopt;
  Result<sampling::SampledToken> token = sampling::sample(logits, *chunk.params,
                                                          {.history = chunk.history,
                                                           .prompt_tokens = chunk.prompt_tokens,
                                                           .sample_index = chunk.sample_index,
                                                           .allowed = chunk.allowed},
                                                          ops_, scratch);
  if (!token.ok()) return token.error();
  out.token = std::move(token).take();
  return std::nullopt;
}

Status CpuEngineImpl::score_row(const SequenceChunk& chunk, std::span<const float> logits,
                                sampling::SamplerScratch& scratch, PromptScore& score) const {
  const size_t position = static_cast<size_t>(score.position);
  const bool has_next = score.position + 1 < chunk.prompt_tokens;  // not of an output token, or preemption would show
  std::vector<TokenId> ids;
  if (has_next) ids.push_back(chunk.history[position + 1]);
  if (position < chunk.score->ids_at.size())
    for (const TokenId id : chunk.score->ids_at[position]) ids.push_back(id);
  for (const TokenId id : ids) PAGODA_CHECK(id >= 0 && id < info_.vocab_size);
  PAGODA_TRY(sampling::Scores scores, sampling::score(logits, ids, chunk.score->top, ops_, scratch));
  score.next_logprob = has_next ? scores.of_ids.front() : std::numeric_limits<float>::quiet_NaN();
  score.ids.assign(scores.of_ids.begin() + (has_next ? 1 : 0), scores.of_ids.end());
  score.top = std::move(scores.top);
  return ok_status();
}

Status check_options(const EngineOptions& o) {
  const auto refuse = [](std::string message) { return Error{Code::kInvalidRequest, std::move(message)}; };
  if (o.threads < 0 || o.threads > kMaxThreads)
    return refuse(fmt::format("threads is {}, allowed are 1 to {}", o.threads, kMaxThreads));
  if (o.max_num_seqs < 1) return refuse(fmt::format("max-num-seqs is {}, it must be at least 1", o.max_num_seqs));
  if (o.max_num_batched_tokens < 1)
    return refuse(fmt::format("max-num-batched-tokens is {}, it must be at least 1", o.max_num_batched_tokens));
  if (o.max_model_len < 0) return refuse(fmt::format("max-model-len is {}, it must be at least 1", o.max_model_len));
  if (!(o.memory_utilization > 0 && o.memory_utilization <= 1))
    return refuse(fmt::format("memory-utilization is {}, allowed are above 0 to 1", o.memory_utilization));
  if (o.kv_cache_bytes < 0) return refuse(fmt::format("kv-cache-memory is {}, it must be positive", o.kv_cache_bytes));
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<CpuEngine>> CpuEngine::load(const weights::GgufFile& file, const EngineOptions& options) {
  PAGODA_TRY_STATUS(check_options(options));
  PAGODA_TRY(const uint32_t level, options.isa ? Result<uint32_t>(*options.isa) : isa::level_from_environment());
  const int64_t memory_available = inspect_machine().memory_available_bytes;  // before we take any
  auto engine = std::make_unique<CpuEngineImpl>(options, kernels::make_ops(level),
                                                options.threads > 0 ? options.threads : default_threads());
  PAGODA_TRY_STATUS(engine->load_model(file, memory_available));
  return std::unique_ptr<CpuEngine>(std::move(engine));
}

Result<EnginePlan> CpuEngine::plan(const weights::GgufFile& file, const EngineOptions& options) {
  PAGODA_TRY_STATUS(check_options(options));
  PAGODA_TRY(const uint32_t level, options.isa ? Result<uint32_t>(*options.isa) : isa::level_from_environment());
  const kernels::Ops ops = kernels::make_ops(level);
  EnginePlan plan{};
  PAGODA_TRY(plan.config, model::read_config(file, options.max_model_len));
  plan.threads = options.threads > 0 ? options.threads : default_threads();
  PAGODA_TRY(const model::Weights weights, model::Weights::outline(file, plan.config, ops));
  plan.weight_bytes = weights.bytes();
  plan.kv_block_bytes = kv_block_bytes(plan.config, options.kv_types);
  plan.max_model_len = options.max_model_len > 0 ? options.max_model_len : plan.config.context_length;
  const KvLayout layout = kv_layout(plan.config, options.kv_types, plan.max_model_len, options.max_num_batched_tokens,
                                    options.pages_by_window);
  plan.block_shape = layout.shape;
  plan.page_bytes = layout.page_bytes;
  plan.pages_of_longest =
      layout.shape.pages_most(div_ceil(plan.max_model_len, kBlockTokens), options.max_num_batched_tokens);
  const Result<int32_t> blocks = plan_kv_blocks({.max_num_seqs = options.max_num_seqs,
                                                 .max_model_len = plan.max_model_len,
                                                 .shape = layout.shape,
                                                 .step_tokens = options.max_num_batched_tokens,
                                                 .page_bytes = layout.page_bytes,
                                                 .weight_bytes = plan.weight_bytes,
                                                 .memory_available_bytes = inspect_machine().memory_available_bytes,
                                                 .memory_utilization = options.memory_utilization,
                                                 .kv_cache_bytes = options.kv_cache_bytes});
  if (blocks.ok())
    plan.total_blocks = blocks.value();
  else
    plan.refusal = blocks.error();
  PAGODA_TRY(const model::KeyBiases biases,
             model::KeyBiases::create(plan.config, weights, ops, options.kv_types.k, plan.max_model_len));
  plan.key_bias_bytes = biases.bytes();
  PAGODA_TRY(const model::Workspace scratch,  // address space, not touched
             model::Workspace::create(plan.config, options.max_num_batched_tokens, kMaxLogitRows, plan.threads,
                                      kernels::attention_expands(options.kv_types, biases.any())));
  plan.scratch_bytes = scratch.bytes();
  return plan;
}

}  // namespace pagoda::engine
