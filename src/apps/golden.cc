#include "apps/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/median.h"
#include "core/check.h"
#include "core/mapped_file.h"

namespace pagoda::apps {
namespace {

using nlohmann::json;

GoldenCase case_of(const std::string& name, const json& value) {  // throws where the file is not as described
  GoldenCase c;
  c.name = name;
  c.text = value.value("text", "");
  c.ids = value.at("ids").get<std::vector<TokenId>>();
  c.top_ids = value.at("top_ids").get<std::vector<std::vector<TokenId>>>();
  c.top_logprobs = value.at("top_logprobs").get<std::vector<std::vector<double>>>();
  c.nll_mean = value.value("nll_mean", 0.0);
  c.llama_kl_mean = value.contains("llama_cpp") ? value["llama_cpp"].at("kl_mean").get<double>() : 0.0;
  return c;
}

Status check(const GoldenCase& c) {
  const auto refuse = [&c](const char* what) {
    return Error{Code::kCorruptFile, fmt::format("golden case {}: {}", c.name, what)};
  };
  if (c.ids.size() < 2) return refuse("fewer than 2 ids");
  if (c.top_ids.size() != c.ids.size() || c.top_logprobs.size() != c.ids.size())
    return refuse("not one top list an id");
  for (size_t t = 0; t < c.ids.size(); ++t)
    if (c.top_ids[t].empty() || c.top_ids[t].size() != c.top_logprobs[t].size())
      return refuse("top lists of unequal length");
  return ok_status();
}

/// sum over the listed tokens of p (ln p - ln q), plus the same for all others as one.
double kl_at(const std::vector<double>& log_p, const std::vector<float>& log_q) {
  constexpr double kTiny = 1e-12;  // what rounding may leave of an empty rest
  double kl = 0, p_rest = 1, q_rest = 1;
  for (size_t i = 0; i < log_p.size(); ++i) {
    const double p = std::exp(log_p[i]), lq = static_cast<double>(log_q[i]);
    kl += p * (log_p[i] - lq);
    p_rest -= p;
    q_rest -= std::exp(lq);
  }
  p_rest = std::max(p_rest, kTiny);
  q_rest = std::max(q_rest, kTiny);
  return kl + p_rest * std::log(p_rest / q_rest);
}

double mean(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

}  // namespace

Result<std::vector<GoldenCase>> read_golden(const std::string& path) {
  std::ifstream in(path);
  if (!in) return Error{Code::kNotFound, fmt::format("cannot open {}", file_name(path))};
  try {
    const json file = json::parse(in);
    std::vector<GoldenCase> cases;
    for (const auto& [name, value] : file.at("cases").items()) {
      cases.push_back(case_of(name, value));
      PAGODA_TRY_STATUS(check(cases.back()));
    }
    return cases;
  } catch (const json::exception& error) {
    return Error{Code::kCorruptFile, fmt::format("{} is no golden file: {}", file_name(path), error.what())};
  }
}

GoldenResult compare_with_golden(const GoldenCase& golden, const std::vector<engine::PromptScore>& scores) {
  PAGODA_CHECK(scores.size() == golden.ids.size());
  std::vector<double> kl, nll;
  double agreed = 0;
  for (size_t t = 0; t < scores.size(); ++t) {
    PAGODA_CHECK(scores[t].ids.size() == golden.top_ids[t].size() && !scores[t].top.empty());
    kl.push_back(kl_at(golden.top_logprobs[t], scores[t].ids));
    if (scores[t].top[0].id == golden.top_ids[t][0]) ++agreed;
    if (t + 1 < scores.size()) nll.push_back(-static_cast<double>(scores[t].next_logprob));
  }
  return {mean(kl), median_of(kl), std::ranges::max(kl), agreed / static_cast<double>(scores.size()), mean(nll)};
}

}  // namespace pagoda::apps
