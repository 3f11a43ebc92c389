#include "api/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "api/random_id.h"
#include "core/utf8.h"
#include "text/detokenizer.h"

namespace pagoda::api {
namespace {

// What a request may make the server hold at once, whatever its client reads.
constexpr int64_t kAnswerTokensMax = 1 << 20;  // n * max_tokens over all prompts: their text
constexpr int64_t kAnswerScoresMax = 1 << 21;  // the same times reported logprobs a token
constexpr int64_t kPromptScoresMax = 1 << 18;  // prompt tokens times reported logprobs

/// How many tokens may follow the prompt, or why none can.
Result<int32_t> answer_tokens(const GenerationRequest& generation, int64_t prompt_tokens, const ModelFacts& facts,
                              const char* field) {
  if (prompt_tokens == 0) {
    return Error{Code::kInvalidRequest, fmt::format("{} is empty: at least 1 token is required", field), field};
  }
  const int64_t wanted_least = generation.max_tokens.value_or(1) == 0 ? 0 : 1;
  const int64_t room = facts.max_model_len - prompt_tokens;
  if (room < wanted_least) {
    return Error{
        Code::kTooLarge,
        fmt::format("{} has {} tokens, this model's maximum context length is {} tokens with at least {} for the "
                    "answer",
                    field, prompt_tokens, facts.max_model_len, wanted_least),
        field};
  }
  if (generation.max_tokens) return static_cast<int32_t>(std::min<int64_t>(*generation.max_tokens, room));
  // Nobody asked for a length: to the context's end, or as far as the KV pool reaches if that is less.
  const int64_t reach = facts.context_limit - prompt_tokens;
  return static_cast<int32_t>(reach >= 1 ? reach : room);
}

Status check_reservation(const std::vector<scheduler::Request>& requests) {
  int64_t tokens = 0, scores = 0, prompt_scores = 0;
  for (const scheduler::Request& request : requests) {
    const int64_t answer = static_cast<int64_t>(std::max(request.n, request.beam.width)) * request.max_tokens;
    tokens += answer;
    scores += answer * (request.sampling.logprobs + 1);
    if (request.prompt_logprobs) prompt_scores += std::ssize(request.prompt) * (*request.prompt_logprobs + 1);
  }
  const auto over = [](const char* what, int64_t value, int64_t limit, const char* field) {
    return Error{Code::kInvalidRequest, fmt::format("{} is {}, limit {}", what, value, limit), field};
  };
  if (tokens > kAnswerTokensMax) return over("n times max_tokens", tokens, kAnswerTokensMax, "max_tokens");
  if (scores > kAnswerScoresMax)
    return over("n times max_tokens times logprobs", scores, kAnswerScoresMax, "max_tokens");
  if (prompt_scores > kPromptScoresMax) {
    return over("prompt tokens times logprobs", prompt_scores, kPromptScoresMax, "logprobs");
  }
  return ok_status();
}

ResponseFacts response_facts(const GenerationRequest& generation, const Backend& backend) {
  ResponseFacts facts;
  facts.id = random_id("");
  facts.model = backend.facts.names.front();
  facts.fingerprint = backend.fingerprint;
  facts.created_unix_s = std::time(nullptr);
  facts.generation = generation;
  // A receipt holds no texts that become ids on the way, and no grammars.
  const bool repeatable =
      generation.bad_words.empty() && !generation.structure && generation.sampling.dry.multiplier == 0.f;
  if (generation.receipt && repeatable) facts.receipts = backend.receipts;
  return facts;
}

PreparedGeneration finish(const GenerationRequest& generation, std::vector<scheduler::Request> requests,
                          const Backend& backend) {
  PreparedGeneration prepared;
  prepared.choices = static_cast<int32_t>(std::ssize(requests)) * generation.n;
  for (const scheduler::Request& request : requests)
    if (backend.metrics != nullptr) backend.metrics->observe_request_params(request.n, request.max_tokens);
  prepared.requests = std::move(requests);
  prepared.scheduler = backend.scheduler;
  prepared.stream = generation.stream;
  prepared.keep_sampled = generation.sampling.logprobs >= 0 || generation.return_token_ids;
  prepared.seed = generation.sampling.seed;
  return prepared;
}

/// Where each token begins in the echoed text, in characters. A BOS that was added is not part of it.
std::vector<int32_t> text_offsets(const std::vector<TokenId>& ids, bool skip_special, bool added_bos,
                                  const text::Tokenizer& tokenizer) {
  text::Detokenizer detokenizer(tokenizer, skip_special);
  std::vector<int32_t> offsets;
  offsets.reserve(ids.size());
  int64_t characters = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    offsets.push_back(static_cast<int32_t>(characters));
    if (i == 0 && added_bos) continue;
    characters += count_code_points(detokenizer.push(ids[i]));
  }
  return offsets;
}

PromptEcho tokenize_prompt(const Prompt& prompt, const CompletionRequest& request, const text::Tokenizer& tokenizer) {
  PromptEcho echo;
  bool added_bos = false;
  const bool skip_special =
      std::holds_alternative<std::vector<TokenId>>(prompt) && request.generation.skip_special_tokens;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    echo.ids =
        tokenizer.encode(*text, {.add_special = request.add_special_tokens, .parse_special = request.parse_special});
    if (request.echo) echo.text = *text;
    const TokenId bos = tokenizer.spec().bos;
    added_bos = !echo.ids.empty() && echo.ids[0] == bos && !text->starts_with(tokenizer.token_bytes(bos));
  } else {
    echo.ids = std::get<std::vector<TokenId>>(prompt);
    if (request.echo) echo.text = tokenizer.decode(echo.ids, skip_special);
  }
  if (request.echo && request.generation.sampling.logprobs >= 0) {
    echo.text_offsets = text_offsets(echo.ids, skip_special, added_bos, tokenizer);
  }
  return echo;
}

