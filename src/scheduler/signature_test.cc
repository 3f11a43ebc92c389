// Goal: machines check each other: every instruction set of every machine gives the same token ids and logprob bits.
// Method: fixed requests per model, recomputed at each ISA level this CPU has and compared with tests/signature/. A
// commit that changes a file there says why; PAGODA_UPDATE_SIGNATURES=1 rewrites them (from the best level). Sanitized
// builds leave the portable level to the release build: a minute, for kernels whose own tests run in both.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/sanitized_for_test.h"
#include "scheduler/real_model_support.h"

namespace pagoda::scheduler {
namespace {

struct Subject {
  const char* model;
  int32_t tokens;  // sampled by each request: the portable kernels need a second for one token of the largest model
};

// 64-bit FNV-1a (Fowler, Noll, Vo).
uint64_t hash_of(const std::vector<uint32_t>& words) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (const uint32_t word : words)
    for (int shift = 0; shift < 32; shift += 8) hash = (hash ^ ((word >> shift) & 0xFF)) * 0x100000001B3ull;
  return hash;
}

std::vector<Request> fixed_requests(const text::Tokenizer& tokenizer, int32_t tokens) {
  std::vector<Request> all(2);
  all[0].prompt = tokenizer.encode("The sky is", {.add_special = true});
  all[0].sampling = {.temperature = 0.f, .logprobs = 5};
  all[0].prompt_logprobs = 3;
  all[1].prompt = tokenizer.encode("def f(x):", {.add_special = true});
  all[1].sampling = {
      .temperature = 1.f, .top_k = 200, .top_p = 0.95f, .repetition_penalty = 1.1f, .seed = 20261129, .logprobs = 2};
  for (Request& request : all) {
    request.max_tokens = tokens;
    request.ignore_eos = true;
  }
  return all;
}

/// One line a request: its ids, and a hash of all logprob bits.
std::string signature(const ModelFile& model, const Subject& subject, uint32_t isa) {
  const auto engine = load_engine(model, isa, /*threads=*/2);
  if (engine == nullptr) return "no engine";
  EXPECT_EQ(engine->info().isa, isa::level_name(isa));
  const Limits limits{.max_num_seqs = 8,
                      .max_num_batched_tokens = 256,
                      .max_model_len = engine->info().max_model_len,
                      .total_blocks = engine->info().total_blocks};
  std::string lines;
  for (const Seen& seen :
       serve(*engine, *model.tokenizer, limits, fixed_requests(*model.tokenizer, subject.tokens), /*at_once=*/true)) {
    std::string ids;
    for (const TokenId id : seen.ids) ids += fmt::format(" {}", id);
    lines += fmt::format("ids{} logprobs {:016x}\n", ids, hash_of(seen.logprob_bits));
  }
  return lines;
}

class Signature : public ::testing::TestWithParam<Subject> {};

TEST_P(Signature, EveryInstructionSetGivesTheRecordedBits) {
  const Subject& subject = GetParam();
  const auto model = open_model_file(subject.model);
  ASSERT_NE(model, nullptr);
  std::string name = subject.model;
  std::replace(name.begin(), name.end(), ':', '-');
  const std::string path = std::string(PAGODA_SOURCE_DIR) + "/tests/signature/" + name + ".txt";

  if (const char* update = std::getenv("PAGODA_UPDATE_SIGNATURES"); update != nullptr && *update == '1') {
    std::ofstream(path) << signature(*model, subject, isa::detected());
  }
  std::ifstream in(path);
  ASSERT_TRUE(in.good()) << "no " << path << "; PAGODA_UPDATE_SIGNATURES=1 writes it";
  std::stringstream recorded;
  recorded << in.rdbuf();
  for (const uint32_t level : {isa::kLevelAvx512, isa::kLevelAvx2, isa::kLevelPortable}) {
    if (!isa::covers(isa::detected(), level)) {
      std::printf("skipped: this CPU lacks %s\n", isa::level_name(level));
      continue;
    }
    if (kSanitized && level == isa::kLevelPortable) continue;
    EXPECT_EQ(signature(*model, subject, level), recorded.str()) << isa::level_name(level);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Signature,
                         ::testing::Values(Subject{"smollm2:135m", 8}, Subject{"gemma3:270m", 6},
                                           Subject{"qwen2.5-coder:1.5b", 2}),
                         [](const auto& parameter) {
                           std::string name = parameter.param.model;
                           std::erase_if(name, [](unsigned char c) { return !std::isalnum(c); });
                           return name;
                         });

}  // namespace
}  // namespace pagoda::scheduler
