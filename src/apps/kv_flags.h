#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"

namespace pagoda::apps {

/// How K and V are stored, as every verb that loads weights lets its user choose.
struct KvFlags {
  std::string both = "auto";
  std::string k, v;  // "" = as `both`

  /// Only after parsing, which refuses unknown names.
  kernels::KvTypes types() const;
};

/// --kv-cache-dtype (vLLM), --cache-type-k and --cache-type-v (llama.cpp, also -ctk and -ctv: see long_options).
/// environment: PAGODA_KV_CACHE_DTYPE and so on set them too.
void add_kv_flags(CLI::App& verb, KvFlags& flags, bool environment = false);

/// The command line with -ctk and -ctv as the long options they stand for: CLI11 would take them for bundles of
/// one-letter ones.
std::vector<const char*> long_options(int argc, const char* const* argv);

}  // namespace pagoda::apps
