#pragma once
#include <CLI/CLI.hpp>
#include <functional>

namespace pagoda::apps {

/// What the command line asked for; main() runs it after parsing and exits with what it returns.
/// Exit codes: 0 done, 1 refused or failed (the reason is on standard error), 2 usage, 130 interrupted.
struct Invocation {
  std::function<int()> run;
};

/// Each verb adds its subcommand, with flags, help and examples, and sets `invocation.run` when chosen.
void add_bench(CLI::App& app, Invocation& invocation);
void add_cache(CLI::App& app, Invocation& invocation);
void add_completion(CLI::App& app, Invocation& invocation);
void add_detokenize(CLI::App& app, Invocation& invocation);
void add_eval(CLI::App& app, Invocation& invocation);
void add_grammar(CLI::App& app, Invocation& invocation);
void add_inspect(CLI::App& app, Invocation& invocation);
void add_list(CLI::App& app, Invocation& invocation);
void add_plan(CLI::App& app, Invocation& invocation);
void add_pull(CLI::App& app, Invocation& invocation);
void add_replay(CLI::App& app, Invocation& invocation);
void add_run(CLI::App& app, Invocation& invocation);
void add_serve(CLI::App& app, Invocation& invocation);
void add_template(CLI::App& app, Invocation& invocation);
void add_tokenize(CLI::App& app, Invocation& invocation);
void add_verify(CLI::App& app, Invocation& invocation);
void add_version(CLI::App& app, Invocation& invocation);

}  // namespace pagoda::apps
