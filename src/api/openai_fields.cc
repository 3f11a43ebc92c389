#include "api/openai_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "api/sampler_fields.h"
#include "api/structured_fields.h"
#include "scheduler/admission.h"

namespace pagoda::api {
namespace {

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

Result<std::vector<std::pair<TokenId, float>>> read_logit_bias(const JsonField& bias, int32_t vocab_size) {
  std::vector<std::pair<TokenId, float>> pairs;
  if (!bias.present()) return pairs;
  PAGODA_TRY_STATUS(bias.object());
  for (const auto& item : bias.json().items()) {
    const std::string& key = item.key();
    int64_t id = -1;
    if (!key.empty() && key.size() <= 10 &&
        std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      id = std::stoll(key);
    }
    if (id < 0 || id >= vocab_size) {
      const std::string shown = key.size() > 60 ? fmt::format("a key of {} bytes", key.size()) : "\"" + key + "\"";
      return Error{Code::kInvalidRequest,
                   fmt::format("logit_bias names the token {}, an id from 0 to {} is required", shown, vocab_size - 1),
                   "logit_bias"};
    }
    PAGODA_TRY(const double value, bias.get(key).number(-100, 100));
    pairs.emplace_back(static_cast<TokenId>(id), static_cast<float>(value));
  }
  return pairs;
}

Status read_sampling(const JsonField& root, const ModelFacts& facts, GenerationRequest& request) {
  sampling::SamplingParams& params = request.sampling;
  PAGODA_TRY(const double temperature, root.get("temperature").number_or(1, 0, 2));
  PAGODA_TRY(const double top_p, root.get("top_p").number_or(1, 0, 1));
  PAGODA_TRY(const double min_p, root.get("min_p").number_or(0, 0, 1));
  PAGODA_TRY(const double repetition, root.get("repetition_penalty").number_or(1, 0.01, 10));
  PAGODA_TRY(const double presence, root.get("presence_penalty").number_or(0, -2, 2));
  PAGODA_TRY(const double frequency, root.get("frequency_penalty").number_or(0, -2, 2));
  PAGODA_TRY(const int64_t top_k, root.get("top_k").integer_or(0, -1, kInt32Max));
  PAGODA_TRY(params.logit_bias, read_logit_bias(root.get("logit_bias"), facts.vocab_size));
  PAGODA_TRY(const int64_t seed,
             root.get("seed").integer_or(0, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
  PAGODA_TRY_STATUS(read_extra_samplers(root, facts, -1, request));
  params.temperature = static_cast<float>(temperature);
  params.top_p = static_cast<float>(top_p);
  params.min_p = static_cast<float>(min_p);
  params.repetition_penalty = static_cast<float>(repetition);
  params.presence_penalty = static_cast<float>(presence);
  params.frequency_penalty = static_cast<float>(frequency);
  params.top_k = static_cast<int32_t>(std::max<int64_t>(top_k, 0));
  params.seed = static_cast<uint64_t>(seed);
  request.seeded = root.get("seed").present();
  return ok_status();
}

Status read_flags(const JsonField& root, GenerationRequest& request) {
  PAGODA_TRY(request.ignore_eos, root.get("ignore_eos").boolean_or(false));
  PAGODA_TRY(request.include_stop_str_in_output, root.get("include_stop_str_in_output").boolean_or(false));
  PAGODA_TRY(request.skip_special_tokens, root.get("skip_special_tokens").boolean_or(true));
  PAGODA_TRY(request.stream, root.get("stream").boolean_or(false));
  PAGODA_TRY(request.receipt, root.get("receipt").boolean_or(true));
  PAGODA_TRY(request.return_token_ids, root.get("return_token_ids").boolean_or(false));
  PAGODA_TRY(request.return_tokens_as_token_ids, root.get("return_tokens_as_token_ids").boolean_or(false));
  const JsonField options = root.get("stream_options");
  if (options.present()) {
    PAGODA_TRY_STATUS(options.object());
    PAGODA_TRY(request.include_usage, options.get("include_usage").boolean_or(false));
    PAGODA_TRY(request.continuous_usage_stats, options.get("continuous_usage_stats").boolean_or(false));
  }
  return ok_status();
}

/// Something is asked for: not absent, null, false, "", [] or {}.
bool asks(const JsonField& field) {
  if (!field.present()) return false;
  const Json& value = field.json();
  if (value.is_boolean()) return field.is_true();
  if (value.is_string() || value.is_structured()) return value.is_string() ? value != "" : !value.empty();
  return true;
}

/// vLLM's fields; the width is `beam_width`, else `best_of`, else n. What a search cannot honour is refused: it neither
/// draws nor changes logits.
Result<sampling::BeamParams> read_beam(const JsonField& root, int64_t n) {
  sampling::BeamParams beam;
  PAGODA_TRY(const bool wanted, root.get("use_beam_search").boolean_or(false));
  if (!wanted) {
    for (const char* name : {"beam_width", "length_penalty", "early_stopping"})
      if (asks(root.get(name)) && !(std::string_view(name) == "length_penalty" && root.get(name).json() == 1))
        return root.get(name).error("it requires use_beam_search to be true");
    return beam;
  }
  const JsonField width = root.get("beam_width").present() ? root.get("beam_width") : root.get("best_of");
  PAGODA_TRY(const int64_t beams, width.integer_or(n, n, scheduler::kBeamWidthMax));
  if (beams > scheduler::kBeamWidthMax)
    return root.get("n").error(fmt::format("a beam search keeps at most {} texts", scheduler::kBeamWidthMax));
  PAGODA_TRY(const double penalty, root.get("length_penalty").number_or(1, -5, 5));
  PAGODA_TRY(beam.early_stopping, root.get("early_stopping").boolean_or(false));
  beam.width = static_cast<int32_t>(beams);
  beam.length_penalty = static_cast<float>(penalty);
  for (const char* name : {"stop", "logit_bias", "bad_words", "allowed_token_ids"})
    if (asks(root.get(name))) return root.get(name).error("a beam search does not know it");
  for (const auto& [name, none] :
       {std::pair("repetition_penalty", 1.), std::pair("presence_penalty", 0.), std::pair("frequency_penalty", 0.),
        std::pair("min_tokens", 0.), std::pair("no_repeat_ngram_size", 0.), std::pair("dry_multiplier", 0.)})
    if (root.get(name).present() && root.get(name).json() != none)
      return root.get(name).error("a beam search does not know it");
  return beam;
}

/// Absent or null = no salt. An empty one would look like a wish for isolation and give none.
Result<std::string> read_cache_salt(const JsonField& field) {
  if (!field.present()) return std::string();
  PAGODA_TRY(std::string salt, field.string());
  if (salt.empty() || std::ssize(salt) > kCacheSaltBytesMax)
    return field.error(fmt::format("a string of 1 to {} bytes is required", kCacheSaltBytesMax));
  return salt;
}

/// `deadline_ms` or `timeout` (seconds), from arrival to the last token; of both the sooner one. Microseconds, 0 =
/// none.
Result<int64_t> read_deadline(const JsonField& root) {
  const JsonField ms = root.get("deadline_ms"), seconds = root.get("timeout");
  int64_t deadline_us = 0;
  if (ms.present()) {
    PAGODA_TRY(const int64_t value, ms.integer(1, kDeadlineMsMax));
    deadline_us = value * 1000;
  }
  if (seconds.present()) {
    PAGODA_TRY(const double value, seconds.number(0.001, static_cast<double>(kDeadlineMsMax) / 1000));
    const auto timeout_us = static_cast<int64_t>(value * 1e6);
    deadline_us = deadline_us > 0 ? std::min(deadline_us, timeout_us) : timeout_us;
  }
  return deadline_us;
}

Result<std::string> read_user(const JsonField& field) {
  if (!field.present()) return std::string();
  PAGODA_TRY(std::string user, field.string());
  if (std::ssize(user) > kUserBytesMax)
    return field.error(fmt::format("a string of up to {} bytes is required", kUserBytesMax));
  return user;
}

Error unsupported(const JsonField& field) {
  return Error{Code::kInvalidRequest, fmt::format("{} is not supported by this server", field.path()), field.path()};
}

}  // namespace

Result<std::vector<std::string>> read_stops(const JsonField& stop) {
  std::vector<std::string> stops;
  if (!stop.present()) return stops;
  const auto checked = [](const JsonField& one) -> Result<std::string> {
    PAGODA_TRY(std::string text, one.string());
    if (text.empty() || std::ssize(text) > kStopBytesMax) {
      return one.error(fmt::format("a string of 1 to {} bytes is required", kStopBytesMax));
    }
    return text;
  };
  if (stop.is_string()) {
    PAGODA_TRY(std::string text, checked(stop));
    stops.push_back(std::move(text));
    return stops;
  }
  if (!stop.is_array()) return stop.error("a string or an array of strings is required");
  PAGODA_TRY_STATUS(stop.array(kStopsMax));
  for (size_t i = 0; i < stop.size(); ++i) {
    PAGODA_TRY(std::string text, checked(stop.at(i)));
    stops.push_back(std::move(text));
  }
  return stops;
}

Status check_model(const JsonField& root, const ModelFacts& facts) {
  const JsonField model = root.get("model");
  if (!model.present()) return ok_status();
  PAGODA_TRY(const std::string name, model.string());
  if (std::find(facts.names.begin(), facts.names.end(), name) != facts.names.end()) return ok_status();
  Error error = model.error(fmt::format("this server serves \"{}\"", facts.names.front()));
  error.code = Code::kNotFound;
  return error;
}

Result<GenerationRequest> read_generation(const JsonField& root, const ModelFacts& facts) {
  GenerationRequest request;
  PAGODA_TRY_STATUS(read_sampling(root, facts, request));
  PAGODA_TRY_STATUS(read_flags(root, request));
  PAGODA_TRY(const int64_t n, root.get("n").integer_or(1, 1, kChoicesMax));
  request.n = static_cast<int32_t>(n);
  PAGODA_TRY(request.beam, read_beam(root, n));
  PAGODA_TRY(const int64_t best_of, root.get("best_of").integer_or(n, 1, kChoicesMax));
  if (best_of != n && request.beam.width == 0)
    return root.get("best_of").error("it must equal n: choices are not ranked, but for use_beam_search");
  PAGODA_TRY(request.stop, read_stops(root.get("stop")));
  if (root.get("stop_token_ids").present()) {
    PAGODA_TRY(request.stop_token_ids, root.get("stop_token_ids").integers(0, facts.vocab_size - 1, kStopTokensMax));
  }
  if (root.get("prompt_logprobs").present()) {
    PAGODA_TRY(const int64_t top, root.get("prompt_logprobs").integer(0, kLogprobsMax));
    request.prompt_logprobs = static_cast<int32_t>(top);
    if (request.stream) return root.get("prompt_logprobs").error("it cannot be streamed");
  }
  PAGODA_TRY(request.structure, read_structured(root));
  if (request.structure && request.ignore_eos)
    return root.get("ignore_eos").error("it cannot go with a grammar: a complete answer has nothing that follows");
  if (request.structure && request.beam.width > 0)
    return root.get("use_beam_search").error("it cannot go with a grammar: a beam search does not know one");
  PAGODA_TRY(const int64_t priority, root.get("priority").integer_or(0, -kInt32Max, kInt32Max));
  request.priority = static_cast<int32_t>(priority);
  PAGODA_TRY(request.deadline_us, read_deadline(root));
  PAGODA_TRY(request.user, read_user(root.get("user")));
  PAGODA_TRY(request.cache_salt, read_cache_salt(root.get("cache_salt")));
  return request;
}

Status finish_generation(const JsonField& root, GenerationRequest& request, const ModelFacts& facts) {
  const int32_t most = request.max_tokens.value_or(facts.max_model_len);
  PAGODA_TRY(const int64_t min_tokens, root.get("min_tokens").integer_or(0, 0, most));
  request.sampling.min_tokens = static_cast<int32_t>(min_tokens);
  return ok_status();
}

Status refuse_unsupported(const JsonField& root, bool chat) {
  for (const char* name :
       {"prompt_embeds", "logprob_token_ids", "truncate_prompt_tokens", "thinking_token_budget", "repetition_detection",
        "watermarking", "suffix", "kv_transfer_params", "lora_path", "custom_logit_processor"}) {
    if (asks(root.get(name))) return unsupported(root.get(name));
  }
  if (!chat) return ok_status();
  for (const char* name :
       {"echo", "audio", "prediction", "functions", "function_call", "web_search_options", "chat_template"}) {
    if (asks(root.get(name))) return unsupported(root.get(name));
  }
  const JsonField modalities = root.get("modalities");
  for (size_t i = 0; i < modalities.size() && modalities.is_array(); ++i) {
    PAGODA_TRY(const std::string name, modalities.at(i).string());
    if (name != "text") return modalities.at(i).error("only \"text\" is supported by this server");
  }
  return ok_status();
}

}  // namespace pagoda::api
