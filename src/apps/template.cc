#include "jinja/template.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/exit_code.h"
#include "apps/loaded_model.h"
#include "apps/verbs.h"
#include "jinja/environment_json.h"
#include "jinja/value_json.h"

namespace pagoda::apps {
namespace {

using Json = nlohmann::ordered_json;

/// A template with what its model fills in where a conversation leaves it out.
struct Source {
  std::unique_ptr<jinja::Template> parsed;
  std::string bos = "<s>";
  std::string eos = "</s>";
};

Result<Source> open_source(const std::string& model) {
  Source source;
  std::string text;
  if (model.ends_with(".jinja")) {
    std::ifstream file(model, std::ios::binary);
    if (!file) return Error{Code::kNotFound, fmt::format("cannot read the template file {}", model)};
    text.assign(std::istreambuf_iterator<char>(file), {});
  } else {
    PAGODA_TRY(const LoadedModel loaded, open_model(model));
    if (loaded.chat_template.empty())
      return Error{Code::kNotFound, fmt::format("{} has no chat template: it is a base model", loaded.name)};
    const text::Tokenizer& tokenizer = *loaded.tokenizer;
    const auto spelling = [&tokenizer](TokenId id) {
      return tokenizer.valid(id) ? tokenizer.token_bytes(id) : std::string();
    };
    source.bos = spelling(tokenizer.spec().bos);
    source.eos = spelling(tokenizer.spec().eos);
    text = loaded.chat_template;
  }
  PAGODA_TRY(source.parsed, jinja::Template::parse(text));
  return source;
}

Result<std::string> render_conversation(const Source& source, const std::string& line, int64_t today_unix_s) {
  PAGODA_TRY(jinja::Value context, jinja::from_json(line));
  if (!context.is_dict()) return Error{Code::kInvalidRequest, "a JSON object of variables is needed"};
  for (const auto& [name, text] : {std::pair{"bos_token", source.bos}, {"eos_token", source.eos}})
    if (context.dict().find(name) == nullptr) context = jinja::with_entry(context, name, jinja::Value::string(text));
  PAGODA_TRY(const jinja::Rendered rendered, source.parsed->render(context, today_unix_s));
  return rendered.text();
}

// {"template", "context", "env"}, as in cases/jinja; "env_full" wins over "env".
Result<std::string> render_row(const std::string& line, int64_t today_unix_s) {
  PAGODA_TRY_STATUS(jinja::check_json_depth(line));
  const Json row = Json::parse(line, nullptr, false);
  if (!row.is_object()) return Error{Code::kInvalidRequest, "a JSON object with template and context is needed"};
  const auto source = row.find("template");
  if (source == row.end() || !source->is_string())
    return Error{Code::kInvalidRequest, "template must be a string", "template"};
  const char* env_key = row.contains("env_full") ? "env_full" : "env";
  PAGODA_TRY(const jinja::Environment environment,
             jinja::environment_from_json(row.contains(env_key) ? row[env_key] : Json::object()));
  PAGODA_TRY(const auto parsed, jinja::Template::parse(*source->get_ptr<const Json::string_t*>(), environment));
  PAGODA_TRY(const jinja::Value context, jinja::to_value(row.contains("context") ? row["context"] : Json::object()));
  if (!context.is_dict()) return Error{Code::kInvalidRequest, "context must be an object", "context"};
  PAGODA_TRY(const jinja::Rendered rendered, parsed->render(context, today_unix_s));
  return rendered.text();
}

void print_line(const Result<std::string>& text) {
  const Json out = text.ok() ? Json{{"text", text.value()}} : Json{{"error", text.error().message}};
  // ASCII: some readers take characters such as U+0085 for the end of a line.
  fmt::print("{}\n", out.dump(-1, ' ', true, Json::error_handler_t::replace));
}

// "2026-01-15" -> seconds; today for "".
Result<int64_t> seconds_of(const std::string& date) {
  if (date.empty())
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  std::tm parts{};
  const char* end = strptime(date.c_str(), "%Y-%m-%d", &parts);
  if (end == nullptr || *end != '\0')
    return Error{Code::kInvalidRequest, fmt::format("--date {}: a day like 2026-01-15 is needed", date), "date"};
  return static_cast<int64_t>(timegm(&parts));
}

struct Flags {
  std::string model;
  std::string date;
  bool jsonl = false;
};

int run_template(const Flags& flags) {
  const Result<int64_t> today = seconds_of(flags.date);
  if (!today.ok()) {
    fail("template", today.error());
    return kUsage;
  }
  if (flags.model.empty() && !flags.jsonl) {
    fmt::print(stderr, "pagoda template: name a model or a .jinja file, or give --jsonl\n");
    return kUsage;
  }
  Source source;
  if (!flags.model.empty()) {
    Result<Source> opened = open_source(flags.model);
    if (!opened.ok()) return fail("template", opened.error());
    source = std::move(opened).take();
  }
  if (flags.jsonl) {
    for (std::string line; std::getline(std::cin, line);)
      print_line(source.parsed ? render_conversation(source, line, today.value()) : render_row(line, today.value()));
    return kDone;
  }
  const std::string all(std::istreambuf_iterator<char>(std::cin), {});
  const Result<std::string> text = render_conversation(source, all, today.value());
  if (!text.ok()) return fail("template", text.error());
  fmt::print("{}", text.value());
  return kDone;
}

}  // namespace

void add_template(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("template", "Render a chat template with the variables on standard input");
  auto flags = std::make_shared<Flags>();
  verb->add_option("MODEL", flags->model, "A model (its chat template is used) or a .jinja file");
  verb->add_option("--date", flags->date, "The day that strftime_now sees, like 2026-01-15 (today)");
  verb->add_flag(
      "--jsonl", flags->jsonl,
      "One JSON object a line in, one {\"text\"} or {\"error\"} a line out; without MODEL each line also holds "
      "its template and env");
  verb->footer(
      "Variables are rendered as given: nothing is repaired, as the chat endpoint would.\n"
      "Examples:\n"
      "  echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' | pagoda template smollm2:135m\n"
      "  echo '{\"template\":\"{{ 1 + 1 }}\",\"context\":{},\"env\":{}}' | pagoda template --jsonl");
  verb->callback([&invocation, flags] { invocation.run = [flags] { return run_template(*flags); }; });
}

}  // namespace pagoda::apps
