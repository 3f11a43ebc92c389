#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grammar/lexeme.h"
#include "grammar/values.h"

namespace pagoda::grammar {

/// One way to be an object: names in any order, each once. Names that the schema mentions are told apart one by one,
/// others by which patterns they match.
class ObjectCase {
 public:
  ObjectCase(Values& values, ValueCase facts, std::string path);

  bool satisfiable();
  /// Mentions every conjunction a member can have.
  void prepare();

  /// What is known of an object so far, as a number; 0 = nothing yet.
  int32_t begin() const { return 0; }
  bool may_close(int32_t data);
  /// The ways to go on with a member whose name ends in key state `key`: what is known then, and what its value must
  /// be.
  struct Way {
    int32_t data;
    ConjId value;
  };
  const std::vector<Way>& ways(int32_t data, int32_t key, int32_t key_text);

  Lexeme& key() { return *key_; }
  /// Some name that may come next begins like this.
  bool key_live(int32_t data, int32_t key);
  /// Names that no mention tells apart must be remembered, to see doubles.
  bool keeps_names() const { return keeps_names_; }
  /// After this key state only such names follow, so that what may come does not depend on the members so far.
  /// -1 if it does; else a number for the rest of the name.
  int32_t free_key(int32_t data, int32_t key);

 private:
  struct Class {
    ConjId value = -1;                                   // -1: no member of such a name
    int32_t named = -1;                                  // index of the name, -1 for the many
    std::vector<std::pair<size_t, ConjId>> witnesses{};  // which it may be, and its value then; -1: as `value`
  };
  struct Data {
    int64_t members = 0;       // as far as a limit cares
    uint32_t witnessed = 0;    // bit i: witness i was seen
    int32_t other_names = 0;   // set of remembered names
    std::vector<bool> seen{};  // [names]
  };
  using Literals = std::vector<Literal>;

  void build();
  void list_names(std::vector<std::string>& names);
  bool expand_finite(std::vector<std::string>& names);
  void make_key(std::vector<std::string> names);
  int32_t class_at(int32_t key);  // index into classes_, -1 = no such member
  int32_t make_class(int32_t key, int32_t named);
  Literals literals_of(int32_t key, int32_t named);
  bool is_witness(const Witness& witness, size_t index, int32_t key, int32_t named);
  bool visit_labels(const std::function<bool(int32_t)>& visit);
  bool allowed(const Class& c) { return c.value >= 0 && values_.satisfiable(c.value); }

  const Data& data_at(int32_t data) const { return datas_[static_cast<size_t>(data)]; }
  int32_t intern(const Data& data);
  bool viable(int32_t data);
  bool compute_viable(const Data& data);
  bool witness_possible(size_t witness, const Data& data);
  void add_ways(int32_t data, const Class& c, int32_t key_text, std::vector<Way>& out);

  Values& values_;
  ValueCase facts_;
  std::string path_;
  bool built_ = false;
  bool keeps_names_ = false;
  int64_t count_max_ = 0;  // beyond it counts are alike

  std::shared_ptr<NamesComponent> names_;
  std::unique_ptr<Lexeme> key_;
  std::vector<int32_t> pattern_ids_;          // of the schema, in the order of pattern_formulas_
  std::vector<FormulaPtr> pattern_formulas_;  // over key_'s components
  std::vector<FormulaPtr> witness_formulas_;  // [witnesses] of kind kName; null otherwise
  FormulaPtr name_formula_;                   // what every name must fulfil
  size_t names_component_ = 0;

  std::vector<Class> classes_;
  std::vector<int32_t> class_of_name_;  // [names]
  std::vector<int32_t> many_;           // classes of names that are not told apart
  std::vector<int32_t> required_;       // names
  std::map<std::vector<bool>, int32_t> class_of_signature_;
  std::vector<int32_t> class_of_key_;  // [key states], -2 = not yet known

  std::vector<Data> datas_;
  Interner data_ids_;
  Interner name_sets_;
  std::vector<int8_t> viable_;                                    // [datas]
  std::map<std::pair<int32_t, int32_t>, std::vector<Way>> ways_;  // (data, class)
  std::deque<std::vector<int8_t>> live_;                          // [datas][key states]
  std::map<std::vector<bool>, int32_t> free_kinds_;
};

}  // namespace pagoda::grammar
