#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "text/tokenizer.h"

namespace pagoda::api {

/// What a request says about how its conversation is rendered.
struct ChatTemplateOptions {
  bool add_generation_prompt = true;    // open the assistant's turn; ignored with continue_final_message
  bool continue_final_message = false;  // the prompt ends with the last message's text, which the reply continues
  nlohmann::ordered_json tools;         // an array as in the request, or null
  nlohmann::ordered_json kwargs;        // chat_template_kwargs: an object of further variables, or null
  int64_t today_unix_s = 0;             // feeds strftime_now, UTC
};

/// A model's chat template as the chat endpoint uses it: what OpenAI clients send is repaired into what templates
/// expect, and the prompt comes back in parts, so that what users wrote is never parsed as control tokens.
/// Immutable: share it between threads.
///
/// Repairs before rendering:
///   - tool-call `arguments` that are a JSON string holding an object become that object;
///   - `content` given as a list of text parts is joined unless the template itself reads parts;
///   - missing `content` becomes null, and null "" where the template cannot take it;
///   - what conversation_repair.h adds.
class ChatTemplate {
 public:
  /// Errors: kInvalidRequest "line N: ..." for a template that does not parse; kUnsupported for an empty source: a base
  /// model has no template, and guessing one would hide that.
  static Result<std::unique_ptr<ChatTemplate>> create(std::string_view source, std::string bos_text,
                                                      std::string eos_text);
  virtual ~ChatTemplate() = default;

  /// messages: an array of objects with at least `role`. Errors: kInvalidRequest with the message of the template's
  /// raise_exception, of a type error in the template, or of an exceeded budget (jinja::Budget).
  virtual Result<std::vector<text::PromptPart>> render(const nlohmann::ordered_json& messages,
                                                       const ChatTemplateOptions& options) const = 0;
};

}  // namespace pagoda::api
