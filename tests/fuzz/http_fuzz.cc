// layer: api
// Bytes off a socket: the HTTP parser in pieces of every size, then the body as each kind of request.
#include <cstddef>
#include <cstdint>
#include <string>

#include "api/http_message.h"
#include "api/openai_request.h"

namespace {

using pagoda::api::RequestParser;

const pagoda::api::ModelFacts kFacts{.names = {"m"}, .vocab_size = 1000, .max_model_len = 256, .context_limit = 256};

void judge(std::string_view body) {
  (void)pagoda::api::parse_chat_request(body, kFacts);
  (void)pagoda::api::parse_completion_request(body, kFacts);
  (void)pagoda::api::parse_tokenize_request(body, kFacts);
  (void)pagoda::api::parse_detokenize_request(body, kFacts);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  judge(input);  // a body without its head is what most inputs mutate into
  RequestParser parser;
  std::string buffer;
  const size_t step = size_t{data[0]} + 1;
  for (size_t at = 0; at < input.size(); at += step) {
    buffer.append(input.substr(at, step));
    RequestParser::State state = parser.feed(buffer);
    if (state == RequestParser::State::kHead) {
      parser.set_body_limit(1 << 16);
      state = parser.feed(buffer);
    }
    if (state == RequestParser::State::kBad) return 0;
    if (state == RequestParser::State::kDone) {
      judge(parser.take_request().body);
      return 0;
    }
  }
  return 0;
}