/// Ids of every token that contains one of the texts, ascending.
std::vector<TokenId> tokens_with(const std::vector<std::string>& texts, const text::Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < tokenizer.size(); ++id) {
    const std::string bytes = tokenizer.token_bytes(id);
    const bool holds = std::any_of(texts.begin(), texts.end(),
                                   [&](const std::string& text) { return bytes.find(text) != std::string::npos; });
    if (holds) ids.push_back(id);
  }
  return ids;
}

/// A word as the model writes it at a text's start and after a blank.
Status add_bad_word(const std::string& word, const text::Tokenizer& tokenizer,
                    std::vector<std::vector<TokenId>>& sequences) {
  for (const std::string& spelled : {word, " " + word}) {
    std::vector<TokenId> ids = tokenizer.encode(spelled, {.add_special = false, .parse_special = false});
    if (ids.empty())
      return Error{Code::kInvalidRequest, fmt::format("bad_words holds \"{}\", which has no tokens", word),
                   "bad_words"};
    if (std::find(sequences.begin(), sequences.end(), ids) == sequences.end()) sequences.push_back(std::move(ids));
  }
  return ok_status();
}

/// Texts of the sampling parameters become ids; the seed is the request's or the given one.
Status finish_sampling(GenerationRequest& request, const Backend& backend, uint64_t seed) {
  if (!request.seeded) request.sampling.seed = seed;
  for (const std::string& word : request.bad_words)
    PAGODA_TRY_STATUS(add_bad_word(word, *backend.tokenizer, request.sampling.bad_words));
  if (request.sampling.dry.multiplier > 0.f && !request.dry_sequence_breakers.empty())
    request.sampling.dry.breakers = tokens_with(request.dry_sequence_breakers, *backend.tokenizer);
  return ok_status();
}

