#include "api/choice_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/utf8.h"

namespace pagoda::api {
namespace {

constexpr double kLogprobMin = -9999.;

void keep_numbers(const Delta& delta, Delta& all) {
  all.choice = delta.choice;
  all.prompt_tokens = std::max(all.prompt_tokens, delta.prompt_tokens);
  all.completion_tokens = std::max(all.completion_tokens, delta.completion_tokens);
  all.cached_tokens = std::max(all.cached_tokens, delta.cached_tokens);
  all.from_tiers = delta.from_tiers;
  all.cache_exit_at = delta.cache_exit_at;
  all.cache_exit = delta.cache_exit;
  if (!delta.finish) return;
  all.finish = delta.finish;
  all.stop_string = delta.stop_string;
  all.stop_token = delta.stop_token;
  all.error = delta.error;
}

void keep_words(Delta delta, Delta& all) {
  all.tokens += delta.tokens;
  all.text += delta.text;
  all.reasoning += delta.reasoning;
  for (dialog::CallDelta& call : delta.calls) {
    if (call.begins) {
      all.calls.push_back(std::move(call));
    } else {
      all.calls.back().arguments += call.arguments;
    }
  }
  std::move(delta.sampled.begin(), delta.sampled.end(), std::back_inserter(all.sampled));
}

}  // namespace

std::string TokenTexts::text(TokenId id) const {
  return as_ids_ ? fmt::format("token:{}", id) : replace_invalid_utf8(tokenizer_.token_bytes(id));
}

double exact(float logprob) { return std::isnan(logprob) ? kLogprobMin : std::max<double>(logprob, kLogprobMin); }

std::string sse_event(const std::string& body) { return "data: " + body + "\n\n"; }
std::string sse_event(std::string_view name, const std::string& body) {
  return fmt::format("event: {}\ndata: {}\n\n", name, body);
}

ChoiceWriter::ChoiceWriter(ResponseFacts facts, const text::Tokenizer& tokenizer)
    : facts_(std::move(facts)),
      texts_(tokenizer, facts_.generation.return_tokens_as_token_ids),
      choices_(facts_.prompts.size() * static_cast<size_t>(facts_.generation.n)),
      unfinished_(choices_.size()) {}

/// Turns the delta's text into reasoning, content and calls.
void ChoiceWriter::take_apart(Delta& delta, Choice& choice) {
  if (!facts_.reading.active()) return;
  dialog::Output out;
  if (choice.parser == nullptr) choice.parser = facts_.reading.make_parser(out);
  choice.parser->push(delta.text, out);
  if (delta.finish) choice.parser->finish(out);
  delta.text = std::move(out.content);
  if (facts_.include_reasoning) delta.reasoning = std::move(out.reasoning);
  delta.calls = std::move(out.calls);
  for (dialog::CallDelta& call : delta.calls)
    if (call.begins && call.id.empty()) call.id = call_id(facts_.reading);
  choice.calls = choice.parser->calls();
}

std::string ChoiceWriter::add(std::vector<Delta> deltas) {
  std::string bytes;
  for (Delta& delta : deltas) {
    Choice& choice = choices_[static_cast<size_t>(delta.choice)];
    take_apart(delta, choice);
    if (delta.finish) --unfinished_;
    choice.all.ids.insert(choice.all.ids.end(), delta.ids.begin(), delta.ids.end());
    keep_numbers(delta, choice.all);
    std::move(delta.prompt_scores.begin(), delta.prompt_scores.end(), std::back_inserter(choice.all.prompt_scores));
    if (facts_.generation.stream) {
      bytes += frames(delta, choice);
      choice.started = true;
    } else {
      keep_words(std::move(delta), choice.all);
    }
  }
  return bytes;
}

const std::vector<engine::PromptScore>& ChoiceWriter::scores_of(int32_t choice) const {
  return choices_[prompt_index(choice) * static_cast<size_t>(facts_.generation.n)].all.prompt_scores;
}

std::string ChoiceWriter::stop_string(const Delta& delta) const {
  const auto& stops = facts_.generation.stop;
  return std::find(stops.begin(), stops.end(), delta.stop_string) == stops.end() ? std::string() : delta.stop_string;
}

ChoiceWriter::Totals ChoiceWriter::totals() const {
  Totals totals;
  for (const PromptEcho& prompt : facts_.prompts) totals.prompt += std::ssize(prompt.ids);
  for (const Choice& choice : choices_) totals.completion += choice.all.completion_tokens;
  for (size_t c = 0; c < choices_.size(); c += static_cast<size_t>(facts_.generation.n))
    totals.cached += choices_[c].all.cached_tokens;
  return totals;
}

}  // namespace pagoda::api
