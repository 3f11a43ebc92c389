#include "api/receipt.h"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <array>
#include <cstdlib>
#include <limits>

#include "api/openai_fields.h"

namespace pagoda::api {
namespace {

constexpr int32_t kFormat = 1;

std::string hex(const std::array<unsigned char, SHA256_DIGEST_LENGTH>& digest) {
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_of(const unsigned char* bytes, size_t count) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(bytes, count, digest.data());
  return hex(digest);
}

/// As few digits as give this float again: requests and people say 0.7, not 0.699999988079071.
double shortest(float value) {
  const double decimal = std::strtod(fmt::format("{}", value).c_str(), nullptr);
  return static_cast<float>(decimal) == value ? decimal : static_cast<double>(value);
}

void add_ids(Json& json, const std::optional<std::vector<TokenId>>& ids) {
  if (ids) json["token_ids"] = *ids;
}

Result<std::string> read_digest(const JsonField& field) {
  PAGODA_TRY(std::string text, field.string());
  if (text.size() != 2 * SHA256_DIGEST_LENGTH || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return field.error("a SHA-256 in lower-case hexadecimal is required");
  return text;
}

/// "tokens", "sha256" and "token_ids" of a prompt or a choice.
template <class Entry>
Status read_tokens(const JsonField& field, int32_t vocab_size, Entry& entry) {
  PAGODA_TRY_STATUS(field.object());
  PAGODA_TRY(entry.tokens, field.get("tokens").integer(0, std::numeric_limits<int32_t>::max()));
  PAGODA_TRY(entry.sha256, read_digest(field.get("sha256")));
  if (!field.get("token_ids").present()) return ok_status();
  PAGODA_TRY(entry.ids, field.get("token_ids").integers(0, vocab_size - 1, kReceiptIdsMax));
  if (std::ssize(*entry.ids) != entry.tokens)
    return field.get("tokens").error(fmt::format("token_ids beside it are {}", entry.ids->size()));
  return ok_status();
}

Status read_model(const JsonField& model, Receipt& receipt) {
  PAGODA_TRY(receipt.model, model.get("name").string());
  PAGODA_TRY(receipt.model_sha256, read_digest(model.get("sha256")));
  PAGODA_TRY(receipt.kv_k, model.get("kv_k").string());
  PAGODA_TRY(receipt.kv_v, model.get("kv_v").string());
  PAGODA_TRY(const int64_t length, model.get("max_model_len").integer(1, 1 << 24));
  receipt.max_model_len = static_cast<int32_t>(length);
  if (!model.get("chat_template_sha256").present()) return ok_status();
  PAGODA_TRY(receipt.chat_template_sha256, read_digest(model.get("chat_template_sha256")));
  return ok_status();
}

Status read_lists(const JsonField& root, const ModelFacts& facts, Receipt& receipt) {
  const JsonField prompts = root.get("prompts"), choices = root.get("choices");
  PAGODA_TRY_STATUS(prompts.array(kPromptsMax));
  for (size_t i = 0; i < prompts.size(); ++i) {
    ReceiptPrompt& prompt = receipt.prompts.emplace_back();
    PAGODA_TRY_STATUS(read_tokens(prompts.at(i), facts.vocab_size, prompt));
    PAGODA_TRY(const int64_t most, prompts.at(i).get("max_tokens").integer(0, receipt.max_model_len));
    prompt.max_tokens = static_cast<int32_t>(most);
  }
  PAGODA_TRY_STATUS(choices.array(kSequencesMax));
  for (size_t i = 0; i < choices.size(); ++i) {
    ReceiptChoice& choice = receipt.choices.emplace_back();
    PAGODA_TRY_STATUS(read_tokens(choices.at(i), facts.vocab_size, choice));
    PAGODA_TRY(choice.ended_by, choices.at(i).get("ended_by").string());
  }
  const size_t wanted = receipt.prompts.size() * static_cast<size_t>(receipt.generation.n);
  if (wanted == 0 || receipt.choices.size() != wanted)
    return choices.error(fmt::format("{} are required for its prompts and n", wanted));
  return ok_status();
}

}  // namespace

std::string digest_of_tokens(std::span<const TokenId> ids) {
  std::vector<unsigned char> bytes;
  bytes.reserve(4 * ids.size());
  for (const TokenId id : ids)
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<unsigned char>(static_cast<uint32_t>(id) >> shift));
  return sha256_of(bytes.data(), bytes.size());
}

std::string digest_of_text(std::string_view text) {
  return sha256_of(reinterpret_cast<const unsigned char*>(text.data()), text.size());
}

const char* name_of(scheduler::FinishReason finish) {
  switch (finish) {
    case scheduler::FinishReason::kStop:
      return "stop";
    case scheduler::FinishReason::kLength:
      return "length";
    case scheduler::FinishReason::kCancelled:
      return "abort";
    case scheduler::FinishReason::kError:
      return "error";
  }
  return "error";
}

ReceiptPrompt receipt_prompt(const std::vector<TokenId>& ids, int32_t max_tokens) {
  ReceiptPrompt prompt{.tokens = std::ssize(ids), .sha256 = digest_of_tokens(ids), .max_tokens = max_tokens};
  if (ids.size() <= kReceiptIdsMax) prompt.ids = ids;
  return prompt;
}

ReceiptChoice receipt_choice(const std::vector<TokenId>& ids, scheduler::FinishReason finish) {
  ReceiptChoice choice{.tokens = std::ssize(ids), .sha256 = digest_of_tokens(ids), .ended_by = name_of(finish)};
  if (ids.size() <= kReceiptIdsMax) choice.ids = ids;
  return choice;
}

/// The samplers beyond OpenAI's, those that are on: a receipt without them reads as before they were.
static void add_extra_samplers(const sampling::SamplingParams& p, Json& json) {
  const sampling::SamplingParams off;
  const auto add = [&](const char* name, float value, float fallback) {
    if (value != fallback) json[name] = shortest(value);
  };
  add("typical_p", p.typical_p, off.typical_p);
  if (p.top_n_sigma > 0.f) json["top_n_sigma"] = shortest(p.top_n_sigma);
  add("xtc_probability", p.xtc_probability, off.xtc_probability);
  add("xtc_threshold", p.xtc_threshold, off.xtc_threshold);
  add("dynatemp_range", p.dynatemp_range, off.dynatemp_range);
  add("dynatemp_exponent", p.dynatemp_exponent, off.dynatemp_exponent);
  if (p.no_repeat_ngram_size > 0) json["no_repeat_ngram_size"] = p.no_repeat_ngram_size;
  if (p.repeat_last_n >= 0) json["repeat_last_n"] = p.repeat_last_n;
  if (!p.allowed_token_ids.empty()) json["allowed_token_ids"] = p.allowed_token_ids;
}

Json sampling_json(const GenerationRequest& generation) {
  const sampling::SamplingParams& p = generation.sampling;
  Json bias = Json::object();
  for (const auto& [id, value] : p.logit_bias) bias[std::to_string(id)] = shortest(value);
  Json json;
  json["seed"] = static_cast<int64_t>(p.seed);
  json["n"] = generation.n;
  json["temperature"] = shortest(p.temperature);
  json["top_k"] = p.top_k;
  json["top_p"] = shortest(p.top_p);
  json["min_p"] = shortest(p.min_p);
  json["repetition_penalty"] = shortest(p.repetition_penalty);
  json["presence_penalty"] = shortest(p.presence_penalty);
  json["frequency_penalty"] = shortest(p.frequency_penalty);
  json["logit_bias"] = std::move(bias);
  json["min_tokens"] = p.min_tokens;
  json["stop"] = generation.stop;
  json["stop_token_ids"] = generation.stop_token_ids;
  json["ignore_eos"] = generation.ignore_eos;
  json["include_stop_str_in_output"] = generation.include_stop_str_in_output;
  json["skip_special_tokens"] = generation.skip_special_tokens;
  add_extra_samplers(p, json);
  if (generation.beam.width > 0) {
    json["use_beam_search"] = true;
    json["beam_width"] = generation.beam.width;
    json["length_penalty"] = shortest(generation.beam.length_penalty);
    json["early_stopping"] = generation.beam.early_stopping;
  }
  return json;
}

Json receipt_json(const ReceiptSource& source, const GenerationRequest& generation, bool chat, bool echo,
                  const std::vector<ReceiptPrompt>& prompts, const std::vector<ReceiptChoice>& choices) {
  Json json;
  json["format"] = kFormat;
  json["build"] = source.build;
  Json model;
  model["name"] = source.model;
  model["sha256"] = source.model_sha256();
  model["kv_k"] = source.kv_k;
  model["kv_v"] = source.kv_v;
  model["max_model_len"] = source.max_model_len;
  model["chat_template_sha256"] = chat ? Json(digest_of_text(source.chat_template)) : Json(nullptr);
  json["model"] = std::move(model);
  json["sampling"] = sampling_json(generation);
  json["echo"] = echo;
  json["prompts"] = Json::array();
  for (const ReceiptPrompt& prompt : prompts) {
    Json one{{"tokens", prompt.tokens}, {"sha256", prompt.sha256}, {"max_tokens", prompt.max_tokens}};
    add_ids(one, prompt.ids);
    json["prompts"].push_back(std::move(one));
  }
  json["choices"] = Json::array();
  for (const ReceiptChoice& choice : choices) {
    Json one{{"tokens", choice.tokens}, {"sha256", choice.sha256}, {"ended_by", choice.ended_by}};
    add_ids(one, choice.ids);
    json["choices"].push_back(std::move(one));
  }
  return json;
}

Result<Receipt> read_receipt(const JsonField& root, const ModelFacts& facts) {
  PAGODA_TRY_STATUS(root.object());
  PAGODA_TRY(const int64_t format, root.get("format").integer(1, std::numeric_limits<int32_t>::max()));
  if (format != kFormat)
    return root.get("format").error(fmt::format("this build reads receipts of format {}", kFormat));
  Receipt receipt;
  PAGODA_TRY(receipt.build, root.get("build").string());
  PAGODA_TRY_STATUS(read_model(root.get("model"), receipt));
  PAGODA_TRY(receipt.echo, root.get("echo").boolean());
  const JsonField sampling = root.get("sampling");
  PAGODA_TRY_STATUS(sampling.object());
  // A field that is missing would be taken for its default: then the receipt is none.
  GenerationRequest like;
  like.beam.width = sampling.get("use_beam_search").is_true() ? 1 : 0;
  const Json whole = sampling_json(like);
  for (const auto& item : whole.items())
    if (!sampling.get(item.key()).present()) return sampling.get(item.key()).error("it is required in a receipt");
  ModelFacts lengths = facts;
  lengths.max_model_len = receipt.max_model_len;
  PAGODA_TRY(receipt.generation, read_generation(sampling, lengths));
  if (receipt.generation.structure) return sampling.error("it names a grammar: such answers have no receipts");
  PAGODA_TRY_STATUS(finish_generation(sampling, receipt.generation, lengths));
  PAGODA_TRY_STATUS(read_lists(root, facts, receipt));
  return receipt;
}

}  // namespace pagoda::api
