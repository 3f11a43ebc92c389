#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/exit_code.h"
#include "apps/verbs.h"
#include "weights/catalogue.h"

namespace pagoda::apps {
namespace {

int run_list(bool json) {
  const auto folder = weights::models_folder();
  if (!folder.ok()) return fail("list", folder.error());
  constexpr double kMega = 1e6;
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  if (!json) fmt::print("{:<20} {:>9}  {:<5} {}\n", "NAME", "MB", "HERE", "ABOUT");
  for (const weights::CatalogueEntry& entry : weights::catalogue()) {
    const bool here = weights::is_complete(entry, folder.value() + "/" + entry.file);
    if (json)
      models.push_back({{"name", entry.name},
                        {"file", entry.file},
                        {"bytes", entry.bytes},
                        {"present", here},
                        {"sha256", entry.sha256},
                        {"licence", entry.licence},
                        {"about", entry.about}});
    else
      fmt::print("{:<20} {:>9.1f}  {:<5} {} ({})\n", entry.name, static_cast<double>(entry.bytes) / kMega,
                 here ? "yes" : "no", entry.about, entry.licence);
  }
  if (json) fmt::print("{}\n", nlohmann::ordered_json{{"models", models}}.dump(2));
  return kDone;
}

}  // namespace

void add_list(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("list", "List the models that can be pulled, and which are here");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "print one JSON object");
  verb->footer("Examples:\n  pagoda list\n  pagoda list --json");
  verb->callback([&invocation, json] { invocation.run = [json] { return run_list(*json); }; });
}

}  // namespace pagoda::apps
