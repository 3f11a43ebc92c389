#pragma once
#include <memory>

#include "api/choice_writer.h"

namespace pagoda::api {

// Writers of OpenAI's response objects.
std::unique_ptr<ResponseWriter> make_chat_writer(ResponseFacts facts, const text::Tokenizer& tokenizer);
std::unique_ptr<ResponseWriter> make_completion_writer(ResponseFacts facts, const text::Tokenizer& tokenizer);

}  // namespace pagoda::api
