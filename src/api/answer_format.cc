#include "api/answer_format.h"

#include <algorithm>

#include "api/random_id.h"

namespace pagoda::api {

std::shared_ptr<const AnswerFormat> read_answer_format(std::string_view template_source,
                                                       const text::Tokenizer& tokenizer) {
  auto answer = std::make_shared<AnswerFormat>();
  answer->format = dialog::read_format(template_source);
  const std::vector<std::string_view> markers = answer->format.markers();
  auto shown = std::make_shared<std::vector<TokenId>>();
  for (TokenId id = 0; id < tokenizer.size(); ++id) {
    if (!tokenizer.is_control(id) || tokenizer.is_end_of_generation(id)) continue;
    const std::string spelling = tokenizer.token_bytes(id);
    const bool used = !spelling.empty() && std::any_of(markers.begin(), markers.end(), [&](std::string_view marker) {
      return marker.find(spelling) != std::string_view::npos;
    });
    if (used) shown->push_back(id);
  }
  answer->shown_tokens = std::move(shown);
  return answer;
}

bool AnswerReading::active() const {
  if (format == nullptr) return false;
  return !tools.empty() || (splits_reasoning && !format->format.reasoning.open.empty()) ||
         !format->format.noise.empty();
}

std::unique_ptr<dialog::OutputParser> AnswerReading::make_parser(dialog::Output& first) const {
  auto parser = std::make_unique<dialog::OutputParser>(
      format->format, tools,
      dialog::OutputParser::Options{.reasoning = splits_reasoning, .begins_reasoning = begins_reasoning});
  if (!begun.empty()) parser->push(begun, first);
  return parser;
}

std::string call_id(const AnswerReading& reading) {
  if (!reading.format->format.short_call_ids) return random_id("call_");
  return random_id("").substr(0, 9);
}

}  // namespace pagoda::api
