#include <fmt/format.h>

#include "apps/exit_code.h"
#include "apps/json_lines.h"
#include "apps/loaded_model.h"
#include "apps/verbs.h"

namespace pagoda::apps {
namespace {

struct Arguments {
  std::string model;
  std::optional<std::string> text;
  bool lines = false;
  text::EncodeOptions options;
};

Result<bool> flag_or(const nlohmann::json& object, const char* name, bool fallback) {
  const auto found = object.find(name);
  if (found == object.end()) return fallback;
  if (!found->is_boolean())
    return Error{Code::kInvalidRequest, fmt::format("{} must be true or false, got {}", name, found->type_name()),
                 name};
  return found->get<bool>();
}

Result<nlohmann::json> tokenize_line(const text::Tokenizer& tokenizer, text::EncodeOptions options,
                                     const nlohmann::json& line) {
  if (line.is_string()) return nlohmann::json(tokenizer.encode(line.get_ref<const std::string&>(), options));
  if (!line.is_object())
    return Error{Code::kInvalidRequest, fmt::format("a line must be a string or an object, got {}", line.type_name())};
  const auto found = line.find("text");
  if (found == line.end() || !found->is_string()) return Error{Code::kInvalidRequest, "text must be a string", "text"};
  PAGODA_TRY(options.add_special, flag_or(line, "add_special", options.add_special));
  PAGODA_TRY(options.parse_special, flag_or(line, "parse_special", options.parse_special));
  return nlohmann::json(tokenizer.encode(found->get_ref<const std::string&>(), options));
}

int run_tokenize(const Arguments& arguments) {
  if (arguments.lines == arguments.text.has_value()) {
    fmt::print(stderr, "pagoda tokenize: give either TEXT or --jsonl\n");
    return kUsage;
  }
  const auto model = open_model(arguments.model);
  if (!model.ok()) return fail("tokenize", model.error());
  const text::Tokenizer& tokenizer = *model.value().tokenizer;
  if (arguments.lines)
    return run_json_lines(
        [&](const nlohmann::json& line) { return tokenize_line(tokenizer, arguments.options, line); });
  fmt::print("{}\n", nlohmann::json(tokenizer.encode(*arguments.text, arguments.options)).dump());
  return kDone;
}

}  // namespace

void add_tokenize(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("tokenize", "Turn text into token ids");
  auto arguments = std::make_shared<Arguments>();
  verb->add_option("MODEL", arguments->model, "a catalogue name, a .gguf file (a vocabulary is enough), or a folder")
      ->required();
  verb->add_option("TEXT", arguments->text, "the text");
  verb->add_flag("--jsonl", arguments->lines,
                 "read lines of JSON from standard input: a string, or {\"text\", \"add_special\", \"parse_special\"}; "
                 "print the ids of "
                 "each, or {\"error\"}");
  verb->add_flag("--add-special", arguments->options.add_special, "add BOS and EOS where the model wants them");
  verb->add_flag("--parse-special", arguments->options.parse_special,
                 "read control tokens written in the text as such");
  verb->footer(
      "Examples:\n  pagoda tokenize smollm2:135m \"Hello world\"\n"
      "  echo '{\"text\": \"<|im_start|>hi\", \"parse_special\": true}' | pagoda tokenize smollm2:135m --jsonl\n"
      "Exit: 0 done, 1 no such model, 2 usage");
  verb->callback([&invocation, arguments] { invocation.run = [arguments] { return run_tokenize(*arguments); }; });
}

}  // namespace pagoda::apps
