#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "api/chat_template.h"
#include "api/server.h"
#include "api/service.h"
#include "apps/engine_flags.h"
#include "apps/exit_code.h"
#include "apps/kv_tiers.h"
#include "apps/loaded_model.h"
#include "apps/memory_plan.h"
#include "apps/model_digest.h"
#include "apps/scheduling_flags.h"
#include "apps/service_manager.h"
#include "apps/verbs.h"
#include "core/log.h"
#include "core/machine.h"
#include "engine/kv_fingerprint.h"
#include "kernels/attention/kv_type.h"
#include "kernels/machine_rates.h"
#include "weights/catalogue.h"
#include "weights/gguf_check.h"
#include "weights/gguf_summary.h"

namespace pagoda::apps {
namespace {

struct ServeFlags {
  std::string model;
  api::ServerOptions server{};
  EngineFlags engine{};
  bool prefix_caching = true;
  SchedulingFlags scheduling{};
  KvTierFlags tiers{};
  std::optional<uint64_t> seed{};
  std::vector<std::string> names{};
  std::string log_level = "info";
  std::string chat_template;
  std::vector<std::string> api_keys;
  double drain_timeout_s = 30;
};

/// Everything a served model needs, in the order it must be taken down: last declared first.
struct Serving {
  SteadyClock clock{};
  LoadedModel model{};
  std::unique_ptr<ModelDigest> digest{};
  KvTiers tiers{};
  std::unique_ptr<api::ChatTemplate> chat_template{};
  std::unique_ptr<metrics::ServingMetrics> metrics{};
  std::unique_ptr<scheduler::Scheduler> scheduler{};
  std::thread worker{};

