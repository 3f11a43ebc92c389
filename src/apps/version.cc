#include <fmt/format.h>

#include "apps/verbs.h"

namespace pagoda::apps {

void add_version(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("version", "Print the version");
  verb->callback([&invocation] {
    invocation.run = [] {
      fmt::print("pagoda {}\n", PAGODA_VERSION);
      return 0;
    };
  });
}

}  // namespace pagoda::apps
