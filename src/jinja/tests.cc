// Jinja's tests: `value is name(args)`. Source: jinja2.tests.TESTS.
#include "jinja/callable.h"
#include "jinja/loop.h"
#include "jinja/methods.h"
#include "jinja/operators.h"
#include "jinja/repr.h"
#include "jinja/utf8.h"

namespace pagoda::jinja {
namespace {

Value yes(bool b) { return Value::boolean(b); }

template <CompareOp op>
Result<Value> compared(Runtime& rt, Call& call) {
  PAGODA_TRY(const bool answer, compare(rt, op, call.self, call.args[0]));
  return yes(answer);
}

Result<Value> divisible(Runtime& rt, const Value& value, const Value& by, int64_t rest) {
  PAGODA_TRY(const Value remainder, binary(rt, BinaryOp::kMod, value, by));
  PAGODA_TRY(const bool same, equal(rt, remainder, Value::integer(rest)));
  return yes(same);
}

Result<Value> even(Runtime& rt, Call& call) { return divisible(rt, call.self, Value::integer(2), 0); }
Result<Value> odd(Runtime& rt, Call& call) { return divisible(rt, call.self, Value::integer(2), 1); }
Result<Value> divisibleby(Runtime& rt, Call& call) { return divisible(rt, call.self, call.args[0], 0); }

Result<Value> defined(Runtime&, Call& call) { return yes(!call.self.is_undefined()); }
Result<Value> undefined(Runtime&, Call& call) { return yes(call.self.is_undefined()); }
Result<Value> none(Runtime&, Call& call) { return yes(call.self.is_none()); }
Result<Value> boolean(Runtime&, Call& call) { return yes(call.self.is(Kind::kBool)); }
Result<Value> is_true(Runtime&, Call& call) { return yes(call.self.is(Kind::kBool) && call.self.as_int() == 1); }
Result<Value> is_false(Runtime&, Call& call) { return yes(call.self.is(Kind::kBool) && call.self.as_int() == 0); }
Result<Value> integer(Runtime&, Call& call) { return yes(call.self.is(Kind::kInt)); }
Result<Value> floating(Runtime&, Call& call) { return yes(call.self.is(Kind::kFloat)); }
Result<Value> number(Runtime&, Call& call) { return yes(call.self.is_number()); }
Result<Value> string(Runtime&, Call& call) { return yes(call.self.is_string()); }
Result<Value> mapping(Runtime&, Call& call) { return yes(call.self.is_dict()); }
Result<Value> escaped(Runtime&, Call& call) { return yes(call.self.is_markup()); }

Result<Value> callable(Runtime&, Call& call) {
  return yes(call.self.is(Kind::kCallable) || call.self.is(Kind::kLoop) || call.self.is_undefined());
}

Result<Value> iterable(Runtime& rt, Call& call) {
  return yes(call.self.is(Kind::kLoop) || Cursor::over(rt, call.self).ok());
}

// Python's test: it has a length and can be indexed; undefined has both methods.
Result<Value> sequence(Runtime& rt, Call& call) {
  if (call.self.is_undefined() && rt.environment().undefined == Undefined::kStrict) return undefined_error(call.self);
  const bool view = call.self.is_list() && call.self.list().kind > ListKind::kRange;
  return yes((call.self.is_list() && !view) || call.self.is_dict() || call.self.is_string() ||
             call.self.is_undefined());
}

template <const char* const& method>
Result<Value> cased(Runtime& rt, Call& call) {
  PAGODA_TRY(Str text, to_str(rt, call.self));
  return call_builtin(rt, *find_in(str_methods(), method), rt.str(std::move(text)), {});
}
constexpr const char* kIsLower = "islower";
constexpr const char* kIsUpper = "isupper";

Result<Value> sameas(Runtime& rt, Call& call) {
  const Value& other = call.args[0];
  if (call.self.kind() != other.kind()) return yes(false);
  if (call.self.object() != nullptr && !call.self.is_string()) return yes(call.self.object() == other.object());
  PAGODA_TRY(const bool same, equal(rt, call.self, other));  // small values are one object in Python
  return yes(same);
}

Result<Value> filter(Runtime&, Call& call) {
  return yes(call.self.is_string() && find_filter(call.self.view()) != nullptr);
}
Result<Value> test(Runtime&, Call& call) {
  return yes(call.self.is_string() && find_test(call.self.view()) != nullptr);
}

constexpr Builtin kTests[] = {
    {"!=", "other", 1, compared<CompareOp::kNe>},
    {"<", "other", 1, compared<CompareOp::kLt>},
    {"<=", "other", 1, compared<CompareOp::kLe>},
    {"==", "other", 1, compared<CompareOp::kEq>},
    {">", "other", 1, compared<CompareOp::kGt>},
    {">=", "other", 1, compared<CompareOp::kGe>},
    {"boolean", "", 0, boolean},
    {"callable", "", 0, callable},
    {"defined", "", 0, defined},
    {"divisibleby", "num", 1, divisibleby},
    {"eq", "other", 1, compared<CompareOp::kEq>},
    {"equalto", "other", 1, compared<CompareOp::kEq>},
    {"escaped", "", 0, escaped},
    {"even", "", 0, even},
    {"false", "", 0, is_false},
    {"filter", "", 0, filter},
    {"float", "", 0, floating},
    {"ge", "other", 1, compared<CompareOp::kGe>},
    {"greaterthan", "other", 1, compared<CompareOp::kGt>},
    {"gt", "other", 1, compared<CompareOp::kGt>},
    {"in", "seq", 1, compared<CompareOp::kIn>},
    {"integer", "", 0, integer},
    {"iterable", "", 0, iterable},
    {"le", "other", 1, compared<CompareOp::kLe>},
    {"lessthan", "other", 1, compared<CompareOp::kLt>},
    {"lower", "", 0, cased<kIsLower>},
    {"lt", "other", 1, compared<CompareOp::kLt>},
    {"mapping", "", 0, mapping},
    {"ne", "other", 1, compared<CompareOp::kNe>},
    {"none", "", 0, none},
    {"number", "", 0, number},
    {"odd", "", 0, odd},
    {"sameas", "other", 1, sameas},
    {"sequence", "", 0, sequence},
    {"string", "", 0, string},
    {"test", "", 0, test},
    {"true", "", 0, is_true},
    {"undefined", "", 0, undefined},
    {"upper", "", 0, cased<kIsUpper>},
};

}  // namespace

const Builtin* find_test(std::string_view name) { return find_in(kTests, name); }

}  // namespace pagoda::jinja
