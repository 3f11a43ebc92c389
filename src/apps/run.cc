#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <random>

#include "apps/chat_session.h"
#include "apps/exit_code.h"
#include "apps/interrupt.h"
#include "apps/kv_flags.h"
#include "apps/line_editor.h"
#include "apps/verbs.h"
#include "core/log.h"

namespace pagoda::apps {
namespace {

constexpr const char* kVerb = "run";
constexpr size_t kPromptBytesMax = size_t{16} << 20;

struct RunFlags {
  std::string model;
  std::optional<std::string> prompt;
  std::string system;
  std::string template_file;
  AnswerOptions answer;
  std::optional<uint64_t> seed;
  engine::EngineOptions engine;
  KvFlags kv;
  KvTierFlags tiers;
  bool verbose = false;
};

constexpr const char* kHelp =
    "  /clear         forget the conversation\n"
    "  /system TEXT   set the system message (empty: none) and start anew\n"
    "  /help          this list\n"
    "  /bye           leave; so does Ctrl-D\n"
    "  Ctrl-C stops an answer, and leaves at the prompt. A line that ends in \\ goes on in the next.\n";

/// Prints pieces as they come. False as soon as nobody wants more: the user stopped, or the reader has gone.
struct Printer {
  bool interrupted = false;
  bool closed = false;

