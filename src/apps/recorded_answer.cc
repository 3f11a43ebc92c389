#include "apps/recorded_answer.h"

#include <fmt/format.h>

#include <limits>

namespace pagoda::apps {
namespace {

using api::Json;
using api::JsonField;

constexpr size_t kChoicesMax = 1024;
constexpr size_t kTokensMax = size_t{1} << 20;

/// OpenAI's two shapes: an array of objects, or parallel arrays.
Status add_logprobs(const JsonField& logprobs, RecordedChoice& choice) {
  const bool chat = logprobs.get("content").is_array();
  const JsonField list = chat ? logprobs.get("content") : logprobs.get("token_logprobs");
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonField one = chat ? list.at(i).get("logprob") : list.at(i);
    if (!one.present()) continue;  // nothing predicts a prompt's first token
    PAGODA_TRY(const double value, one.number(-std::numeric_limits<float>::max(), 1));
    choice.logprobs.push_back(value);
  }
  return ok_status();
}

/// What a choice, or one event of it, says: appended to what earlier events said.
Status add_choice(const JsonField& field, RecordedAnswer& answer) {
  PAGODA_TRY_STATUS(field.object());
  PAGODA_TRY(const int64_t index, field.get("index").integer(0, kChoicesMax - 1));
  if (answer.choices.size() <= static_cast<size_t>(index)) answer.choices.resize(static_cast<size_t>(index) + 1);
  RecordedChoice& choice = answer.choices[static_cast<size_t>(index)];
  const JsonField said = field.get("message").present() ? field.get("message") : field.get("delta");
  const JsonField text = said.present() ? said.get("content") : field.get("text");
  if (text.present()) {
    PAGODA_TRY(const std::string piece, text.string());
    choice.text = choice.text.value_or("") + piece;
  }
  for (const char* elsewhere : {"tool_calls", "reasoning_content", "reasoning"})
    choice.calls_tools = choice.calls_tools || said.get(elsewhere).size() > 0 || said.get(elsewhere).is_string();
  if (field.get("finish_reason").present()) {
    PAGODA_TRY(choice.finish_reason, field.get("finish_reason").string());
  }
  if (field.get("token_ids").present()) {
    PAGODA_TRY(const std::vector<int32_t> ids,
               field.get("token_ids").integers(0, std::numeric_limits<int32_t>::max(), kTokensMax));
    if (!choice.token_ids) choice.token_ids.emplace();
    choice.token_ids->insert(choice.token_ids->end(), ids.begin(), ids.end());
  }
  return add_logprobs(field.get("logprobs"), choice);
}

Status add_document(const Json& document, RecordedAnswer& answer) {
  const JsonField root(document);
  PAGODA_TRY_STATUS(root.object());
  if (root.get("error").present()) return root.get("error").error("an answer that failed has nothing to repeat");
  PAGODA_TRY(const std::string object, root.get("object").string());
  answer.chat = object.starts_with("chat.completion");
  if (!answer.chat && object != "text_completion")
    return root.get("object").error("an answer of /v1/chat/completions or /v1/completions is required");
  PAGODA_TRY(answer.created_unix_s, root.get("created").integer(0, std::numeric_limits<int64_t>::max()));
  const JsonField choices = root.get("choices");
  PAGODA_TRY_STATUS(choices.array(kChoicesMax));
  for (size_t i = 0; i < choices.size(); ++i) PAGODA_TRY_STATUS(add_choice(choices.at(i), answer));
  if (root.get("receipt").present()) answer.receipt = root.get("receipt").json();
  return ok_status();
}

Status add_events(std::string_view text, RecordedAnswer& answer) {
  constexpr std::string_view kData = "data:";
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with(kData)) continue;
    line.remove_prefix(kData.size());
    while (line.starts_with(' ')) line.remove_prefix(1);
    if (line == "[DONE]") continue;
    PAGODA_TRY(const Json event, api::parse_json(line));
    PAGODA_TRY_STATUS(add_document(event, answer));
  }
  return ok_status();
}

}  // namespace

Result<RecordedAnswer> read_recorded_answer(std::string_view text) {
  RecordedAnswer answer;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    PAGODA_TRY(const Json document, api::parse_json(text));
    PAGODA_TRY_STATUS(add_document(document, answer));
  } else {
    PAGODA_TRY_STATUS(add_events(text, answer));
  }
  if (answer.choices.empty()) return Error{Code::kInvalidRequest, "there is no answer in it"};
  if (!answer.receipt.is_object())
    return Error{Code::kInvalidRequest,
                 "the answer carries no receipt: it was broken off, or asked for without (\"receipt\": false)",
                 "receipt"};
  return answer;
}

}  // namespace pagoda::apps
