// layer: text
// Random vocabularies over random texts: create() refuses or works; pieces join to the text; streams equal decode().
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/check.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace {

using namespace pagoda;
using namespace pagoda::text;

// Takes bytes off the front of the input.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const uint8_t b = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return b;
  }
  std::string string(size_t bytes_max) {
    const std::string_view part = rest_.substr(0, byte() % (bytes_max + 1));
    rest_.remove_prefix(std::min(part.size(), rest_.size()));
    return std::string(part);
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

constexpr const char* kFamilies[] = {"default", "gpt-2",  "smollm",  "llama-bpe",      "qwen2",        "qwen35",
                                     "gpt-4o",  "tekken", "kimi-k2", "deepseek-coder", "deepseek-llm", "deepseek-v3",
                                     "falcon",  "bloom",  "viking",  "seed-coder"};

VocabSpec random_spec(Input& input) {
  constexpr const char* kModels[] = {"gpt2", "llama", "t5", "gpt2"};
  VocabSpec spec;
  spec.model = kModels[input.byte() % 4];
  spec.pre = kFamilies[input.byte() % std::size(kFamilies)];
  const uint8_t flags = input.byte();
  spec.add_space_prefix = flags & 1;
  spec.remove_extra_whitespaces = flags & 2;
  spec.escape_whitespaces = !(flags & 4);
  spec.add_bos = flags & 8;
  spec.add_eos = flags & 16;
  spec.unknown = flags & 32 ? 0 : kNoToken;
  spec.bos = spec.eos = 0;
  for (char c = ' '; c < 127; ++c) spec.tokens.emplace_back(1, c);  // enough to build on
  for (int i = input.byte() % 40; i > 0; --i) spec.tokens.push_back(input.string(6));
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    spec.types.push_back(i < 95 ? TokenType::kNormal : static_cast<TokenType>(1 + input.byte() % 6));
    spec.scores.push_back(static_cast<float>(input.byte()) - 128.f);
  }
  spec.types[0] = TokenType::kControl;
  for (int i = spec.model == "gpt2" ? input.byte() % 20 : 0; i > 0; --i) {
    const std::string left = spec.tokens[input.byte() % spec.tokens.size()];
    const std::string right = spec.tokens[input.byte() % spec.tokens.size()];
    spec.tokens.push_back(left + right);
    spec.types.push_back(TokenType::kNormal);
    spec.scores.push_back(0);
    spec.merges.push_back(left + " " + right);
  }
  if (flags & 64) spec.precompiled_charsmap = input.string(200);
  return spec;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  auto created = Tokenizer::create(random_spec(input));
  if (!created.ok()) return 0;
  const Tokenizer& tokenizer = *created.value();
  const std::string text(input.rest());
  const size_t half = text.size() / 2;
  const auto ids = tokenizer.encode(text, {true, true});
  const auto plain = tokenizer.encode_parts({{text.substr(0, half), false}, {text.substr(half), false}}, false);
  for (const auto* list : {&ids, &plain}) {
    Detokenizer stream(tokenizer, list == &ids);
    std::string shown;
    for (TokenId id : *list) {
      PAGODA_CHECK(tokenizer.valid(id));
      // <unk> stands for what has no token; any other control token must not come from a user's text.
      PAGODA_CHECK(list == &ids || !tokenizer.is_control(id) || id == tokenizer.spec().unknown);
      shown += stream.push(id);
    }
    shown += stream.finish();
    PAGODA_CHECK(shown == tokenizer.decode(*list, list == &ids));
    PAGODA_CHECK(shown == replace_invalid_utf8(shown));
  }
  StopMatcher matcher({text.substr(0, 3), text.substr(half, 5)});
  matcher.push(text);
  matcher.finish();
  return 0;
}
