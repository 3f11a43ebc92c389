#include "apps/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <variant>

#include "core/machine.h"

namespace pagoda::apps {
namespace {

int64_t strings_in(const weights::GgufFile& file, const char* key) {
  const weights::GgufValue* value = file.find(key);
  const auto* array = value != nullptr ? std::get_if<weights::GgufArray>(value) : nullptr;
  return array != nullptr ? std::visit([](const auto& values) { return std::ssize(values); }, array->values) : 0;
}

int64_t mapped_embedding_bytes(const weights::GgufFile& file) {
  if (file.find_tensor("output.weight") == nullptr) return 0;  // tied: packed as the head
  const weights::GgufTensor* embedding = file.find_tensor("token_embd.weight");
  return embedding != nullptr ? std::ssize(embedding->data) : 0;
}

}  // namespace

Result<ServePlan> plan_memory(const weights::GgufFile& file, const engine::EngineOptions& options, int64_t swap_bytes) {
  PAGODA_TRY(engine::EnginePlan engine, engine::CpuEngine::plan(file, options));
  const int64_t merges = strings_in(file, "tokenizer.ggml.merges");
  const sizing::MemoryPlan memory{
      .weights = engine.weight_bytes + engine.key_bias_bytes,
      .kv_pool = engine.kv_pool_bytes(),
      .swap = swap_bytes / engine.kv_block_bytes * engine.kv_block_bytes,
      .scratch = engine.scratch_bytes,
      .vocabulary = sizing::vocabulary_bytes(engine.config.vocab, merges),
      .process = sizing::process_bytes(engine.threads, engine.total_blocks / engine.block_shape.always),
      .mapped_embedding = mapped_embedding_bytes(file)};
  return ServePlan{std::move(engine), memory, inspect_machine().memory_available_bytes};
}

Status check_fits(const ServePlan& plan) {
  if (plan.engine.refusal) return *plan.engine.refusal;
  const sizing::MemoryPlan& m = plan.memory;
  if (m.peak() <= plan.available_bytes) return ok_status();
  const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const int64_t pool = plan.available_bytes - (m.peak() - m.kv_pool);  // what would be left for it
  const int64_t tokens =
      std::max<int64_t>(0, pool) / (plan.engine.page_bytes * plan.engine.block_shape.pages()) * kBlockTokens;
  const std::string smaller_pool =
      tokens > 0 ? fmt::format("--kv-cache-memory {}MiB or less ({} tokens)", static_cast<int64_t>(mib(pool)), tokens)
                 : fmt::format("a smaller --max-num-batched-tokens (scratch takes {:.0f} MiB)", mib(m.scratch));
  return Error{
      Code::kNoCapacity,
      fmt::format("this takes {:.0f} MiB ({:.0f} weights, {:.0f} KV pool of {} tokens, {:.0f} swap space, {:.0f} "
                  "scratch, {:.0f} vocabulary, "
                  "{:.0f} process), but {:.0f} MiB are available; ways out: {}; a smaller model or quantization than "
                  "{:.0f} MiB of weights; or free {:.0f} MiB of memory",
                  mib(m.peak()), mib(m.weights), mib(m.kv_pool), plan.engine.kv_pool_tokens(), mib(m.swap),
                  mib(m.scratch), mib(m.vocabulary), mib(m.process), mib(plan.available_bytes), smaller_pool,
                  mib(m.weights), mib(m.peak() - plan.available_bytes))};
}

}  // namespace pagoda::apps