  ~Serving() { stop(); }
  void stop() {
    if (scheduler) scheduler->stop();
    if (worker.joinable()) worker.join();
    if (tiers.disk && !tiers.disk->flush(kFlushUs)) log_warning("kv-dir: not everything could be written in time");
  }
};

/// Ends the process for a signal: SIGTERM is how services are asked to stop, so it is no failure.
[[noreturn]] void exit_for(int signal) { std::_Exit(signal == SIGINT ? kInterrupted : 0); }

/// Judges what can be judged in milliseconds, so that a wrong path never listens.
Status check_model(const ServeFlags& flags) {
  PAGODA_TRY(const std::string path, weights::resolve_model(flags.model));
  PAGODA_TRY(const auto file, weights::GgufFile::open(path));
  PAGODA_TRY_STATUS(weights::check_metadata(*file));
  PAGODA_TRY(const weights::GgufSummary summary, weights::summarize(*file));
  if (!summary.runnable)
    return Error{Code::kUnsupported, "this model cannot be served: " + summary.not_runnable_reason, ""};
  PAGODA_TRY(const int64_t swap_bytes, parse_swap_space(flags.engine.swap_space));
  PAGODA_TRY(const ServePlan plan, plan_memory(*file, flags.engine.engine_options(), swap_bytes));
  return check_fits(plan);
}

/// Swapping takes somewhere to swap to, and the prefix cache by which it is found again.
Status check_preemption(const ServeFlags& flags, const scheduler::Limits& limits) {
  if (limits.preemption != scheduler::PreemptionMode::kSwap) return ok_status();
  PAGODA_TRY(const int64_t swap_bytes, parse_swap_space(flags.engine.swap_space));
  const char* lacks = swap_bytes == 0                                    ? "--swap-space"
                      : !flags.prefix_caching                            ? "--enable-prefix-caching"
                      : limits.mode != scheduler::SchedulingMode::kPaged ? "--scheduling-mode paged"
                                                                         : nullptr;
  if (lacks == nullptr) return ok_status();
  return Error{Code::kInvalidRequest, fmt::format("--preemption-mode swap needs {}", lacks), "--preemption-mode"};
}

std::string spelling(const text::Tokenizer& tokenizer, TokenId id) {
  return tokenizer.valid(id) ? tokenizer.token_bytes(id) : std::string();
}

Status load_chat_template(const ServeFlags& flags, Serving& serving) {
  if (!flags.chat_template.empty()) {
    PAGODA_TRY(serving.model.chat_template, read_chat_template(flags.chat_template));
  }
  if (serving.model.chat_template.empty()) {
    log_warning("this model has no chat template: /v1/chat/completions will refuse");
    return ok_status();
  }
  const text::Tokenizer& tokenizer = *serving.model.tokenizer;
  auto made = api::ChatTemplate::create(serving.model.chat_template, spelling(tokenizer, tokenizer.spec().bos),
                                        spelling(tokenizer, tokenizer.spec().eos));
  if (made.ok()) {
    serving.chat_template = std::move(made).take();
  } else if (!flags.chat_template.empty()) {
    return made.error();
  } else {  // completions still work
    log_warning("the model's chat template cannot be used ({}): /v1/chat/completions will refuse",
                made.error().message);
  }
  return ok_status();
}

void log_machine(const engine::EngineInfo& info, engine::CpuEngine& engine) {
  const Machine machine = inspect_machine();
  log_info("isa: {} on {}", info.isa, machine.cpu_model);
  log_info("threads: {} of {} CPUs", info.threads, machine.affinity_cpus);
  log_info("cgroup quota: {}", machine.cgroup_cpus > 0 ? fmt::format("{:.2f} CPUs", machine.cgroup_cpus) : "none");
  log_info("huge pages: {}", machine.huge_pages);
  log_info("bandwidth: {:.1f} GB/s over {:.0f} MB of weights",
           kernels::read_gb_s(engine.thread_pool(), engine.packed_weights()),
           static_cast<double>(info.weight_bytes) / 1e6);
  const kvcache::BlockShape& shape = info.block_shape;
  const int32_t blocks = info.total_blocks / shape.pages();
  log_info("kv pool: {} blocks of {} tokens in {}, {} bytes a token, {:.0f} MB; context {} tokens", blocks,
           kBlockTokens, kernels::kv_types_name(info.kv_types), info.kv_bytes_per_token,
           static_cast<double>(info.kv_bytes_per_token) * kBlockTokens * blocks / 1e6, info.max_model_len);
  if (shape.has_windows())
    log_info("sliding windows: {} of a block's {} pages are free {} tokens later", shape.windowed, shape.pages(),
             shape.window);
}

Status load(const ServeFlags& flags, Serving& serving) {
  const engine::EngineOptions options = flags.engine.engine_options();
  PAGODA_TRY(serving.model, load_model(flags.model, options));
  PAGODA_TRY_STATUS(load_chat_template(flags, serving));
  const engine::EngineInfo& info = serving.model.engine->info();
  log_machine(info, *serving.model.engine);
  const std::string& name = flags.names.empty() ? serving.model.name : flags.names.front();
  serving.metrics = std::make_unique<metrics::ServingMetrics>(name, info.max_model_len);
  PAGODA_TRY(serving.tiers, open_kv_tiers(flags.tiers, serving.model));
  serving.tiers.show_in(*serving.metrics);
  serving.metrics->set_cache_config(kBlockTokens, info.total_blocks / info.block_shape.pages());
  scheduler::Limits limits{.max_num_seqs = options.max_num_seqs,
                           .max_num_batched_tokens = options.max_num_batched_tokens,
                           .max_model_len = info.max_model_len,
                           .total_blocks = info.total_blocks,
                           .prefix_caching = flags.prefix_caching};
  PAGODA_TRY_STATUS(apply_scheduling_flags(flags.scheduling, limits));
  const bool paged = limits.mode == scheduler::SchedulingMode::kPaged;
  log_info("prefix cache: {}", flags.prefix_caching && paged ? "on" : "off");
  log_info("scheduling: {}, {}, preemption {}{}", scheduler::name_of(limits.policy), scheduler::name_of(limits.mode),
           scheduler::name_of(limits.preemption),
           limits.itl_slo_ms > 0 ? fmt::format(", {} ms from token to token", limits.itl_slo_ms) : "");
  serving.scheduler =
      std::make_unique<scheduler::Scheduler>(*serving.model.engine, serving.model.tokenizer.get(), limits,
                                             serving.clock, *serving.metrics, serving.tiers.view());
  serving.worker = std::thread([&serving] { serving.scheduler->run_until_stopped(); });
  return ok_status();
}

std::shared_ptr<const api::ReceiptSource> receipts_of(const Serving& serving) {
  const engine::EngineInfo& info = serving.model.engine->info();
  ModelDigest* const digest = serving.digest.get();
  return std::make_shared<api::ReceiptSource>(api::ReceiptSource{.build = engine::build_and_numbers(),
                                                                 .model = serving.model.name,
                                                                 .model_sha256 = [digest] { return digest->get(); },
                                                                 .ready = [digest] { return digest->ready(); },
                                                                 .kv_k = kernels::kv_type_name(info.kv_types.k),
                                                                 .kv_v = kernels::kv_type_name(info.kv_types.v),
                                                                 .max_model_len = info.max_model_len,
                                                                 .chat_template = serving.model.chat_template});
}

api::ModelCard card_of(const ServeFlags& flags, const LoadedModel& model) {
  api::ModelCard card;
  const engine::EngineInfo& info = model.engine->info();
  card.family = info.architecture;
  card.parameters = info.parameters;
  const auto parameters = static_cast<double>(info.parameters);
  card.parameter_size =
      parameters < 1e9 ? fmt::format("{:.2f}M", parameters / 1e6) : fmt::format("{:.1f}B", parameters / 1e9);
  if (const auto summary = weights::summarize(*model.file); summary.ok()) {
    card.quantization = summary.value().quantization;
    card.embedding_width = static_cast<int32_t>(summary.value().width.value_or(0));
    for (const auto& [type, use] : summary.value().types) card.bytes += use.bytes;
  }
  if (const weights::CatalogueEntry* entry = weights::find_entry(flags.model)) card.digest = entry->sha256;
  return card;
}

constexpr int64_t kGrammarBytesMax = int64_t{256} << 20;  // kept for requests to come

std::shared_ptr<const api::Backend> backend_of(const ServeFlags& flags, const Serving& serving) {
  const engine::EngineInfo& info = serving.model.engine->info();
  auto backend = std::make_shared<api::Backend>();
  backend->tokenizer = serving.model.tokenizer.get();
  backend->chat_template = serving.chat_template.get();
  backend->chat_template_source = serving.model.chat_template;
  if (serving.chat_template != nullptr)
    backend->answer_format = api::read_answer_format(serving.model.chat_template, *serving.model.tokenizer);
  backend->card = card_of(flags, serving.model);
  backend->scheduler = serving.scheduler.get();
  backend->metrics = serving.metrics.get();
  backend->clock = &serving.clock;
  backend->facts.names = flags.names.empty() ? std::vector<std::string>{serving.model.name} : flags.names;
  backend->facts.vocab_size = info.vocab_size;
  backend->facts.max_model_len = info.max_model_len;
  backend->facts.context_limit = serving.scheduler->context_limit();
  backend->facts.created_unix_s = std::time(nullptr);
  backend->grammars = std::make_shared<api::GrammarCache>(*serving.model.tokenizer, kGrammarBytesMax);
  backend->fingerprint = fmt::format("pagoda-{}-kv-{}", PAGODA_VERSION, kernels::kv_types_name(info.kv_types));
  backend->receipts = receipts_of(serving);
  return backend;
}

void log_address(const ServeFlags& flags, const api::Server& server, const api::Backend& backend) {
  const std::string& host = flags.server.host;
  const std::string shown = host == "0.0.0.0"                     ? "127.0.0.1"
                            : host.find(':') != std::string::npos ? "[" + host + "]"
                                                                  : host;
  const std::string base = fmt::format("http://{}:{}", shown, server.port());
  log_info("ready: {} serves {} at {}/v1", fmt::join(backend.facts.names, ", "), backend.facts.max_model_len, base);
  const std::string key = flags.api_keys.empty() ? "" : " -H 'Authorization: Bearer KEY'";
  const std::string request =
      backend.chat_template != nullptr
          ? fmt::format(
                R"({}/v1/chat/completions{} -d '{{"messages":[{{"role":"user","content":"Why is the sky blue?"}}]}}')",
                base, key)
          : fmt::format(R"({}/v1/completions{} -d '{{"prompt":"The sky is blue because"}}')", base, key);
  log_info("try:  curl {}", request);
}

int serve(ServeFlags flags) {
  std::signal(SIGPIPE, SIG_IGN);   // NOLINT: a reader of our log may go away
  std::signal(SIGTERM, exit_for);  // until the server takes over
  std::signal(SIGINT, exit_for);
  const Result<LogLevel> level = parse_log_level(flags.log_level);
  if (!level.ok()) return fail("serve", level.error());
  set_log_level(level.value());
  scheduler::Limits judged;
  if (const Status good = apply_scheduling_flags(flags.scheduling, judged); !good.ok())
    return fail("serve", good.error());
  flags.tiers.swap_space = flags.engine.swap_space;
  if (const Status good = check_preemption(flags, judged); !good.ok()) return fail("serve", good.error());
  std::erase(flags.api_keys, "");  // an empty one would let everybody in
  if (const Status checked = check_model(flags); !checked.ok()) return fail("serve", checked.error());

  Serving serving;
  flags.server.drain_timeout_ms = static_cast<int32_t>(flags.drain_timeout_s * 1000);
  api::Service service({.api_keys = flags.api_keys, .seed = flags.seed});
  auto listening = api::Server::listen(flags.server, service);
  if (!listening.ok()) return fail("serve", listening.error());
  const std::unique_ptr<api::Server> server = std::move(listening).take();
  server->start({.on_drain =
                     [](int signal) {
                       log_info("{}: draining; a second signal ends at once", signal == SIGINT ? "SIGINT" : "SIGTERM");
                       ServiceManager::stopping();
                     },
                 .on_second_signal = exit_for});
  log_info("loading {} (port {} answers 503 until it is ready)", flags.model, server->port());
  if (const Status loaded = load(flags, serving); !loaded.ok()) return fail("serve", loaded.error());

  serving.digest = std::make_unique<ModelDigest>(*serving.model.file, /*in_background=*/true);
  const auto backend = backend_of(flags, serving);
  service.set_backend(backend);
  server->serving_began();
  log_address(flags, *server, *backend);
  ServiceManager manager;
  manager.ready(fmt::format("serving {} on port {}", backend->facts.names.front(), server->port()),
                [&serving] { return serving.scheduler->load().last_step_us; });
  server->wait();
  serving.stop();
  log_info("stopped");
  return kDone;
}

}  // namespace

void add_serve(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("serve", "Serve a model over HTTP: OpenAI's chat and completions");
  const auto flags = std::make_shared<ServeFlags>();
  verb->add_option("MODEL", flags->model, "Catalogue name, .gguf file, or a folder that holds one")->required();
  add_env_flag(*verb, "--host", flags->server.host, "Address to listen on")->capture_default_str();
  add_env_flag(*verb, "--port", flags->server.port, "Port to listen on, 0 for any free one")->capture_default_str();
  add_engine_flags(*verb, flags->engine);
  add_env_flag(*verb, "--seed", flags->seed,
               "Seeds of unseeded requests come from this, not from the machine's entropy");
  add_env_flag(*verb, "--served-model-name", flags->names, "What requests may call the model; repeat for aliases")
      ->allow_extra_args(false)
      ->delimiter(',');
  add_env_flag(*verb, "--log-level", flags->log_level, "debug, info, warning, error, off")->capture_default_str();
  add_env_flag(*verb, "--chat-template", flags->chat_template,
               "Jinja file (or text) instead of the model's own template");
  add_env_flag(*verb, "--api-key", flags->api_keys, "Key wanted on every route but /health; repeat for several")
      ->allow_extra_args(false)
      ->delimiter(',');
  verb->add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", flags->prefix_caching,
                 "Keep the KV of finished requests and share it between equal beginnings (on unless switched off)")
      ->envname("PAGODA_ENABLE_PREFIX_CACHING");
  add_scheduling_flags(*verb, flags->scheduling);
  add_env_flag(*verb, "--kv-dir", flags->tiers.folder,
               "Keep KV blocks in this folder too: a restarted server finds what was computed before");
  add_env_flag(*verb, "--kv-dir-max", flags->tiers.folder_bytes_max,
               "Bytes in it, such as 20GiB; longest unused leave first")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("8GiB");
  add_env_flag(*verb, "--drain-timeout", flags->drain_timeout_s, "Seconds running answers get after SIGTERM or SIGINT")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  verb->footer(
      "Every flag can be set in the environment: --max-num-seqs is PAGODA_MAX_NUM_SEQS.\n"
      "SIGTERM or SIGINT drains; a second one ends at once.\n"
      "Examples:\n"
      "  pagoda serve smollm2:135m\n"
      "  pagoda serve qwen2.5-coder:1.5b --host 0.0.0.0 --api-key \"$KEY\" --max-model-len 8192");
  verb->callback([&invocation, flags] { invocation.run = [flags] { return serve(*flags); }; });
}

}  // namespace pagoda::apps
