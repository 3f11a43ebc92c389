#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "apps/exit_code.h"
#include "apps/verbs.h"
#include "core/mapped_file.h"
#include "weights/catalogue.h"
#include "weights/gguf_check.h"
#include "weights/gguf_parse.h"
#include "weights/gguf_summary.h"

namespace pagoda::apps {
namespace {

struct Inspected {
  std::string file;
  uint32_t version;
  int64_t bytes;
  weights::GgufSummary summary;
};

Result<Inspected> inspect(const std::string& model) {
  PAGODA_TRY(const std::string path, weights::resolve_model(model));
  PAGODA_TRY(const auto file, weights::GgufFile::open(path));
  PAGODA_TRY_STATUS(weights::check_metadata(*file));
  PAGODA_TRY(weights::GgufSummary summary, weights::summarize(*file));
  return Inspected{file_name(path), file->version(), file->file_bytes(), std::move(summary)};
}

nlohmann::ordered_json or_null(std::optional<int64_t> value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

// Strings come from the file and need not be UTF-8.
void print_json(const nlohmann::ordered_json& object) {
  fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

nlohmann::ordered_json to_json(const Inspected& inspected) {
  const weights::GgufSummary& s = inspected.summary;
  nlohmann::ordered_json types = nlohmann::ordered_json::object();
  for (const auto& [name, use] : s.types)
    types[name] = {{"tensors", use.tensors}, {"parameters", use.parameters}, {"bytes", use.bytes}};
  return {{"file", inspected.file},
          {"gguf_version", inspected.version},
          {"bytes", inspected.bytes},
          {"architecture", s.architecture},
          {"runnable", s.runnable},
          {"not_runnable_reason", s.not_runnable_reason},
          {"name", s.name},
          {"quantization", s.quantization},
          {"parameters", s.parameters},
          {"tensors", s.tensors},
          {"types", types},
          {"context_length", or_null(s.context_tokens)},
          {"layers", or_null(s.layers)},
          {"embedding_length", or_null(s.width)},
          {"feed_forward_length", or_null(s.ffn_width)},
          {"heads", or_null(s.heads)},
          {"kv_heads", or_null(s.kv_heads)},
          {"head_width", or_null(s.head_width)},
          {"kv_bytes_per_token", or_null(s.kv_bytes_per_token)},
          {"vocab", {{"size", or_null(s.vocab_tokens)}, {"model", s.vocab_kind}, {"pre", s.pre_tokenizer}}},
          {"chat_template", s.has_chat_template},
          {"tied_head", s.tied_head}};
}

std::string shown(std::optional<int64_t> value) { return value ? fmt::format("{}", *value) : "not stated"; }

void print_text(const Inspected& inspected) {
  const weights::GgufSummary& s = inspected.summary;
  const auto row = [](std::string_view label, const std::string& value) { fmt::print("{:<16} {}\n", label, value); };
  constexpr double kMega = 1e6;
  row("file", fmt::format("{}, {:.1f} MB, GGUF version {}", weights::printable(inspected.file),
                          static_cast<double>(inspected.bytes) / kMega, inspected.version));
  if (!s.name.empty()) row("name", weights::printable(s.name));
  row("architecture", weights::printable(s.architecture) +
                          (s.runnable ? "" : fmt::format(" (Pagoda cannot run this: {})", s.not_runnable_reason)));
  row("parameters", fmt::format("{:.1f} M in {} tensors", static_cast<double>(s.parameters) / kMega, s.tensors));
  if (!s.quantization.empty()) row("quantization", s.quantization);
  for (const auto& [name, use] : s.types)
    row("  " + name, fmt::format("{} tensors, {:.1f} M parameters, {:.1f} MB", use.tensors,
                                 static_cast<double>(use.parameters) / kMega, static_cast<double>(use.bytes) / kMega));
  row("context", shown(s.context_tokens) + (s.context_tokens ? " tokens" : ""));
  row("layers", shown(s.layers));
  row("width", fmt::format("{}, feed forward {}", shown(s.width), shown(s.ffn_width)));
  row("heads", fmt::format("{} query, {} key/value, {} wide", shown(s.heads), shown(s.kv_heads), shown(s.head_width)));
  row("kv cache", s.kv_bytes_per_token ? fmt::format("{} bytes a token (f16)", *s.kv_bytes_per_token) : "not stated");
  if (s.vocab_tokens)
    row("vocabulary",
        fmt::format("{} tokens, model {}, pre-tokenizer {}", *s.vocab_tokens, weights::printable(s.vocab_kind),
                    s.pre_tokenizer.empty() ? "not stated" : weights::printable(s.pre_tokenizer)));
  else
    row("vocabulary", "none");
  row("chat template", s.has_chat_template ? "yes" : "none");
}

int run_inspect(const std::string& model, bool as_json) {
  const auto inspected = inspect(model);
  if (!inspected.ok()) {
    if (as_json) print_json({{"error", inspected.error().message}});
    return fail("inspect", inspected.error());
  }
  if (as_json)
    print_json(to_json(inspected.value()));
  else
    print_text(inspected.value());
  return kDone;
}

}  // namespace

void add_inspect(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("inspect", "Say what a model file holds, or why it is refused");
  auto model = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false);
  verb->add_option("FILE", *model, "a .gguf file, a folder that holds one, or a catalogue name")->required();
  verb->add_flag("--json", *as_json, "print one JSON object");
  verb->footer(
      "Examples:\n  pagoda inspect smollm2:135m\n  pagoda inspect ./model.gguf --json\nExit: 0 accepted, 1 rejected");
  verb->callback(
      [&invocation, model, as_json] { invocation.run = [model, as_json] { return run_inspect(*model, *as_json); }; });
}

}  // namespace pagoda::apps
