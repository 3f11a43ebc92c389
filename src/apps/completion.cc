#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/verbs.h"

namespace pagoda::apps {
namespace {

/// One verb of the command line and the flags it takes, as the shells need them.
struct VerbWords {
  std::string name;
  std::string description;
  std::vector<std::string> flags;     // those of its own verbs included
  std::vector<std::string> subverbs;  // "machine", ... of bench
};

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

std::vector<const CLI::App*> verbs_under(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<VerbWords> words_of(const CLI::App& root) {
  std::vector<VerbWords> verbs;
  for (const CLI::App* verb : verbs_under(root)) {
    VerbWords words{verb->get_name(), verb->get_description(), flags_of(*verb), {}};
    for (const CLI::App* inner : verbs_under(*verb)) {
      words.subverbs.push_back(inner->get_name());
      for (const std::string& flag : flags_of(*inner))
        if (std::ranges::find(words.flags, flag) == words.flags.end()) words.flags.push_back(flag);
    }
    verbs.push_back(std::move(words));
  }
  return verbs;
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::string names_of(const std::vector<VerbWords>& verbs) {
  std::vector<std::string> names;
  for (const VerbWords& verb : verbs) names.push_back(verb.name);
  return joined(names);
}

std::string bash_script(const std::vector<VerbWords>& verbs) {
  std::string cases;
  for (const VerbWords& verb : verbs)
    cases +=
        fmt::format("    {}) flags=\"{}\" inner=\"{}\" ;;\n", verb.name, joined(verb.flags), joined(verb.subverbs));
  return fmt::format(
      "# bash completion: source <(pagoda completion bash)\n"
      "_pagoda() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} flags= inner=\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return; fi\n"
      "  case ${{COMP_WORDS[1]}} in\n{}  esac\n"
      "  if [ \"$COMP_CWORD\" -eq 2 ] && [ -n \"$inner\" ]; then COMPREPLY=($(compgen -W \"$inner\" -- \"$word\")); "
      "return; fi\n"
      "  case $word in\n"
      "    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")) ;;\n"
      "    *) COMPREPLY=($(compgen -f -- \"$word\") $(compgen -W \"$(pagoda list 2>/dev/null | awk 'NR > 1 {{print "
      "$1}}')\" -- \"$word\")) "
      ";;\n"
      "  esac\n"
      "}}\n"
      "complete -o filenames -F _pagoda pagoda\n",
      names_of(verbs), cases);
}

std::string zsh_script(const std::vector<VerbWords>& verbs) {
  return "#compdef pagoda\nautoload -U +X bashcompinit && bashcompinit\n" + bash_script(verbs);
}

std::string fish_script(const std::vector<VerbWords>& verbs) {
  std::string script = "# fish completion: pagoda completion fish | source\n";
  for (const VerbWords& verb : verbs) {
    script += fmt::format("complete -c pagoda -n __fish_use_subcommand -a {} -d '{}'\n", verb.name, verb.description);
    if (!verb.subverbs.empty())
      script += fmt::format(
          "complete -c pagoda -f -n '__fish_seen_subcommand_from {0}; and not __fish_seen_subcommand_from {1}' -a "
          "'{1}'\n",
          verb.name, joined(verb.subverbs));
    for (const std::string& flag : verb.flags)
      script +=
          fmt::format("complete -c pagoda -n '__fish_seen_subcommand_from {}' -l {}\n", verb.name, flag.substr(2));
  }
  return script;
}

}  // namespace

void add_completion(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("completion", "Print a shell completion script");
  auto shell = std::make_shared<std::string>();
  verb->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->footer("Example:  source <(pagoda completion bash)");
  verb->callback([&app, &invocation, shell] {
    invocation.run = [&app, shell] {
      const std::vector<VerbWords> verbs = words_of(app);
      fmt::print("{}", *shell == "bash"  ? bash_script(verbs)
                       : *shell == "zsh" ? zsh_script(verbs)
                                         : fish_script(verbs));
      return 0;
    };
  });
}

}  // namespace pagoda::apps