/// The last bytes of the prompt, enough for any marker.
std::string end_of(const std::vector<text::PromptPart>& parts) {
  constexpr size_t kMarkerBytesMax = 64;
  std::string end;
  for (auto part = parts.rbegin(); part != parts.rend() && end.size() < kMarkerBytesMax; ++part)
    end.insert(0, part->text);
  return end;
}

/// How the answers are to be read; a call that is forced is begun at the prompt's end.
AnswerReading read_answers_of(const ChatRequest& request, const Backend& backend,
                              std::vector<text::PromptPart>& parts) {
  AnswerReading reading;
  if (backend.answer_format == nullptr) return reading;
  const dialog::OutputFormat& format = backend.answer_format->format;
  const std::string end = end_of(parts);
  if (request.generation.structure) {  // plain text; reasoning that the prompt opened is over before it begins
    if (dialog::opens_reasoning(format, end))
      parts.push_back({"\n" + std::string(format.reasoning.close) + "\n\n", true});
    return reading;
  }
  reading.format = backend.answer_format;
  reading.tools = dialog::ToolSet(request.options.tools);
  reading.splits_reasoning = request.split_reasoning;
  reading.begins_reasoning = dialog::opens_reasoning(format, end);
  const std::string_view open = format.calls.open;
  const bool opened = !open.empty() && end.ends_with(open) && !reading.tools.empty();  // functionary's ">>>"
  if (opened) reading.begun = open;
  if (request.tool_choice != ToolChoice::kRequired || reading.tools.empty()) return reading;
  std::string forced = dialog::begin_call(format.calls, request.forced_tool);
  if (opened && forced.starts_with(open)) forced.erase(0, open.size());
  if (reading.begins_reasoning) forced.insert(0, "\n" + std::string(format.reasoning.close) + "\n\n");
  reading.begun += forced;
  parts.push_back({std::move(forced), true});
  return reading;
}

/// Nothing may follow the first call, and its closing tag tells where it ends.
bool one_call_is_enough(const ChatRequest& request, const AnswerReading& reading) {
  if (reading.tools.empty() || reading.format->format.calls.close.empty()) return false;
  return !request.parallel_tool_calls || !request.forced_tool.empty();
}

}  // namespace

scheduler::Request scheduler_request(const GenerationRequest& generation, std::vector<TokenId> prompt,
                                     int32_t max_tokens) {
  scheduler::Request request;
  request.prompt = std::move(prompt);
  request.sampling = generation.sampling;
  request.sampling.min_tokens = std::min(request.sampling.min_tokens, max_tokens);
  request.n = generation.n;
  request.beam = generation.beam;
  request.max_tokens = max_tokens;
  request.stop = generation.stop;
  request.stop_token_ids = generation.stop_token_ids;
  request.ignore_eos = generation.ignore_eos;
  request.include_stop_str_in_output = generation.include_stop_str_in_output;
  request.skip_special_tokens = generation.skip_special_tokens;
  request.prompt_logprobs = generation.prompt_logprobs;
  request.priority = generation.priority;
  request.account = generation.user;
  request.deadline_us = generation.deadline_us;
  request.cache_salt = generation.cache_salt;
  request.grammar = generation.grammar;
  return request;
}

Result<std::vector<text::PromptPart>> render_conversation(const ChatRequest& request, const Backend& backend) {
  if (backend.chat_template == nullptr) {
    return Error{Code::kInvalidRequest,
                 "this model has no chat template: it is a base model, use /v1/completions or start the server with "
                 "--chat-template",
                 "messages"};
  }
  ChatTemplateOptions options = request.options;
  if (options.today_unix_s == 0) options.today_unix_s = std::time(nullptr);
  Result<std::vector<text::PromptPart>> parts = backend.chat_template->render(request.messages, options);
  if (!parts.ok()) {
    Error error = parts.error();
    error.message = "the chat template refused the messages: " + error.message;
    if (error.param.empty()) error.param = "messages";
    return error;
  }
  return parts;
}

