#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "api/chat_template.h"
#include "api/openai_request.h"
#include "api/openai_response.h"
#include "api/prepare.h"
#include "apps/exit_code.h"
#include "apps/kv_flags.h"
#include "apps/kv_tiers.h"
#include "apps/loaded_model.h"
#include "apps/verbs.h"
#include "engine/block_explain.h"
#include "engine/block_file.h"
#include "engine/block_folder.h"
#include "model/config.h"

namespace pagoda::apps {
namespace {

using Json = nlohmann::ordered_json;

struct CacheFlags {
  std::string folder;
  bool json = false;
  bool delete_bad = false;
  std::string model;
  std::string prompt;
  std::string file;
  bool raw = false;
  std::string salt;
  int32_t max_model_len = 0;
  KvFlags kv{};
};

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

double age_s(int64_t used_ns) { return std::max(0.0, static_cast<double>(now_ns() - used_ns) / 1e9); }

std::string age_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 172800) return fmt::format("{:.0f} h", seconds / 3600);
  return fmt::format("{:.0f} d", seconds / 86400);
}

/// The line of a fingerprint that begins with `fact`, without it.
std::string fact_of(const std::string& about, const std::string& fact) {
  const size_t at = about.rfind(fact + " ", 0) == 0 ? 0 : about.find("\n" + fact + " ");
  if (at == std::string::npos) return "?";
  const size_t begin = about.find(fact, at) + fact.size() + 1;
  return about.substr(begin, about.find('\n', begin) - begin);
}

// --- ls ---

struct SpaceSummary {
  std::string fingerprint, model, kv;
  int64_t blocks = 0, bytes = 0, beginnings = 0;
  int64_t oldest_ns = 0, newest_ns = 0;
};

SpaceSummary summarize_space(const engine::BlockSpace& space) {
  SpaceSummary sum{.fingerprint = space.folder.substr(space.folder.rfind('/') + 1),
                   .model = fact_of(space.about, "model"),
                   .kv = fact_of(space.about, "kv")};
  std::unordered_set<std::string> own;
  for (const engine::StoredBlock& block : space.blocks) own.insert(block.own.substr(0, block.parent.size()));
  for (const engine::StoredBlock& block : space.blocks) {
    ++sum.blocks;
    sum.bytes += block.bytes;
    sum.beginnings += !own.contains(block.parent);
    sum.oldest_ns = sum.blocks == 1 ? block.used_ns : std::min(sum.oldest_ns, block.used_ns);
    sum.newest_ns = std::max(sum.newest_ns, block.used_ns);
  }
  return sum;
}

Json as_json(const SpaceSummary& sum, const std::string& about) {
  Json json{{"fingerprint", sum.fingerprint},
            {"model", sum.model},
            {"kv", sum.kv},
            {"blocks", sum.blocks},
            {"tokens", sum.blocks * kBlockTokens},
            {"bytes", sum.bytes},
            {"beginnings", sum.beginnings},
            {"oldest_s", nullptr},
            {"newest_s", nullptr},
            {"about", about}};
  if (sum.blocks > 0) {
    json["oldest_s"] = age_s(sum.oldest_ns);
    json["newest_s"] = age_s(sum.newest_ns);
  }
  return json;
}

