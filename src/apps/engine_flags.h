#pragma once
#include <CLI/CLI.hpp>
#include <cctype>
#include <cstdint>
#include <string>

#include "apps/kv_flags.h"
#include "engine/cpu_engine.h"

namespace pagoda::apps {

/// A flag that the environment can set as well: --max-num-seqs is PAGODA_MAX_NUM_SEQS.
template <class T>
CLI::Option* add_env_flag(CLI::App& verb, const std::string& names, T& value, const std::string& help) {
  CLI::Option* option = verb.add_option(names, value, help);
  std::string name = option->get_lnames().front();
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return option->envname("PAGODA_" + name);
}

/// What decides the memory a served model takes: the same flags and variables for `serve` and for `plan`.
struct EngineFlags {
  engine::EngineOptions options{};  // as far as flags set it directly
  KvFlags kv{};
  uint64_t kv_cache_bytes = 0;   // --kv-cache-memory, 0 = by utilization
  std::string swap_space = "0";  // --swap-space; see parse_swap_space()

  /// Only after parsing.
  engine::EngineOptions engine_options() const;
};

/// Adds --threads, --max-num-seqs, --max-num-batched-tokens, --max-model-len, --memory-utilization, the KV types,
/// --kv-cache-memory and --swap-space, and PAGODA_… of the environment.
void add_engine_flags(CLI::App& verb, EngineFlags& flags);

}  // namespace pagoda::apps
