#pragma once
#include <string>
#include <vector>

#include "core/ids.h"
#include "core/result.h"
#include "engine/batch.h"

namespace pagoda::apps {

/// One prompt of a golden file: an exact float32 evaluation of a model, and how near llama.cpp comes to it.
/// Format: golden/README of the shared data.
struct GoldenCase {
  std::string name;
  std::string text;
  std::vector<TokenId> ids;                       // [T]
  std::vector<std::vector<TokenId>> top_ids;      // [T][top] likeliest next tokens, best first
  std::vector<std::vector<double>> top_logprobs;  // [T][top] nats
  double nll_mean;                                // nats, of ids[1..T)
  double llama_kl_mean;                           // nats; 0 if the file has no comparison
};

/// Errors: kNotFound, kCorruptFile saying what the file lacks.
Result<std::vector<GoldenCase>> read_golden(const std::string& path);

/// How far we are from the exact evaluation of one prompt.
struct GoldenResult {
  double kl_mean;    // nats over positions: sum over the top ids of p (ln p - ln q), plus one bucket for the rest
  double kl_median;  // of an even number: the mean of the middle two
  double kl_max;
  double top1_agree;  // share of positions where our likeliest token is the file's
  double nll_mean;    // nats, of ids[1..T)
};

/// `scores` are ours for every position, asked with top = 1 and ids = the case's top_ids.
GoldenResult compare_with_golden(const GoldenCase& golden, const std::vector<engine::PromptScore>& scores);

}  // namespace pagoda::apps