Result<std::vector<TokenId>> conversation_ids(const ChatRequest& request, bool add_special, const Backend& backend) {
  PAGODA_TRY(const std::vector<text::PromptPart> parts, render_conversation(request, backend));
  return backend.tokenizer->encode_parts(parts, add_special);
}

Result<PreparedGeneration> prepare_chat(ChatRequest request, const Backend& backend, uint64_t seed,
                                        const WriterFactory& make_writer) {
  if (request.generation.structure && request.tool_choice == ToolChoice::kRequired)
    return Error{Code::kInvalidRequest, "tool_choice begins a call, the answer must look like something else: give one",
                 "tool_choice"};
  PAGODA_TRY_STATUS(finish_sampling(request.generation, backend, seed));
  ResponseFacts facts = response_facts(request.generation, backend);
  // The answer says of what moment its date is: a replay renders the same.
  if (request.options.today_unix_s == 0) request.options.today_unix_s = facts.created_unix_s;
  PAGODA_TRY(std::vector<text::PromptPart> parts, render_conversation(request, backend));
  AnswerReading reading = read_answers_of(request, backend, parts);
  std::vector<TokenId> ids = backend.tokenizer->encode_parts(parts, request.add_special_tokens);
  PAGODA_TRY(const int32_t max_tokens, answer_tokens(request.generation, std::ssize(ids), backend.facts, "messages"));
  facts.include_reasoning = request.include_reasoning;
  facts.prompts.push_back({.ids = ids, .max_tokens = max_tokens});
  std::vector<scheduler::Request> requests;
  requests.push_back(scheduler_request(request.generation, std::move(ids), max_tokens));
  if (reading.active()) requests.back().shown_tokens = reading.format->shown_tokens;
  if (one_call_is_enough(request, reading)) {
    requests.back().stop.emplace_back(reading.format->format.calls.close);
    facts.receipts = nullptr;  // the request's own stop strings do not say where it ends
  }
  facts.reading = std::move(reading);
  PAGODA_TRY_STATUS(check_reservation(requests));
  PreparedGeneration prepared = finish(request.generation, std::move(requests), backend);
  prepared.writer = make_writer(std::move(facts), *backend.tokenizer);
  return prepared;
}

Result<PreparedGeneration> prepare_completion(CompletionRequest request, const Backend& backend, uint64_t seed,
                                              const WriterFactory& make_writer) {
  GenerationRequest& generation = request.generation;
  PAGODA_TRY_STATUS(finish_sampling(generation, backend, seed));
  const bool score_prompt = request.echo && generation.sampling.logprobs >= 0;
  if (score_prompt && generation.stream && generation.n > 1) {
    return Error{Code::kInvalidRequest,
                 fmt::format("n is {}, echo with logprobs can be streamed only with n = 1", generation.n), "n"};
  }
  ResponseFacts facts = response_facts(generation, backend);
  facts.echo = request.echo;
  std::vector<scheduler::Request> requests;
  for (const Prompt& prompt : request.prompts) {
    PromptEcho echo = tokenize_prompt(prompt, request, *backend.tokenizer);
    PAGODA_TRY(const int32_t max_tokens,
               answer_tokens(generation, std::ssize(echo.ids), backend.facts, request.prompt_field));
    requests.push_back(scheduler_request(generation, echo.ids, max_tokens));
    if (score_prompt) {
      requests.back().prompt_logprobs = std::max(generation.sampling.logprobs, generation.prompt_logprobs.value_or(0));
    }
    echo.max_tokens = max_tokens;
    facts.prompts.push_back(std::move(echo));
  }
  PAGODA_TRY_STATUS(check_reservation(requests));
  PreparedGeneration prepared = finish(generation, std::move(requests), backend);
  prepared.writer = make_writer(std::move(facts), *backend.tokenizer);
  return prepared;
}

}  // namespace pagoda::api