int list_blocks(const CacheFlags& flags) {
  const auto spaces = engine::scan_block_folder(flags.folder);
  if (!spaces.ok()) return fail("cache ls", spaces.error());
  Json all = Json::array();
  int64_t blocks = 0, bytes = 0;
  if (!flags.json)
    fmt::print("{:<16} {:>8} {:>9} {:>6} {:>8} {:>8}  {}\n", "FINGERPRINT", "BLOCKS", "MB", "STARTS", "NEWEST",
               "OLDEST", "MODEL");
  for (const engine::BlockSpace& space : spaces.value()) {
    const SpaceSummary sum = summarize_space(space);
    blocks += sum.blocks;
    bytes += sum.bytes;
    if (flags.json) {
      all.push_back(as_json(sum, space.about));
      continue;
    }
    fmt::print("{:<16} {:>8} {:>9.1f} {:>6} {:>8} {:>8}  {}, kv {}\n", sum.fingerprint, sum.blocks,
               static_cast<double>(sum.bytes) / 1e6, sum.beginnings,
               sum.blocks > 0 ? age_text(age_s(sum.newest_ns)) : "-",
               sum.blocks > 0 ? age_text(age_s(sum.oldest_ns)) : "-", sum.model, sum.kv);
  }
  if (flags.json)
    fmt::print("{}\n", Json{{"folder", flags.folder}, {"blocks", blocks}, {"bytes", bytes}, {"spaces", all}}.dump(2));
  return kDone;
}

// --- fsck ---

int check_blocks(const CacheFlags& flags) {
  const auto spaces = engine::scan_block_folder(flags.folder);
  if (!spaces.ok()) return fail("cache fsck", spaces.error());
  Json bad = Json::array();
  int64_t good = 0, removed = 0, unreachable = 0;
  for (const engine::BlockSpace& space : spaces.value()) {
    const engine::Digest digest = engine::sha256(std::as_bytes(std::span(space.about)));
    const bool own_text = engine::space_folder(flags.folder, digest) == space.folder;
    std::unordered_set<std::string> own;
    for (const engine::StoredBlock& block : space.blocks) own.insert(block.own.substr(0, block.parent.size()));
    for (const engine::StoredBlock& block : space.blocks) {
      // Where the text is lost, a file is still held against itself and its folder's name.
      engine::Digest expected = digest;
      if (!own_text) {
        if (const auto header = engine::inspect_block_file(block.path); header.info)
          expected = header.info->fingerprint;
      }
      const engine::BlockFileCheck check = engine::verify_block_file(block.path, expected);
      const bool in_place = engine::space_folder(flags.folder, expected) == space.folder;
      if (check.fault == engine::BlockFault::kNone && in_place) {
        ++good;
        unreachable += check.info->name.index > 0 && !own.contains(block.parent);
        continue;
      }
      if (check.fault == engine::BlockFault::kAbsent) continue;  // it made room meanwhile
      const char* why = engine::fault_name(in_place ? check.fault : engine::BlockFault::kForeign);
      const bool gone = flags.delete_bad && std::remove(block.path.c_str()) == 0;
      removed += gone;
      bad.push_back({{"file", block.path}, {"why", why}, {"deleted", gone}});
      if (!flags.json) fmt::print("{}: {}{}\n", block.path, why, gone ? ", deleted" : "");
    }
  }
  const int64_t left = std::ssize(bad) - removed;
  if (flags.json)
    fmt::print("{}\n", Json{{"good", good}, {"bad", bad}, {"deleted", removed}, {"unreachable", unreachable}}.dump(2));
  else
    fmt::print("{} good, {} bad, {} deleted, {} unreachable (the block before them is not there)\n", good, bad.size(),
               removed, unreachable);
  return left > 0 ? kFailed : kDone;
}

// --- explain ---

struct Question {
  std::vector<TokenId> prompt;
  std::string salt;
};

