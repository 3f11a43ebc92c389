#include "text/pre_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace pagoda::text {
namespace {

// Each pattern of a name, in order. Facts: the families' tokenizer.json; names as GGUF converters write them.
struct Family {
  std::string_view name;
  PreTokenizer rules;
};

const PreTokenizer kGpt2{{split_gpt2}};
const PreTokenizer kGpt2Nfc{{split_gpt2}, true};
const PreTokenizer kDigitsThenGpt2{{split_number_one, split_gpt2}};
const PreTokenizer kCl100k{{split_llama3}};
const PreTokenizer kLlama3{{split_llama3}, false, true};
const PreTokenizer kQwen2{{split_qwen2}};
const PreTokenizer kQwen2Nfc{{split_qwen2}, true};
const PreTokenizer kGpt4o{{split_gpt4o}};
const PreTokenizer kBloom{{split_bloom}};
const PreTokenizer kDeepseek3{{split_number_three, split_deepseek3_cjk, split_deepseek3_words}};
const PreTokenizer kDefault{{split_default_punctuation, split_gpt2, split_numbers, split_digit_triples}};

const std::vector<Family> kFamilies = {
    {"", kDefault},
    {"default", kDefault},
    {"a.x-4.0", kGpt2},
    {"bailingmoe", kQwen2},
    {"bailingmoe2", kQwen2},
    {"bloom", kBloom},
    {"chatglm-bpe", kCl100k},
    {"codeshell", kDigitsThenGpt2},
    {"command-r", {{split_number_one, split_gpt2}, true}},
    {"dbrx", kCl100k},
    {"deepseek-coder",
     {{split_line_breaks, split_spaced_letters, split_spaced_punctuation, split_deepseek_cjk, split_number_one}}},
    {"deepseek-llm",
     {{split_line_breaks, split_deepseek_letters, split_deepseek_signs, split_final_space, split_deepseek_cjk,
       split_numbers}}},
    {"deepseek-r1-qwen", kQwen2},
    {"deepseek-v3", kDeepseek3},
    {"exaone", kDigitsThenGpt2},
    {"exaone4", kGpt2},
    {"falcon", {{split_falcon_punctuation, split_gpt2, split_digit_triples}}},
    {"falcon-h1", kLlama3},
    {"falcon3", kLlama3},
    {"gigachat", kGpt2},
    {"glm4", kCl100k},
    {"gpt-2", kGpt2},
    {"gpt-4o", kGpt4o},
    {"gpt3-finnish", kBloom},
    {"granite-docling", kGpt2},
    {"grok-2", kQwen2},
    {"hunyuan", kQwen2},
    {"hunyuan-dense", kDeepseek3},
    {"jais", kGpt2},
    {"jina-de", kGpt2},
    {"jina-es", kGpt2},
    {"jina-v1-en", kGpt2},
    {"jina-v2-code", kGpt2},
    {"jina-v2-de", kGpt2},
    {"jina-v2-es", kGpt2},
    {"kanana2", kGpt4o},
    {"kimi-k2", {{split_kimi_k2}}},
    {"lfm2", kLlama3},
    {"llada-moe", kQwen2},
    {"llama-bpe", kLlama3},
    {"llama-v3", kLlama3},
    {"llama3", kLlama3},
    {"llama4", kGpt4o},
    {"megrez", kQwen2},
    {"mellum", kGpt2},
    {"midm-2.0", kLlama3},
    {"minerva-7b", kDigitsThenGpt2},
    {"minimax-m2", kGpt4o},
    {"modern-bert", kGpt2},
    {"mpt", kGpt2Nfc},
    {"olmo", kGpt2Nfc},
    {"phi-2", kGpt2},
    {"pixtral", kLlama3},
    {"poro-chat", kBloom},
    {"qwen2", kQwen2Nfc},
    {"qwen35", {{split_qwen35}}},
    {"refact", kDigitsThenGpt2},
    {"roberta-bpe", kGpt2},
    {"seed-coder", {{split_seed_coder}}},
    {"smaug-bpe", kCl100k},
    {"smollm", kDigitsThenGpt2},
    {"solar-open", kQwen2},
    {"stablelm2", kQwen2Nfc},
    {"starcoder", kDigitsThenGpt2},
    {"tekken", {{split_tekken}, false, true}},
    {"trillion", kGpt2},
    {"viking", {{split_bloom, split_number_one}}},
};

}  // namespace

Result<PreTokenizer> find_pre_tokenizer(std::string_view name) {
  const auto found =
      std::find_if(kFamilies.begin(), kFamilies.end(), [name](const Family& f) { return f.name == name; });
  if (found == kFamilies.end())
    return Error{Code::kUnsupported, "pre-tokenizer '" + std::string(name) + "' is not known", "tokenizer.ggml.pre"};
  return found->rules;
}

Splitter::Splitter(const PreTokenizer& pre, std::string_view text)
    : pre_(pre), text_(text), ends_(pre.stages.size() + 1, 0) {
  ends_[0] = text.size();
}

std::string_view Splitter::next() {
  if (at_ == text_.size()) return {};
  // The innermost stage whose piece is not used up cuts on; those below it start anew inside what it cut.
  size_t stage = pre_.stages.size();
  while (ends_[stage] <= at_) --stage;
  for (; stage < pre_.stages.size(); ++stage) ends_[stage + 1] = pre_.stages[stage](text_.substr(0, ends_[stage]), at_);
  const std::string_view piece = text_.substr(at_, ends_.back() - at_);
  at_ = ends_.back();
  return piece;
}

}  // namespace pagoda::text
