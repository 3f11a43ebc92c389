#include "apps/kv_flags.h"

#include <string_view>

#include "core/check.h"
#include "kernels/attention/kv_type.h"

namespace pagoda::apps {
namespace {

std::string refuse_unknown(const std::string& name) {
  const Result<kernels::KvType> type = kernels::parse_kv_type(name);
  return type.ok() ? "" : type.error().message;
}

}  // namespace

kernels::KvTypes KvFlags::types() const {
  const auto parse = [this](const std::string& name) {
    return kernels::parse_kv_type(name.empty() ? both : name).take();
  };
  return {parse(k), parse(v)};
}

void add_kv_flags(CLI::App& verb, KvFlags& flags, bool environment) {
  const auto add = [&](const std::string& name, std::string& value, const char* variable, const std::string& help) {
    CLI::Option* option = verb.add_option(name, value, help)->check(CLI::Validator(refuse_unknown, "", "kv_type"));
    if (environment) option->envname(variable);
    return option;
  };
  add("--kv-cache-dtype", flags.both, "PAGODA_KV_CACHE_DTYPE",
      "How K and V are stored: f16, bf16, f32, int8, fp8, fp8_e5m2, int4; auto is f16")
      ->type_name("TYPE")
      ->capture_default_str();
  add("--cache-type-k", flags.k, "PAGODA_CACHE_TYPE_K", "K alone (also -ctk)")->type_name("TYPE");
  add("--cache-type-v", flags.v, "PAGODA_CACHE_TYPE_V", "V alone (also -ctv)")->type_name("TYPE");
}

std::vector<const char*> long_options(int argc, const char* const* argv) {
  std::vector<const char*> arguments(argv, argv + argc);
  for (const char*& argument : arguments) {
    if (argument == std::string_view("-ctk")) argument = "--cache-type-k";
    if (argument == std::string_view("-ctv")) argument = "--cache-type-v";
  }
  return arguments;
}

}  // namespace pagoda::apps
