#pragma once
#include <memory>

#include "api/choice_writer.h"

namespace pagoda::api {

/// Anthropic's message: one body, or the ladder of events message_start, content_block_start, content_block_delta ...,
/// content_block_stop, message_delta, message_stop. One choice.
std::unique_ptr<ResponseWriter> make_anthropic_writer(ResponseFacts facts, const text::Tokenizer& tokenizer);

}  // namespace pagoda::api
