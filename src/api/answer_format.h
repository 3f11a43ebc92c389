#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "dialog/format.h"
#include "dialog/output_parser.h"
#include "dialog/tool_set.h"
#include "text/tokenizer.h"

namespace pagoda::api {

/// How a model's answers are taken apart; known once a model.
struct AnswerFormat {
  dialog::OutputFormat format{};
  std::shared_ptr<const std::vector<TokenId>> shown_tokens{};  // control tokens that the format's markers consist of
};
std::shared_ptr<const AnswerFormat> read_answer_format(std::string_view template_source,
                                                       const text::Tokenizer& tokenizer);

/// How the answers to one request are. `format` null: they are plain text.
struct AnswerReading {
  std::shared_ptr<const AnswerFormat> format{};
  dialog::ToolSet tools{};
  bool splits_reasoning = true;
  bool begins_reasoning = false;  // the prompt opened it
  std::string begun{};            // what the prompt holds of the answer already: the head of a forced call

  bool active() const;
  /// Parser of one choice; the reading must outlive it. `begun` is fed already.
  std::unique_ptr<dialog::OutputParser> make_parser(dialog::Output& first) const;
};

/// A fresh id for a call: "call_…", or nine letters and digits where the template wants that.
std::string call_id(const AnswerReading& reading);

}  // namespace pagoda::api
