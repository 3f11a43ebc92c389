#include "grammar/values.h"

#include <algorithm>
#include <utility>

#include "grammar/array_case.h"
#include "grammar/object_case.h"

namespace pagoda::grammar {
namespace {

constexpr int32_t kNestedSchemasMax =
    1000;  // schemas inside schemas that must all be looked into to know that one has a value

}  // namespace

bool Scalar::live(int32_t state) {
  if (const auto at = static_cast<size_t>(state); at < known.size() && known[at] != 0) return known[at] > 0;
  const int32_t fate = lexeme.fate(state, *formula);
  if (fate < 0) return false;
  return lexeme.reaches(
      state, [this](int32_t s) { return right(s); }, [this](int32_t s) { return lexeme.fate(s, *formula) < 0; }, known);
}

Values::Values(std::unique_ptr<Schema> schema, Budget& budget) : schema_(std::move(schema)), budget_(budget) {}
Values::~Values() = default;

void Values::fail(Error error) {
  if (!failure_) failure_ = std::move(error);
}

ConjId Values::conjunction(std::vector<Literal> literals) {
  std::sort(literals.begin(), literals.end());
  literals.erase(std::unique(literals.begin(), literals.end()), literals.end());
  std::erase(literals, kAlways);
  std::erase(literals, opposite(kNever));
  for (size_t i = 0; i < literals.size(); ++i)
    if (literals[i] == kNever || literals[i] == opposite(kAlways) ||
        (i + 1 < literals.size() && literals[i + 1] == opposite(literals[i]) && !negative(literals[i]))) {
      literals = {kNever};
      break;
    }
  bool fresh = false;
  const ConjId id = conjunctions_.intern(literals, fresh);
  if (fresh) {
    budget_.spend(Interner::bytes_of(literals.size()) + 64);
    specs_.emplace_back();
    known_.push_back(0);
    busy_.push_back(0);
  }
  return id;
}

ConjId Values::with(ConjId id, const std::vector<Literal>& more) {
  const auto view = conjunctions_.at(id);
  std::vector<Literal> literals(view.begin(), view.end());
  literals.insert(literals.end(), more.begin(), more.end());
  return conjunction(std::move(literals));
}

const std::string& Values::path_of(ConjId id) {
  const auto view = conjunctions_.at(id);
  return schema_->node(view.empty() ? kTrueNode : node_of(view[0])).path;
}

ValueSpec& Values::spec(ConjId id) {
  const auto at = static_cast<size_t>(id);
  if (!specs_[at]) {
    const auto view = conjunctions_.at(id);
    const std::vector<Literal> literals(view.begin(), view.end());
    auto made = std::make_unique<ValueSpec>();
    budget_.spend(static_cast<int64_t>(sizeof(ValueSpec)));
    const auto all = [&](Types type, bool value) {
      return std::all_of(literals.begin(), literals.end(), [&](Literal l) { return holds(l, type, value); });
    };
    made->null = all(kNull, false);
    made->yes = all(kBoolean, true);
    made->no = all(kBoolean, false);
    made->string = make_scalar(literals, kString);
    made->number = make_scalar(literals, kNumber);
    specs_[at] = std::move(made);
  }
  ValueSpec& out = *specs_[at];
  if (!out.cases_known && !failed()) {
    out.cases_known = out.making = true;
    make_cases(id, out, kObject);
    make_cases(id, out, kArray);
    out.making = false;
  }
  return out;
}

void Values::make_cases(ConjId id, ValueSpec& spec, Types type) {
  const auto view = conjunctions_.at(id);
  const std::vector<Literal> literals(view.begin(), view.end());
  CaseExpander expander(*schema_, budget_, [this](NodeId a, NodeId b, Types t) { return disjoint(a, b, t); });
  auto cases = expander.expand(literals, type);
  if (!cases.ok()) return fail(cases.error());
  for (ValueCase& facts : cases.value()) {
    if (type == kObject) {
      spec.objects.push_back(static_cast<int32_t>(objects_.size()));
      objects_.push_back(std::make_unique<ObjectCase>(*this, std::move(facts), path_of(id)));
    } else {
      spec.arrays.push_back(static_cast<int32_t>(arrays_.size()));
      arrays_.push_back(std::make_unique<ArrayCase>(*this, std::move(facts), path_of(id)));
    }
    budget_.spend(512);
  }
}

bool Values::disjoint(NodeId a, NodeId b, Types type) {
  const auto key = std::make_tuple(std::min(a, b), std::max(a, b), type);
  if (const auto known = disjoint_.find(key); known != disjoint_.end()) return known->second;
  const ConjId both = conjunction({that(a), that(b)});
  if (busy_[static_cast<size_t>(both)] != 0) return false;  // not known: the opposite is written out
  const int32_t met_before = std::exchange(met_, INT32_MAX);
  if (++depth_ >= kNestedSchemasMax)
    fail(schema_error(path_of(both), "schemas are nested too deeply", Code::kTooLarge));
  const bool none = !failed() && !satisfiable_as(both, type) && met_ == INT32_MAX;
  --depth_;
  met_ = met_before;
  if (!failed()) disjoint_[key] = none;
  return none;
}

bool Values::satisfiable(ConjId id) {
  const auto at = static_cast<size_t>(id);
  if (known_[at] != 0) return known_[at] > 0;
  if (busy_[at] != 0) {
    met_ = std::min(met_, busy_[at]);
    return false;
  }
  if (depth_ >= kNestedSchemasMax) fail(schema_error(path_of(id), "schemas are nested too deeply", Code::kTooLarge));
  if (failed()) return false;
  busy_[at] = ++depth_;
  const int32_t met_before = std::exchange(met_, INT32_MAX);
  const bool yes = satisfiable_as(id, kAllTypes);
  const int32_t met = met_;
  busy_[at] = 0;
  --depth_;
  if (failed()) return false;
  if (yes)
    known_[at] = 1;
  else if (met > depth_)  // met nothing but itself: the least solution
    known_[at] = -1;
  met_ = yes || met > depth_ ? met_before : std::min(met, met_before);
  return yes;
}

bool Values::satisfiable_as(ConjId id, Types types) {
  ValueSpec& s = spec(id);
  if ((types & kNull) != 0 && s.null) return true;
  if ((types & kBoolean) != 0 && (s.yes || s.no)) return true;
  if ((types & kString) != 0 && s.string) return true;
  if ((types & kNumber) != 0 && s.number) return true;
  if (s.making) met_ = 0;  // whoever asks must not take this "no" for an answer
  return ((types & kArray) != 0 && has_case(s, kArray)) || ((types & kObject) != 0 && has_case(s, kObject));
}

bool Values::has_case(ValueSpec& spec, Types type) {
  const std::vector<int32_t> cases = type == kObject ? spec.objects : spec.arrays;
  return std::any_of(cases.begin(), cases.end(), [&](int32_t index) {
    return type == kObject ? object(index).satisfiable() : array(index).satisfiable();
  });
}

Status Values::prepare() {
  // Ids are given in the order of first mention, so this visits whatever the ones before lead to.
  conjunction({that(schema_->root())});
  for (ConjId id = 0; id < conjunctions_.size() && !failed(); ++id) {
    if (!satisfiable(id)) continue;
    ValueSpec& s = spec(id);
    std::erase_if(s.objects, [this](int32_t i) { return !object(i).satisfiable(); });
    std::erase_if(s.arrays, [this](int32_t i) { return !array(i).satisfiable(); });
    for (const int32_t i : std::vector(s.objects)) object(i).prepare();
    for (const int32_t i : std::vector(s.arrays)) array(i).prepare();
  }
  if (failure_) return *failure_;
  if (budget_.over())
    return Error{Code::kTooLarge,
                 budget_.late() ? "schema: compiling it takes too long" : "schema: its automaton outgrows the budget",
                 "/"};
  return ok_status();
}

}  // namespace pagoda::grammar
