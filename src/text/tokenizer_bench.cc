// Text encoded a second, one core. The target is 10 MB/s on mixed English text, and no slower on one endless word than
// n log n. A vocabulary is trained on the spot, because the layer cannot read model files: 8,000 merges over the text
// itself.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>

#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace pagoda::text {
namespace {

std::string english() {
  std::ifstream file(std::string(PAGODA_SHARED_DIR) + "/cases/text/tinyshakespeare.txt", std::ios::binary);
  if (!file) throw std::runtime_error("cases/text/tinyshakespeare.txt is missing");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string in_alphabet(std::string_view bytes) {  // printable ASCII, blank and line feed are all this text has
  std::string out;
  for (char c : bytes) out += c == ' ' ? "\u0120" : c == '\n' ? "\u010A" : std::string(1, c);
  return out;
}

// Byte pair encoding's training on the text's commonest words.
VocabSpec train(const std::string& text, size_t merges) {
  VocabSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  for (const char* c : {"\u0120", "\u010A"}) spec.tokens.emplace_back(c);
  for (char c = '!'; c < 127; ++c) spec.tokens.emplace_back(1, c);
  for (size_t n = 1; n <= 8; n *= 2) {  // so that a run of one letter merges, as in every real vocabulary
    spec.merges.push_back(std::string(n, 'a') + " " + std::string(n, 'a'));
    spec.tokens.emplace_back(2 * n, 'a');
  }
  std::map<std::string, int> words;
  const PreTokenizer pre{{split_gpt2}};
  Splitter splitter(pre, text);
  for (auto piece = splitter.next(); !piece.empty(); piece = splitter.next()) ++words[std::string(piece)];
  std::vector<std::pair<int, std::string>> common;
  for (const auto& [word, count] : words) common.emplace_back(count, word);
  std::sort(common.rbegin(), common.rend());
  // Left to right, the commonest words first: not the best merges, but as many and as deep as real ones.
  std::map<std::string, bool> known;
  for (const auto& [count, word] : common) {
    for (size_t n = 2; n <= word.size() && spec.merges.size() < merges; ++n) {
      const std::string whole = in_alphabet(word.substr(0, n));
      if (!known.emplace(whole, true).second) continue;
      spec.merges.push_back(in_alphabet(word.substr(0, n - 1)) + " " + in_alphabet(word.substr(n - 1, 1)));
      spec.tokens.push_back(whole);
    }
  }
  return spec;
}

const Tokenizer& tokenizer() {
  static const std::unique_ptr<Tokenizer> instance = Tokenizer::create(train(english(), 8000)).take();
  return *instance;
}

void encode(benchmark::State& state, const std::string& text) {
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer().encode(text, {}));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}

void encode_english(benchmark::State& state) { encode(state, english()); }
void encode_one_word(benchmark::State& state) { encode(state, std::string(static_cast<size_t>(state.range(0)), 'a')); }
BENCHMARK(encode_english)->Unit(benchmark::kMillisecond);
BENCHMARK(encode_one_word)->Arg(10000)->Arg(100000)->Arg(1000000)->Unit(benchmark::kMillisecond);

void create(benchmark::State& state) {
  const VocabSpec spec = train(english(), 8000);
  for (auto _ : state) benchmark::DoNotOptimize(Tokenizer::create(spec));
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(spec.tokens.size()));
}
BENCHMARK(create)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pagoda::text