  bool operator()(std::string_view text) {
    if (!text.empty() && (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0))
      closed = true;
    interrupted = interrupted || take_interrupt();
    return !interrupted && !closed;
  }
};

void print_statistics(const Answer& answer, uint64_t seed) {
  const double decode_tok_s = answer.decode_s > 0 ? (answer.completion_tokens - 1) / answer.decode_s : 0;
  fmt::print(stderr, "[{} prompt tokens in {:.2f} s, {} tokens, {:.1f} tok/s, seed {}{}]\n", answer.prompt_tokens,
             answer.prefill_s, answer.completion_tokens, decode_tok_s, seed,
             answer.finish == scheduler::FinishReason::kLength ? ", ended by length" : "");
}

/// One answer to standard output and nothing else.
int answer_once(ChatSession& session, const RunFlags& flags, const std::string& prompt) {
  watch_interrupts(true);
  Printer printer;
  const Result<Answer> answer = session.ask(prompt, flags.answer, std::ref(printer));
  if (!answer.ok()) return fail(kVerb, answer.error());
  if (!printer.closed) printer("\n");
  if (printer.interrupted) return kInterrupted;
  if (printer.closed) return fail(kVerb, {Code::kIo, "standard output was closed before the answer ended"});
  if (flags.verbose) print_statistics(answer.value(), flags.answer.sampling.seed);
  return kDone;
}

/// One message of possibly several lines.
LineEditor::Outcome read_message(LineEditor& editor, std::string& message) {
  message.clear();
  std::string line;
  for (const char* prompt = ">>> ";; prompt = "... ") {
    const LineEditor::Outcome outcome = editor.read(prompt, line);
    if (outcome != LineEditor::Outcome::kLine) return outcome;
    message += line;
    if (!message.ends_with('\\')) return outcome;
    message.back() = '\n';
  }
}

enum class Command { kNone, kHandled, kLeave };

Command obey(const std::string& message, ChatSession& session) {
  if (!message.starts_with('/')) return Command::kNone;
  const std::string name = message.substr(0, message.find(' '));
  const std::string rest = name.size() < message.size() ? message.substr(name.size() + 1) : "";
  if (name == "/bye") return Command::kLeave;
  if (name == "/clear") {
    session.clear();
  } else if (name == "/system") {
    session.set_system(rest);
    if (!session.has_template())
      fmt::print(stderr, "this model has no chat template: a system message has no effect\n");
  } else if (name == "/help") {
    fmt::print(stderr, "{}", kHelp);
  } else {
    fmt::print(stderr, "unknown command {}; /help lists them\n", name);
  }
  return Command::kHandled;
}

int converse(ChatSession& session, const RunFlags& flags) {
  fmt::print(stderr, "{}/help for help.\n",
             session.has_template() ? "" : "A base model without a chat template: it continues your text. ");
  LineEditor editor;
  std::string message;
  AnswerOptions options = flags.answer;
  for (;;) {
    watch_interrupts(true);
    const LineEditor::Outcome outcome = read_message(editor, message);
    if (outcome == LineEditor::Outcome::kEnd) return kDone;
    if (outcome == LineEditor::Outcome::kCtrlC) return kInterrupted;
    if (message.find_first_not_of(" \n") == std::string::npos) continue;
    const Command command = obey(message, session);
    if (command == Command::kLeave) return kDone;
    if (command == Command::kHandled) continue;

    Printer printer;
    const Result<Answer> answer = session.ask(message, options, std::ref(printer));
    if (!answer.ok()) {
      fail(kVerb, answer.error());
      continue;  // the conversation stands as it was: /clear or a shorter message goes on
    }
    printer("\n");
    if (printer.closed) return kFailed;
    if (printer.interrupted) fmt::print(stderr, "[stopped]\n");
    if (flags.verbose) print_statistics(answer.value(), options.sampling.seed);
    ++options.sampling.seed;  // the same question twice is two draws; the whole session replays from --seed
  }
}

Result<std::string> read_standard_input() {
  std::string text;
  char buffer[65536];
  while (const size_t got = std::fread(buffer, 1, sizeof buffer, stdin)) {
    text.append(buffer, got);
    if (text.size() > kPromptBytesMax)
      return Error{Code::kTooLarge, fmt::format("standard input holds more than {} bytes", kPromptBytesMax)};
  }
  if (std::ferror(stdin)) return Error{Code::kIo, "standard input could not be read"};
  if (text.ends_with('\n')) text.pop_back();  // the line's end, not the writer's
  if (text.empty()) return Error{Code::kInvalidRequest, "no PROMPT was given and standard input is empty"};
  return text;
}

Result<std::unique_ptr<ChatSession>> start_session(RunFlags& flags) {
  std::string template_text;
  if (!flags.template_file.empty()) {
    PAGODA_TRY(template_text, read_chat_template(flags.template_file));
  }
  flags.engine.max_num_seqs = 1;
  flags.engine.kv_types = flags.kv.types();
  flags.engine.pages_by_window = true;
  if (isatty(STDERR_FILENO))
    flags.engine.progress = [](double part) { fmt::print(stderr, "\rloading {:3.0f} %", 100 * part); };
  Result<LoadedModel> loaded = load_model(flags.model, flags.engine);
  if (flags.engine.progress) fmt::print(stderr, "\r\x1b[K");
  PAGODA_TRY(LoadedModel model, std::move(loaded));
  const engine::EngineInfo& info = model.engine->info();
  scheduler::Limits limits;
  limits.max_num_seqs = flags.engine.max_num_seqs;
  limits.max_num_batched_tokens = flags.engine.max_num_batched_tokens;
  limits.max_model_len = info.max_model_len;
  limits.total_blocks = info.total_blocks;
  PAGODA_TRY(KvTiers tiers, open_kv_tiers(flags.tiers, model));
  PAGODA_TRY(std::unique_ptr<ChatSession> session,
             ChatSession::create(std::move(model), template_text, limits, std::move(tiers)));
  if (!flags.system.empty()) {
    if (!session->has_template())
      return Error{Code::kInvalidRequest, "this model has no chat template, so --system has no effect on it",
                   "--system"};
    session->set_system(flags.system);
  }
  return session;
}

int run(RunFlags flags) {
  install_interrupts();
  set_log_level(LogLevel::kWarning);
  const bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  std::optional<std::string> prompt = flags.prompt;
  if (!prompt && !terminal) {
    Result<std::string> piped = read_standard_input();
    if (!piped.ok()) return fail(kVerb, piped.error());
    prompt = std::move(piped).take();
  }
  flags.answer.sampling.seed = flags.seed.value_or((uint64_t{std::random_device{}()} << 32) | std::random_device{}());
  auto session = start_session(flags);
  if (!session.ok()) return fail(kVerb, session.error());
  return prompt ? answer_once(*session.value(), flags, *prompt) : converse(*session.value(), flags);
}

void add_sampling_flags(CLI::App& verb, RunFlags& flags) {
  sampling::SamplingParams& sampling = flags.answer.sampling;
  verb.add_option("--max-tokens", flags.answer.max_tokens, "Longest answer, tokens (default: to the context's end)")
      ->check(CLI::Range(1, 1 << 30));
  verb.add_option("--temperature", sampling.temperature, "0 = always the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  verb.add_option("--top-k", sampling.top_k, "Keep the k likeliest tokens, 0 = all")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  verb.add_option("--top-p", sampling.top_p, "Keep the likeliest tokens that together reach p")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  verb.add_option("--min-p", sampling.min_p, "Keep tokens with at least this part of the best one's probability")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  verb.add_option("--repetition-penalty", sampling.repetition_penalty, "Above 1: repeat less")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str();
  verb.add_option("--presence-penalty", sampling.presence_penalty)->check(CLI::Range(-2.0, 2.0))->capture_default_str();
  verb.add_option("--frequency-penalty", sampling.frequency_penalty)
      ->check(CLI::Range(-2.0, 2.0))
      ->capture_default_str();
  verb.add_option("--stop", flags.answer.stop, "Text that ends the answer; may be given several times")
      ->check([](const std::string& text) { return text.empty() ? "must not be empty" : ""; })
      ->allow_extra_args(false);
  verb.add_option("--seed", flags.seed, "Same seed, same answer (default: a random one)");
}

void add_engine_flags(CLI::App& verb, RunFlags& flags) {
  verb.add_option("--threads", flags.engine.threads, "Default: the CPUs this process may use")
      ->check(CLI::Range(1, 1024));
  verb.add_option("--max-model-len", flags.engine.max_model_len, "Context, tokens (default: the model's)")
      ->check(CLI::Range(1, 1 << 30));
  verb.add_option("--max-num-batched-tokens", flags.engine.max_num_batched_tokens, "Prompt tokens computed at once")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  add_kv_flags(verb, flags.kv);
  verb.add_option("--kv-dir", flags.tiers.folder, "Keep KV blocks in this folder: the next run finds them");
  verb.add_option("--kv-dir-max", flags.tiers.folder_bytes_max,
                  "Bytes in it, such as 20GiB; longest unused leave first")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("8GiB");
  verb.add_option("--memory-utilization", flags.engine.memory_utilization, "Part of the free memory to use")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
}

}  // namespace

void add_run(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("run", "Chat with a model in the terminal, or print one answer");
  const auto flags = std::make_shared<RunFlags>();
  verb->add_option("MODEL", flags->model, "Catalogue name, .gguf file, or folder")->required();
  verb->add_option("PROMPT", flags->prompt,
                   "Print one answer to it; without it, one to piped standard input, else a chat");
  verb->add_option("--system", flags->system, "System message of the chat");
  verb->add_option("--chat-template", flags->template_file,
                   "Jinja file (or text) to use instead of the model's template");
  add_sampling_flags(*verb, *flags);
  add_engine_flags(*verb, *flags);
  verb->add_flag("--verbose", flags->verbose, "Print speed and seed after each answer, on standard error");
  verb->footer(
      "Examples:\n"
      "  pagoda run qwen2.5-coder:1.5b\n"
      "  pagoda run smollm2:135m \"Why is the sky blue?\" --temperature 0\n"
      "  git diff | pagoda run qwen2.5-coder:1.5b --system \"Write a commit message for this diff.\" --seed 7");
  verb->callback([&invocation, flags] { invocation.run = [flags] { return run(*flags); }; });
}

}  // namespace pagoda::apps
