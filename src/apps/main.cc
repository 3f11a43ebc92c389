#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <iostream>

#include "apps/exit_code.h"
#include "apps/kv_flags.h"
#include "apps/verbs.h"

namespace {

int parse_and_run(int argc, char** argv) {
  using namespace pagoda::apps;
  CLI::App app{"Pagoda serves large language models: one binary, the same bytes every time.", "pagoda"};
  app.require_subcommand(1);
  app.set_version_flag("--version", PAGODA_VERSION);
  app.footer("Start here:  pagoda run smollm2:135m \"Why is the sky blue?\"");

  Invocation invocation;
  add_bench(app, invocation);
  add_cache(app, invocation);
  add_completion(app, invocation);
  add_detokenize(app, invocation);
  add_eval(app, invocation);
  add_grammar(app, invocation);
  add_inspect(app, invocation);
  add_list(app, invocation);
  add_plan(app, invocation);
  add_pull(app, invocation);
  add_replay(app, invocation);
  add_run(app, invocation);
  add_serve(app, invocation);
  add_template(app, invocation);
  add_tokenize(app, invocation);
  add_verify(app, invocation);
  add_version(app, invocation);

  try {
    const std::vector<const char*> arguments = long_options(argc, argv);
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ParseError& error) {  // --help and --version come this way too
    return app.exit(error, std::cout, std::cerr) == 0 ? kDone : kUsage;
  }
  return invocation.run();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const std::exception& error) {  // the last stop of library throws
    fmt::print(stderr, "pagoda: {}\n", error.what());
    return pagoda::apps::kFailed;
  }
}
