#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>

#include "api/chat_template.h"
#include "api/openai_response.h"
#include "api/prepare.h"
#include "api/receipt.h"
#include "apps/exit_code.h"
#include "apps/loaded_model.h"
#include "apps/model_digest.h"
#include "apps/recorded_answer.h"
#include "apps/verbs.h"
#include "core/clock.h"
#include "core/log.h"
#include "engine/kv_fingerprint.h"
#include "kernels/attention/kv_type.h"
#include "metrics/serving_metrics.h"
#include "scheduler/scheduler.h"

namespace pagoda::apps {
namespace {

constexpr int32_t kSeqsMax = 8;  // computed together; the bytes do not depend on it

struct ReplayFlags {
  std::string file;
  std::string request;
  std::string model;
  std::string chat_template;
  int32_t threads = 0;
  bool json = false;
};

/// One choice, computed again.
struct Replayed {
  std::vector<TokenId> ids{};
  std::vector<float> logprobs{};
  std::vector<std::string> texts{};  // that became printable with each token
  std::string finish_reason{};
};

/// Where the answer and its replay part.
struct Difference {
  size_t choice = 0;
  std::string what{};
};

class ReplaySink final : public scheduler::EventSink {
 public:
  explicit ReplaySink(int32_t n) : choices(static_cast<size_t>(n)) {}
  void push(scheduler::Event event) override {
    Replayed& choice = choices[static_cast<size_t>(event.choice)];
    if (event.token) {
      choice.ids.push_back(event.token->id);
      choice.logprobs.push_back(event.token->logprob);
      choice.texts.emplace_back();
    }
    if (!choice.texts.empty()) choice.texts.back() += event.text;
    if (event.finish) choice.finish_reason = api::name_of(*event.finish);
    if (event.error) error = std::move(event.error);
  }
  std::vector<Replayed> choices;
  std::optional<Error> error{};
};

Result<std::string> read_text(const std::string& path) {
  std::string text;
  if (path == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
    return text;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{Code::kNotFound, path + " cannot be read"};
  text.assign(std::istreambuf_iterator<char>(file), {});
  return text;
}

/// `vocab_size`: ids beyond it are refused; before a model is there, any is taken.
Result<api::Receipt> receipt_in(const RecordedAnswer& answer, int32_t vocab_size) {
  api::ModelFacts facts;
  facts.vocab_size = vocab_size;
  PAGODA_TRY(api::Receipt receipt, api::read_receipt(api::JsonField(answer.receipt), facts));
  if (answer.choices.size() != receipt.choices.size())
    return Error{
        Code::kInvalidRequest,
        fmt::format("the answer has {} choices, its receipt {}", answer.choices.size(), receipt.choices.size()),
        "choices"};
  return receipt;
}

/// The model as the receipt says it was served. Errors: another file, a name that nothing is found by.
Result<LoadedModel> load_receipted_model(const api::Receipt& receipt, const ReplayFlags& flags) {
  engine::EngineOptions options;
  options.threads = flags.threads;
  options.max_model_len = receipt.max_model_len;
  options.max_num_seqs = std::min(kSeqsMax, static_cast<int32_t>(receipt.choices.size()));
  PAGODA_TRY(options.kv_types.k, kernels::parse_kv_type(receipt.kv_k));
  PAGODA_TRY(options.kv_types.v, kernels::parse_kv_type(receipt.kv_v));
  const std::string& name = flags.model.empty() ? receipt.model : flags.model;
  Result<LoadedModel> model = open_model(name);
  if (!model.ok() && flags.model.empty())
    return Error{model.error().code, model.error().message + "; --model says where the receipt's model is"};
  if (!model.ok()) return model;
  const std::string digest = ModelDigest(*model.value().file, /*in_background=*/false).get();
  if (digest != receipt.model_sha256)
    return Error{Code::kInvalidRequest, fmt::format("another model: the receipt's has SHA-256 {}, {} has {}",
                                                    receipt.model_sha256, name, digest)};
  return load_model(name, options);
}

std::string spelled(const text::Tokenizer& tokenizer, TokenId id) {
  return fmt::format("{} {:?}", id, tokenizer.valid(id) ? tokenizer.token_bytes(id) : "");
}

/// The request of the answer, made ready as the server did it: its prompts and settings.
struct Asked {
  api::GenerationRequest generation;
  std::vector<scheduler::Request> requests;
};

Result<Asked> prepare_request(const std::string& body, const RecordedAnswer& answer, const api::Receipt& receipt,
                              const api::Backend& backend) {
  const auto with_seed = [&](api::GenerationRequest& generation) {
    if (!generation.seeded) generation.sampling.seed = receipt.generation.sampling.seed;
    generation.seeded = true;
    return generation;
  };
  if (!answer.chat) {
    PAGODA_TRY(api::CompletionRequest request, api::parse_completion_request(body, backend.facts));
    const api::GenerationRequest generation = with_seed(request.generation);
    PAGODA_TRY(api::PreparedGeneration prepared,
               api::prepare_completion(std::move(request), backend, 0, api::make_completion_writer));
    return Asked{generation, std::move(prepared.requests)};
  }
  PAGODA_TRY(api::ChatRequest request, api::parse_chat_request(body, backend.facts));
  request.options.today_unix_s = answer.created_unix_s;
  const api::GenerationRequest generation = with_seed(request.generation);
  PAGODA_TRY(api::PreparedGeneration prepared,
             api::prepare_chat(std::move(request), backend, 0, api::make_chat_writer));
  return Asked{generation, std::move(prepared.requests)};
}

/// The prompts of a request that was kept beside its answer; kInvalidRequest if the receipt is one of another request.
Result<std::vector<std::vector<TokenId>>> prompts_of_request(const ReplayFlags& flags, const RecordedAnswer& answer,
                                                             const api::Receipt& receipt, const LoadedModel& model) {
  PAGODA_TRY(const std::string body, read_text(flags.request));
  std::string source = model.chat_template;
  if (!flags.chat_template.empty()) {
    PAGODA_TRY(source, read_chat_template(flags.chat_template));
  }
  if (answer.chat && api::digest_of_text(source) != receipt.chat_template_sha256)
    return Error{Code::kInvalidRequest, "another chat template than the receipt's; --chat-template names it"};
  const text::Tokenizer& tokenizer = *model.tokenizer;
  std::unique_ptr<api::ChatTemplate> chat_template;
  if (answer.chat) {
    const auto text = [&](TokenId id) { return tokenizer.valid(id) ? tokenizer.token_bytes(id) : std::string(); };
    PAGODA_TRY(chat_template,
               api::ChatTemplate::create(source, text(tokenizer.spec().bos), text(tokenizer.spec().eos)));
  }
  metrics::ServingMetrics metrics("replay");
  api::Backend backend;
  backend.tokenizer = &tokenizer;
  backend.chat_template = chat_template.get();
  backend.metrics = &metrics;
  PAGODA_TRY(const api::Json document, api::parse_json(body));
  const api::JsonField named = api::JsonField(document).get("model");
  backend.facts.names = {named.is_string() ? named.string().take() : receipt.model};  // under any name it was served by
  backend.facts.vocab_size = tokenizer.size();
  backend.facts.max_model_len = backend.facts.context_limit = receipt.max_model_len;
  PAGODA_TRY(Asked asked, prepare_request(body, answer, receipt, backend));
  const api::Json given = api::sampling_json(asked.generation), kept = api::sampling_json(receipt.generation);
  for (const auto& item : kept.items())
    if (given[item.key()] != item.value())
      return Error{Code::kInvalidRequest,
                   fmt::format("the receipt is of another request: its {} is {}, the request's {}", item.key(),
                               item.value().dump(), given[item.key()].dump())};
  std::vector<std::vector<TokenId>> prompts;
  for (scheduler::Request& request : asked.requests) prompts.push_back(std::move(request.prompt));
  return prompts;
}

Result<std::vector<std::vector<TokenId>>> prompts_of(const ReplayFlags& flags, const RecordedAnswer& answer,
                                                     const api::Receipt& receipt, const LoadedModel& model) {
  std::vector<std::vector<TokenId>> prompts;
  if (!flags.request.empty()) {
    PAGODA_TRY(prompts, prompts_of_request(flags, answer, receipt, model));
  }
  for (const api::ReceiptPrompt& prompt : receipt.prompts) {
    if (!flags.request.empty()) break;
    if (!prompt.ids)
      return Error{Code::kInvalidRequest,
                   fmt::format("the receipt holds no tokens of a prompt of {}, only their digest: --request FILE gives "
                               "the request that was sent",
                               prompt.tokens)};
    prompts.push_back(*prompt.ids);
  }
  if (prompts.size() != receipt.prompts.size())
    return Error{Code::kInvalidRequest,
                 fmt::format("the request has {} prompts, the receipt {}", prompts.size(), receipt.prompts.size())};
  for (size_t i = 0; i < prompts.size(); ++i)
    if (api::digest_of_tokens(prompts[i]) != receipt.prompts[i].sha256)
      return Error{Code::kInvalidRequest,
                   fmt::format("NOT equal: the tokens of prompt {} do not have the digest of the receipt", i)};
  return prompts;
}

Result<std::vector<Replayed>> compute(const api::Receipt& receipt, std::vector<std::vector<TokenId>> prompts,
                                      const LoadedModel& model) {
  const engine::EngineInfo& info = model.engine->info();
  const SteadyClock clock;
  metrics::ServingMetrics metrics("replay");
  scheduler::Scheduler scheduler(*model.engine, model.tokenizer.get(),
                                 {.max_num_seqs = std::min(kSeqsMax, static_cast<int32_t>(receipt.choices.size())),
                                  .max_model_len = info.max_model_len,
                                  .total_blocks = info.total_blocks},
                                 clock, metrics);
  std::vector<std::shared_ptr<ReplaySink>> sinks;
  for (size_t i = 0; i < prompts.size(); ++i) {
    scheduler::Request request =
        api::scheduler_request(receipt.generation, std::move(prompts[i]), receipt.prompts[i].max_tokens);
    request.sampling.logprobs = std::max(request.sampling.logprobs, 0);
    sinks.push_back(std::make_shared<ReplaySink>(request.n));
    request.sink = sinks.back();
    PAGODA_TRY(const scheduler::RequestId id, scheduler.submit(std::move(request)));
    static_cast<void>(id);
  }
  for (bool worked = true; worked;) {
    PAGODA_TRY(worked, scheduler.step());
  }
  std::vector<Replayed> all;
  for (const auto& sink : sinks) {
    if (sink->error) return *sink->error;
    std::move(sink->choices.begin(), sink->choices.end(), std::back_inserter(all));
  }
  return all;
}

std::string difference_in_ids(const std::vector<TokenId>& kept, const Replayed& again, const char* where,
                              const text::Tokenizer& tokenizer) {
  const auto [a, b] = std::ranges::mismatch(kept, again.ids);
  if (a == kept.end() && b == again.ids.end()) return "";
  const auto shown = [&](auto at, auto end) { return at == end ? "nothing more" : "token " + spelled(tokenizer, *at); };
  return fmt::format("position {}: the {} {}, the replay {}", a - kept.begin(), where, shown(a, kept.end()),
                     shown(b, again.ids.end()));
}

/// `text` is what the answer says; what an echoed prompt added is gone.
std::string difference_in_text(const std::string& text, const Replayed& again, const text::Tokenizer& tokenizer) {
  std::string so_far;
  for (size_t i = 0; i < again.ids.size(); ++i) {
    const size_t before = so_far.size();
    so_far += again.texts[i];
    if (!text.starts_with(so_far))
      return fmt::format("position {}: the replay has token {}, the answer's text goes on with {:?}", i,
                         spelled(tokenizer, again.ids[i]), text.substr(std::min(before, text.size()), 24));
  }
  if (text == so_far) return "";
  return fmt::format("position {}: the replay ends, the answer's text goes on with {:?}", again.ids.size(),
                     text.substr(so_far.size(), 24));
}

/// The echoed prompt, if it is the one: it must give the prompt's tokens again, in one of the ways they may have come
/// about.
bool is_echo(const std::string& text, const std::vector<TokenId>& ids, const text::Tokenizer& tokenizer) {
  for (const bool skip_special : {true, false})
    if (tokenizer.decode(ids, skip_special) == text) return true;
  for (const bool add_special : {true, false})
    for (const bool parse_special : {true, false})
      if (tokenizer.encode(text, {.add_special = add_special, .parse_special = parse_special}) == ids) return true;
  return false;
}

/// "" if nothing differs.
std::string compare(const RecordedChoice& answer, const api::ReceiptChoice& kept, const api::Receipt& receipt,
                    const std::vector<TokenId>& prompt, const Replayed& again, const text::Tokenizer& tokenizer) {
  std::string found;
  if (kept.ids) found = difference_in_ids(*kept.ids, again, "receipt has", tokenizer);
  if (!found.empty()) return found;
  if (answer.token_ids) found = difference_in_ids(*answer.token_ids, again, "answer's token_ids have", tokenizer);
  if (!found.empty()) return found;
  if (answer.text && !answer.calls_tools) {
    std::string text = *answer.text;
    std::string said;
    for (const std::string& piece : again.texts) said += piece;
    if (receipt.echo && text.size() >= said.size()) {
      const std::string echoed = text.substr(0, text.size() - said.size());
      if (!is_echo(echoed, prompt, tokenizer)) return fmt::format("the echoed text is not the prompt's: {:?}", echoed);
      text = text.substr(echoed.size());
    }
    found = difference_in_text(text, again, tokenizer);
    if (!found.empty()) return found;
  }
  if (api::digest_of_tokens(again.ids) != kept.sha256 || std::ssize(again.ids) != kept.tokens)
    return fmt::format("the receipt's digest is of other tokens: {} for {}, the replay has {} for {}", kept.sha256,
                       kept.tokens, api::digest_of_tokens(again.ids), again.ids.size());
  if (kept.ended_by != again.finish_reason || (answer.finish_reason != again.finish_reason && !answer.calls_tools))
    return fmt::format("it ended by {:?} ({:?} in the receipt), the replay by {:?}", answer.finish_reason,
                       kept.ended_by, again.finish_reason);
  const size_t shown = std::min(answer.logprobs.size(), again.logprobs.size());
  for (size_t i = 0; i < shown; ++i) {
    const double want = answer.logprobs[answer.logprobs.size() - shown + i];
    const auto got = std::max<double>(again.logprobs[again.logprobs.size() - shown + i], -9999.);
    if (want != got) return fmt::format("position {}: the answer's logprob {:.9g}, the replay's {:.9g}", i, want, got);
  }
  return "";
}

int report(const ReplayFlags& flags, const api::Receipt& receipt, const std::vector<Replayed>& again,
           const std::optional<Difference>& difference) {
  if (flags.json) {
    nlohmann::ordered_json out = {{"equal", !difference}, {"choices", nlohmann::ordered_json::array()}};
    for (const Replayed& choice : again)
      out["choices"].push_back({{"tokens", choice.ids.size()}, {"sha256", api::digest_of_tokens(choice.ids)}});
    out["difference"] = nullptr;
    if (difference) out["difference"] = {{"choice", difference->choice}, {"what", difference->what}};
    fmt::print("{}\n", out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }
  if (difference) {
    fmt::print(stderr, "NOT equal: choice {}, {}\n", difference->choice, difference->what);
    if (receipt.build != engine::build_and_numbers())
      fmt::print(stderr, "the receipt is of {}, this is {}: other numbers may give other bytes\n", receipt.build,
                 engine::build_and_numbers());
    return kFailed;
  }
  size_t tokens = 0;
  for (const Replayed& choice : again) tokens += choice.ids.size();
  if (!flags.json) fmt::print("equal: {} choices, {} tokens\n", again.size(), tokens);
  return kDone;
}

int replay(const ReplayFlags& flags) {
  set_log_level(LogLevel::kWarning);
  const auto done = [&]() -> Result<int> {
    PAGODA_TRY(const std::string text, read_text(flags.file));
    PAGODA_TRY(const RecordedAnswer answer, read_recorded_answer(text));
    PAGODA_TRY(const api::Receipt unseen, receipt_in(answer, std::numeric_limits<int32_t>::max()));
    PAGODA_TRY(const LoadedModel model, load_receipted_model(unseen, flags));
    PAGODA_TRY(const api::Receipt receipt, receipt_in(answer, model.tokenizer->size()));
    PAGODA_TRY(const auto prompts, prompts_of(flags, answer, receipt, model));
    PAGODA_TRY(const std::vector<Replayed> again, compute(receipt, prompts, model));
    for (size_t c = 0; c < again.size(); ++c) {
      const std::vector<TokenId>& prompt = prompts[c / static_cast<size_t>(receipt.generation.n)];
      std::string what = compare(answer.choices[c], receipt.choices[c], receipt, prompt, again[c], *model.tokenizer);
      if (!what.empty()) return report(flags, receipt, again, Difference{c, std::move(what)});
    }
    return report(flags, receipt, again, std::nullopt);
  }();
  return done.ok() ? done.value() : fail("replay", done.error());
}

}  // namespace

void add_replay(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("replay", "Compute a served answer again from its receipt: the same bytes?");
  const auto flags = std::make_shared<ReplayFlags>();
  verb->add_option("FILE", flags->file, "the answer as JSON, or its stream of events; - for standard input")
      ->required();
  verb->add_option(
      "--request", flags->request,
      fmt::format("the request that was sent: needed where a prompt has more than {} tokens", api::kReceiptIdsMax));
  verb->add_option("--model", flags->model, "where the receipt's model is, if not under the name it says");
  verb->add_option("--chat-template", flags->chat_template, "with --request: the template it was served with");
  verb->add_option("--threads", flags->threads, "as of serve")->check(CLI::Range(0, 1024));
  verb->add_flag("--json", flags->json, "print one JSON object");
  verb->footer(
      "Exit code 0: tokens, text, logprobs and end are those of the answer; 1: they are not (standard error names the\n"
      "first differing token), or it cannot be told, and why.\n"
      "Examples:\n"
      "  curl -s http://127.0.0.1:8000/v1/chat/completions -d @request.json > answer.json && pagoda replay "
      "answer.json\n"
      "  pagoda replay answer.json --request request.json --model ./my-model.gguf");
  verb->callback([&invocation, flags] { invocation.run = [flags] { return replay(*flags); }; });
}

}  // namespace pagoda::apps
