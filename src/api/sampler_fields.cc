#include "api/sampler_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace pagoda::api {
namespace {

constexpr int32_t kWordsMax = 256;
constexpr int32_t kWordBytesMax = 256;
constexpr int64_t kHistoryMax = 1 << 30;

Result<float> read_float(const JsonField& field, double fallback, double low, double high) {
  PAGODA_TRY(const double value, field.number_or(fallback, low, high));
  return static_cast<float>(value);
}

Result<int32_t> read_int(const JsonField& field, int64_t fallback, int64_t low, int64_t high) {
  PAGODA_TRY(const int64_t value, field.integer_or(fallback, low, high));
  return static_cast<int32_t>(value);
}

Result<std::vector<std::string>> read_words(const JsonField& field) {
  std::vector<std::string> words;
  if (!field.present()) return words;
  PAGODA_TRY_STATUS(field.array(kWordsMax));
  for (size_t i = 0; i < field.size(); ++i) {
    PAGODA_TRY(std::string word, field.at(i).string());
    if (word.empty() || std::ssize(word) > kWordBytesMax)
      return field.at(i).error(fmt::format("a string of 1 to {} bytes is required", kWordBytesMax));
    words.push_back(std::move(word));
  }
  return words;
}

Status read_dry(const JsonField& fields, GenerationRequest& request) {
  sampling::DryParams& dry = request.sampling.dry;
  PAGODA_TRY(dry.multiplier, read_float(fields.get("dry_multiplier"), 0, 0, 100));
  PAGODA_TRY(dry.base, read_float(fields.get("dry_base"), 1.75, 1, 100));
  PAGODA_TRY(dry.allowed_length, read_int(fields.get("dry_allowed_length"), 2, 0, kHistoryMax));
  PAGODA_TRY(dry.last_n, read_int(fields.get("dry_penalty_last_n"), -1, -1, kHistoryMax));
  request.dry_sequence_breakers = {"\n", ":", "\"", "*"};
  if (!fields.get("dry_sequence_breakers").present()) return ok_status();
  PAGODA_TRY(request.dry_sequence_breakers, read_words(fields.get("dry_sequence_breakers")));
  return ok_status();
}

/// What would make a token depend on more than seed and position.
Status refuse_stateful(const JsonField& fields) {
  PAGODA_TRY(const int64_t mirostat, fields.get("mirostat").integer_or(0, 0, 2));
  if (mirostat != 0) return fields.get("mirostat").error("it is not supported by this server");
  PAGODA_TRY(const double adaptive, fields.get("adaptive_target").number_or(-1, -1, 1));
  if (adaptive >= 0) return fields.get("adaptive_target").error("it is not supported by this server");
  return ok_status();
}

}  // namespace

Status read_extra_samplers(const JsonField& fields, const ModelFacts& facts, int32_t repeat_last_n_default,
                           GenerationRequest& request) {
  sampling::SamplingParams& params = request.sampling;
  PAGODA_TRY(params.typical_p, read_float(fields.get("typical_p"), 1, 0, 1));
  PAGODA_TRY(params.top_n_sigma, read_float(fields.get("top_n_sigma"), -1, -1, 1000));
  PAGODA_TRY(params.xtc_probability, read_float(fields.get("xtc_probability"), 0, 0, 1));
  PAGODA_TRY(params.xtc_threshold, read_float(fields.get("xtc_threshold"), 0.1, 0, 1));
  PAGODA_TRY(params.dynatemp_range, read_float(fields.get("dynatemp_range"), 0, 0, 10));
  PAGODA_TRY(params.dynatemp_exponent, read_float(fields.get("dynatemp_exponent"), 1, 0.01, 100));
  PAGODA_TRY(params.no_repeat_ngram_size, read_int(fields.get("no_repeat_ngram_size"), 0, 0, kHistoryMax));
  PAGODA_TRY(params.repeat_last_n, read_int(fields.get("repeat_last_n"), repeat_last_n_default, -1, kHistoryMax));
  PAGODA_TRY_STATUS(read_dry(fields, request));
  PAGODA_TRY(request.bad_words, read_words(fields.get("bad_words")));
  const JsonField allowed = fields.get("allowed_token_ids");
  if (allowed.present()) {
    PAGODA_TRY(params.allowed_token_ids, allowed.integers(0, facts.vocab_size - 1, kIdsMax));
    if (params.allowed_token_ids.empty()) return allowed.error("at least 1 id is required");
  }
  return refuse_stateful(fields);
}

}  // namespace pagoda::api
