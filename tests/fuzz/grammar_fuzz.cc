// layer: grammar
// Any bytes as a schema, a regular expression or a grammar: an error with its place or an automaton that can be walked
// within its budget; the same bytes then as the text.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/check.h"
#include "grammar/grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pagoda::grammar;
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Source source;
  source.kind = data[0] % 3 == 0   ? Source::Kind::kJsonSchema
                : data[0] % 3 == 1 ? Source::Kind::kRegex
                                   : Source::Kind::kGbnf;
  source.text = text;
  source.layout.tidy = (data[0] & 0x80) != 0;
  const Limits limits{.bytes_max = 4 << 20, .compile_us_max = 200'000};
  auto automaton = compile(source, limits, /*empty_allowed=*/true);
  if (!automaton.ok()) {
    PAGODA_CHECK(!automaton.error().message.empty() && !automaton.error().param.empty());
    return 0;
  }
  Automaton& a = *automaton.value();
  StateId state = a.start();
  for (const char c : text) state = a.step(state, static_cast<uint8_t>(c));
  state = a.start();
  uint32_t random = 2463534242u + static_cast<uint32_t>(size);
  for (int i = 0; i < 64 && state >= 0 && !a.exhausted(); ++i) {  // whatever is allowed can be followed
    random ^= random << 13, random ^= random >> 17, random ^= random << 5;
    StateId next = kDead;
    for (uint32_t byte = 0; byte < 256 && next < 0; ++byte)
      next = a.step(state, static_cast<uint8_t>(byte * 37 + random));
    if (next < 0) break;
    state = next;
  }
  return 0;
}