Result<std::string> prompt_text(const CacheFlags& flags) {
  if (flags.file.empty() == flags.prompt.empty())
    return Error{Code::kInvalidRequest, "give either PROMPT or --file", "PROMPT"};
  if (flags.file.empty()) return flags.prompt;
  std::ifstream file(flags.file, std::ios::binary);
  if (!file) return Error{Code::kNotFound, fmt::format("cannot read {}", flags.file), "--file"};
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// A request's body as a server takes it, or a text: one user message, or as it stands.
Result<Question> read_question(const CacheFlags& flags, const LoadedModel& model, int32_t vocab_size) {
  PAGODA_TRY(const std::string text, prompt_text(flags));
  const text::Tokenizer& tokenizer = *model.tokenizer;
  const auto spelling = [&](TokenId id) { return tokenizer.valid(id) ? tokenizer.token_bytes(id) : std::string(); };
  std::unique_ptr<api::ChatTemplate> chat_template;
  if (!model.chat_template.empty()) {
    PAGODA_TRY(chat_template, api::ChatTemplate::create(model.chat_template, spelling(tokenizer.spec().bos),
                                                        spelling(tokenizer.spec().eos)));
  }
  api::Backend backend;
  backend.tokenizer = &tokenizer;
  backend.chat_template = chat_template.get();
  backend.facts = {.names = {model.name}, .vocab_size = vocab_size};
  backend.facts.max_model_len = backend.facts.context_limit = INT32_MAX;
  Json body = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_body = body.is_object() && (body.contains("messages") || body.contains("prompt"));
  if (!is_body) {
    if (flags.raw || !chat_template)
      return Question{tokenizer.encode(text, {.add_special = true, .parse_special = true}), flags.salt};
    body = Json{{"messages", Json::array({Json{{"role", "user"}, {"content", text}}})}};
  }
  body.erase("model");
  Question question{.prompt = {}, .salt = flags.salt};
  if (question.salt.empty() && body.contains("cache_salt") && body["cache_salt"].is_string())
    question.salt = body["cache_salt"];
  if (body.contains("messages")) {
    PAGODA_TRY(const api::ChatRequest request, api::parse_chat_request(body.dump(), backend.facts));
    PAGODA_TRY(question.prompt, api::conversation_ids(request, request.add_special_tokens, backend));
    return question;
  }
  PAGODA_TRY(const api::CompletionRequest request, api::parse_completion_request(body.dump(), backend.facts));
  PAGODA_TRY(const api::PreparedGeneration prepared,
             api::prepare_completion(request, backend, 0, api::make_completion_writer));
  question.prompt = prepared.requests.front().prompt;
  return question;
}

std::string spelled(const LoadedModel& model, const std::vector<TokenId>& prompt, int32_t from, int32_t count) {
  std::string text;
  for (int32_t i = std::max(0, from); i < std::min<int32_t>(from + count, static_cast<int32_t>(prompt.size())); ++i)
    text += model.tokenizer->token_bytes(prompt[static_cast<size_t>(i)]);
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

const char* why_text(engine::DiskExit why) {
  switch (why) {
    case engine::DiskExit::kComplete:
      return "everything but the last token, which is computed for its logits";
    case engine::DiskExit::kPartialBlock:
      return "what is left fills no block of 16 tokens";
    case engine::DiskExit::kNewText:
      return "the folder has nothing that goes on like this";
    case engine::DiskExit::kSalt:
      return "it is there under another cache_salt";
    case engine::DiskExit::kOtherModel:
      return "it is there, but of other weights, KV types or numbers";
    case engine::DiskExit::kEvicted:
      return "it was there and made room for others";
    case engine::DiskExit::kDamaged:
      return "its file is damaged (pagoda cache fsck --delete-bad)";
    case engine::DiskExit::kUnreadable:
      return "its file cannot be read";
  }
  return "?";
}

int print_explanation(const CacheFlags& flags, const LoadedModel& model, const engine::KvFingerprint& fingerprint,
                      const Question& question, const engine::DiskExplanation& found) {
  const auto total = static_cast<int32_t>(question.prompt.size());
  if (flags.json) {
    Json json{{"prompt_tokens", total},
              {"disk_tokens", found.tokens},
              {"left_at", found.tokens},
              {"why", engine::exit_name(found.why)},
              {"fingerprint", engine::hex(fingerprint.digest, 8)}};
    if (!found.ours.empty() || !found.theirs.empty())
      json["differs"] = {{"ours", found.ours}, {"theirs", found.theirs}};
    fmt::print("{}\n", json.dump(2));
    return kDone;
  }
  fmt::print("{} of {} prompt tokens would come from the folder.\n", found.tokens, total);
  fmt::print("left at {}: {}: {}\n", found.tokens, engine::exit_name(found.why), why_text(found.why));
  if (found.tokens > 0) fmt::print("  the last it has  {}\n", spelled(model, question.prompt, found.tokens - 8, 8));
  fmt::print("  computed from    {}\n", spelled(model, question.prompt, found.tokens, 8));
  for (const std::string& line : found.ours) fmt::print("  here   {}\n", line);
  for (const std::string& line : found.theirs) fmt::print("  there  {}\n", line);
  return kDone;
}

int explain(const CacheFlags& flags) {
  const auto answer = [&flags]() -> Result<int> {
    PAGODA_TRY(const LoadedModel model, open_model(flags.model));
    PAGODA_TRY(const model::ModelConfig config, model::read_config(*model.file, flags.max_model_len));
    PAGODA_TRY(const Question question, read_question(flags, model, config.vocab));
    const engine::KvFingerprint fingerprint = fingerprint_of(*model.file, config, flags.kv.types());
    PAGODA_TRY(const engine::DiskExplanation found,
               engine::explain_on_disk(flags.folder, fingerprint, question.salt, question.prompt));
    return print_explanation(flags, model, fingerprint, question, found);
  }();
  return answer.ok() ? answer.value() : fail("cache explain", answer.error());
}

void add_common(CLI::App& verb, CacheFlags& flags) {
  verb.add_option("--kv-dir", flags.folder, "The folder that pagoda serve --kv-dir was given")
      ->required()
      ->envname("PAGODA_KV_DIR");
  verb.add_flag("--json", flags.json, "print one JSON object");
}

}  // namespace

void add_cache(CLI::App& app, Invocation& invocation) {
  CLI::App* verb = app.add_subcommand("cache", "Look into a folder of KV blocks (serve --kv-dir)");
  verb->require_subcommand(1);
  const auto flags = std::make_shared<CacheFlags>();
  CLI::App* ls = verb->add_subcommand("ls", "What is there, by model: blocks, bytes, when last used");
  add_common(*ls, *flags);
  ls->callback([&invocation, flags] { invocation.run = [flags] { return list_blocks(*flags); }; });
  CLI::App* fsck = verb->add_subcommand("fsck", "Read and check every block; exit 1 if a bad one is left");
  add_common(*fsck, *flags);
  fsck->add_flag("--delete-bad", flags->delete_bad, "remove what is damaged; nobody needs it");
  fsck->callback([&invocation, flags] { invocation.run = [flags] { return check_blocks(*flags); }; });
  CLI::App* why = verb->add_subcommand("explain", "How far the folder would serve a prompt, and why no further");
  add_common(*why, *flags);
  why->add_option("MODEL", flags->model, "Catalogue name, .gguf file, or a folder that holds one")->required();
  why->add_option("PROMPT", flags->prompt, "One user message, or with --raw the text of a completion");
  why->add_option("--file", flags->file,
                  "Read it from here; a JSON body with messages or prompt is taken as a request");
  why->add_flag("--raw", flags->raw, "No chat template: as /v1/completions");
  why->add_option("--salt", flags->salt, "The request's cache_salt");
  why->add_option("--max-model-len", flags->max_model_len, "As the server was given it")->check(CLI::Range(0, 1 << 24));
  add_kv_flags(*why, flags->kv);
  why->callback([&invocation, flags] { invocation.run = [flags] { return explain(*flags); }; });
  verb->footer(
      "Examples:\n"
      "  pagoda cache ls --kv-dir /var/cache/pagoda\n"
      "  pagoda cache fsck --kv-dir /var/cache/pagoda --delete-bad\n"
      "  pagoda cache explain smollm2:135m --kv-dir /var/cache/pagoda --file request.json");
}

}  // namespace pagoda::apps
