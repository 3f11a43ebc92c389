#include "apps/engine_flags.h"

namespace pagoda::apps {

engine::EngineOptions EngineFlags::engine_options() const {
  engine::EngineOptions engine = options;
  engine.kv_cache_bytes = static_cast<int64_t>(kv_cache_bytes);
  engine.kv_types = kv.types();
  engine.pages_by_window = true;
  return engine;
}

void add_engine_flags(CLI::App& verb, EngineFlags& flags) {
  engine::EngineOptions& options = flags.options;
  add_env_flag(verb, "--threads", options.threads, "Compute threads, 0 to decide by CPUs and cgroup quota")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  add_env_flag(verb, "--max-num-seqs", options.max_num_seqs, "Sequences computed together")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  add_env_flag(verb, "--max-num-batched-tokens", options.max_num_batched_tokens, "Token rows in one step")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  add_env_flag(
      verb, "--max-model-len", options.max_model_len,
      "Context in tokens, 0 for the model's own; chooses between long and short rope factors where a model has both")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  add_env_flag(verb, "--memory-utilization,--gpu-memory-utilization", options.memory_utilization,
               "Share of available memory for weights and KV cache")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  add_kv_flags(verb, flags.kv, /*environment=*/true);
  add_env_flag(verb, "--kv-cache-memory", flags.kv_cache_bytes, "KV cache size instead, such as 2GiB")
      ->transform(CLI::AsSizeValue(false));
  add_env_flag(verb, "--swap-space", flags.swap_space,
               "Host memory for KV blocks of preempted sequences, such as 4GiB; a bare number is GiB")
      ->capture_default_str();
}

}  // namespace pagoda::apps
