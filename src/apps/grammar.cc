#include "grammar/grammar.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>

#include "apps/exit_code.h"
#include "apps/json_lines.h"
#include "apps/loaded_model.h"
#include "apps/verbs.h"

namespace pagoda::apps {
namespace {

struct GrammarFlags {
  std::optional<std::string> schema, gbnf, regex, tokenizer;
  bool compact = false;
  bool tidy = false;
  bool lines = false;
};

Result<grammar::Source> read_source(const GrammarFlags& flags) {
  grammar::Source source;
  if (flags.regex) {
    source.kind = grammar::Source::Kind::kRegex;
    source.text = *flags.regex;
    return source;
  }
  source.kind = flags.schema ? grammar::Source::Kind::kJsonSchema : grammar::Source::Kind::kGbnf;
  if (flags.compact) source.layout.blanks_max = 0;
  source.layout.tidy = flags.tidy;
  const std::string& name = flags.schema ? *flags.schema : *flags.gbnf;
  std::ifstream file(name, std::ios::binary);
  if (!file) return Error{Code::kNotFound, fmt::format("cannot read {}", name)};
  source.text.assign(std::istreambuf_iterator<char>(file), {});
  return source;
}

/// Answers for one grammar, byte by byte or token by token.
struct Checker {
  std::unique_ptr<grammar::Automaton> automaton;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::shared_ptr<grammar::Grammar> grammar;

  Result<bool> accepts(const std::string& text) { return grammar ? accepts_tokens(text) : accepts_bytes(text); }

 private:
  static Error exhausted() { return {Code::kTooLarge, "the grammar's automaton outgrew its budget on this text"}; }

  Result<bool> accepts_bytes(const std::string& text) {
    grammar::StateId state = automaton->start();
    for (const char c : text) state = automaton->step(state, static_cast<uint8_t>(c));
    if (automaton->exhausted()) return exhausted();
    return state >= 0 && automaton->accepting(state);
  }

  Result<bool> accepts_tokens(const std::string& text) {
    grammar::StateId state = grammar->start();
    size_t at = 0;
    for (const TokenId id : tokenizer->encode(text, {})) {
      std::string bytes = tokenizer->token_bytes(id);
      const bool dummy = at == 0 && tokenizer->strips_first_blank() && bytes.starts_with(' ') && !text.starts_with(' ');
      if (dummy) bytes.erase(0, 1);
      if (text.compare(at, bytes.size(), bytes) != 0)
        return Error{Code::kUnsupported, "the vocabulary cannot spell this text"};
      at += bytes.size();
      const auto mask = grammar->mask(state);
      if (!mask) return exhausted();
      const grammar::StateId next = dummy ? grammar->advance_bytes(state, bytes) : grammar->advance(state, id);
      if (!dummy && (next >= 0) != mask->allows(id))
        return Error{Code::kInternal, fmt::format("the mask and the automaton disagree on token {}", id)};
      if (next < 0) return false;
      state = next;
    }
    if (at != text.size()) return Error{Code::kUnsupported, "the vocabulary cannot spell this text"};
    return grammar->accepting(state);
  }
};

Result<Checker> make_checker(const GrammarFlags& flags) {
  PAGODA_TRY(const grammar::Source source, read_source(flags));
  Checker out;
  if (!flags.tokenizer) {
    PAGODA_TRY(out.automaton, grammar::compile(source, {}, /*empty_allowed=*/true));
    return out;
  }
  PAGODA_TRY(LoadedModel model, open_model(*flags.tokenizer));
  out.tokenizer = std::move(model.tokenizer);
  PAGODA_TRY(out.grammar,
             grammar::Grammar::compile(source, std::make_shared<const grammar::Vocabulary>(*out.tokenizer), {}, {}));
  return out;
}

int run_grammar(const GrammarFlags& flags) {
  if (int{flags.schema.has_value()} + int{flags.gbnf.has_value()} + int{flags.regex.has_value()} != 1) {
    fmt::print(stderr, "pagoda grammar: give one of --schema, --gbnf and --regex\n");
    return kUsage;
  }
  auto checker = make_checker(flags);
  if (!checker.ok()) {
    const nlohmann::json reason = {{"error", checker.error().message}, {"path", checker.error().param}};
    fmt::print(stderr, "{}\n", reason.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return kFailed;
  }
  if (!flags.lines) {
    fmt::print("the grammar is sound\n");
    return kDone;
  }
  return run_json_lines([&checker](const nlohmann::json& line) -> Result<nlohmann::json> {
    if (!line.is_string()) return Error{Code::kInvalidRequest, "a line must be a JSON string"};
    PAGODA_TRY(const bool accept, checker.value().accepts(line.get_ref<const std::string&>()));
    return nlohmann::json{{"accept", accept}};
  });
}

}  // namespace

void add_grammar(CLI::App& app, Invocation& invocation) {
  CLI::App* verb =
      app.add_subcommand("grammar", "Check texts against a JSON Schema, a GBNF grammar or a regular expression");
  auto flags = std::make_shared<GrammarFlags>();
  verb->add_option("--schema", flags->schema, "a file with a JSON Schema");
  verb->add_option("--gbnf", flags->gbnf, "a file with a grammar in llama.cpp's notation");
  verb->add_option("--regex", flags->regex, "a regular expression that the whole text must match");
  verb->add_option("--tokenizer", flags->tokenizer, "a model: walk token by token through the masks, not byte by byte");
  verb->add_flag("--compact", flags->compact, "with --schema: no white space between the parts of the JSON text");
  verb->add_flag("--tidy", flags->tidy, "with --schema: only texts laid out as the server lets a model write them");
  verb->add_flag("--jsonl", flags->lines,
                 "read one JSON string a line from standard input, print {\"accept\": true or false} for each");
  verb->footer(
      "Exit: 0 done, 1 the grammar is refused ({\"error\", \"path\"} on standard error), 2 usage\n"
      "Examples:\n  echo '\"2026-01-15\"' | pagoda grammar --regex '[0-9]{4}-[0-9]{2}-[0-9]{2}' --jsonl\n"
      "  pagoda grammar --schema person.json --tokenizer smollm2:135m --jsonl < texts.jsonl");
  verb->callback([&invocation, flags] { invocation.run = [flags] { return run_grammar(*flags); }; });
}

}  // namespace pagoda::apps
