// Goal: every shown case of ../shared/cases is answered right or refused at compile time, and few are refused.
// Method: all of them, byte by byte, each instance in three layouts; coverage is printed.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "grammar/grammar.h"

namespace pagoda::grammar {
namespace {

using Json = nlohmann::ordered_json;

std::filesystem::path cases_folder() { return std::filesystem::path(PAGODA_SHARED_DIR) / "cases"; }

std::vector<Json> read_lines(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<Json> out;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) out.push_back(Json::parse(line));
  return out;
}

enum class Answer { kYes, kNo, kExhausted };

Answer ask(Automaton& automaton, const std::string& text) {
  StateId state = automaton.start();
  for (const char c : text) state = automaton.step(state, static_cast<uint8_t>(c));
  if (automaton.exhausted()) return Answer::kExhausted;
  return state >= 0 && automaton.accepting(state) ? Answer::kYes : Answer::kNo;
}

Source schema_source(std::string text) {
  Source source;
  source.text = std::move(text);
  return source;
}

struct Tally {
  int right = 0, wrong = 0, refused = 0;
  std::map<std::string, int> reasons;
  double slowest_ms = 0;

  // One schema with its tests; true if all are right.
  void add(const std::string& name, const std::string& schema, const std::vector<std::pair<Json, bool>>& tests) {
    const auto begin = std::chrono::steady_clock::now();
    auto automaton = compile(schema_source(schema), {}, /*empty_allowed=*/true);
    bool good = true;
    if (!automaton.ok()) {
      EXPECT_FALSE(automaton.error().param.empty()) << name;
      ++refused;
      ++reasons[automaton.error().message.substr(0, automaton.error().message.find(" at "))];
      if (std::getenv("PAGODA_SHOW_REFUSED") != nullptr) std::cout << name << ": " << automaton.error().message << "\n";
    } else {
      for (const auto& [data, valid] : tests)
        for (const std::string& text : {data.dump(), data.dump(2), data.dump(-1, ' ', /*ensure_ascii=*/true)}) {
          const Answer answer = ask(*automaton.value(), text);
          if (answer == (valid ? Answer::kYes : Answer::kNo)) continue;
          good = false;
          ADD_FAILURE() << name << ": " << text << " is " << (valid ? "valid" : "invalid")
                        << (answer == Answer::kExhausted ? ", the budget went out" : "") << "\n"
                        << schema.substr(0, 1500);
          break;
        }
      ++(good ? right : wrong);
    }
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (ms > 300) std::cout << name << " took " << ms << " ms\n";
    slowest_ms = std::max(slowest_ms, ms);
  }
  void print(const char* what) const {
    std::cout << what << ": " << right << " right, " << wrong << " wrong, " << refused << " refused ("
              << 100.0 * right / (right + wrong + refused) << " % right); slowest " << slowest_ms << " ms\n";
    for (const auto& [reason, count] : reasons) std::cout << "  refused " << count << ": " << reason << "\n";
  }
};

TEST(GrammarCases, MaskBench) {
  Tally tally;
  for (const Json& row : read_lines(cases_folder() / "jsonschema/maskbench/maskbench_dev.jsonl")) {
    std::vector<std::pair<Json, bool>> tests;
    for (const Json& test : row["tests"]) tests.emplace_back(test["data"], test["valid"].get<bool>());
    tally.add(row["id"], row["schema"].dump(), tests);
  }
  tally.print("maskbench");
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_GE(tally.right, 0.95 * (tally.right + tally.wrong + tally.refused));
}

TEST(GrammarCases, Suite) {
  Tally tally;
  const auto folder = cases_folder() / "jsonschema/suite-2020-12";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    for (const Json& group : Json::parse(file)) {
      std::vector<std::pair<Json, bool>> tests;
      for (const Json& test : group["tests"]) tests.emplace_back(test["data"], test["valid"].get<bool>());
      tally.add(entry.path().lexically_relative(folder).string() + ": " + group["description"].get<std::string>(),
                group["schema"].dump(), tests);
    }
  }
  tally.print("2020-12 suite");
  EXPECT_EQ(tally.wrong, 0);
}

TEST(GrammarCases, Grammars) {
  for (const Json& row : read_lines(cases_folder() / "grammars/grammar_cases_dev.jsonl")) {
    Source source;
    const bool schema = row["kind"] == "schema";
    source.kind = schema ? Source::Kind::kJsonSchema : Source::Kind::kGbnf;
    source.text = row[schema ? "schema" : "grammar"].get<std::string>();
    auto automaton = compile(source, {}, true);
    ASSERT_TRUE(automaton.ok()) << row["id"] << automaton.error().message;
    for (const char* list : {"accept", "reject"})
      for (size_t i = 0; i < row[list].size(); ++i) {
        const bool valid = schema ? row["validator"][list][i] == "valid" : list[0] == 'a';
        EXPECT_EQ(ask(*automaton.value(), row[list][i]), valid ? Answer::kYes : Answer::kNo)
            << row["id"] << " " << row["desc"] << ": " << row[list][i];
      }
  }
  for (const auto& entry : std::filesystem::directory_iterator(cases_folder() / "grammars")) {
    if (entry.path().extension() != ".gbnf") continue;
    std::ifstream file(entry.path());
    Source source;
    source.kind = Source::Kind::kGbnf;
    source.text.assign(std::istreambuf_iterator<char>(file), {});
    EXPECT_TRUE(compile(source, {}).ok()) << entry.path();
  }
}

}  // namespace
}  // namespace pagoda::grammar
