#include "jinja/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "jinja/format.h"
#include "jinja/repr.h"

namespace pagoda::jinja {
namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

Error unsupported(BinaryOp op, const Value& left, const Value& right) {
  return failed(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", kSymbols[static_cast<size_t>(op)],
                            type_name(left), type_name(right)));
}

Error too_large() { return failed("an integer result needs more than 64 bits"); }

Result<Value> int_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return failed("0.0 cannot be raised to a negative power");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  for (int64_t factor = base; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, factor, &result)) return too_large();
    if (exponent > 1 && __builtin_mul_overflow(factor, factor, &factor)) return too_large();
  }
  return Value::integer(result);
}

// Floor division and its remainder, as Python rounds: towards minus infinity.
int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0); }

Result<Value> int_op(BinaryOp op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return too_large();
      return Value::integer(result);
    case BinaryOp::kSub:
      if (__builtin_sub_overflow(a, b, &result)) return too_large();
      return Value::integer(result);
    case BinaryOp::kMul:
      if (__builtin_mul_overflow(a, b, &result)) return too_large();
      return Value::integer(result);
    case BinaryOp::kDiv:
      if (b == 0) return failed("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMod:
      if (b == 0) return failed(op == BinaryOp::kMod ? "integer modulo by zero" : "integer division or modulo by zero");
      if (b == -1) return op == BinaryOp::kMod ? Value::integer(0) : int_op(BinaryOp::kSub, 0, a);
      return Value::integer(op == BinaryOp::kMod ? a - floor_div(a, b) * b : floor_div(a, b));
    case BinaryOp::kPow:
      return int_power(a, b);
  }
  return too_large();
}

Result<Value> float_op(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::real(a + b);
    case BinaryOp::kSub:
      return Value::real(a - b);
    case BinaryOp::kMul:
      return Value::real(a * b);
    case BinaryOp::kDiv:
      if (b == 0) return failed("float division by zero");
      return Value::real(a / b);
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMod: {
      if (b == 0) return failed(op == BinaryOp::kMod ? "float modulo" : "float floor division by zero");
      double rest = std::fmod(a, b);
      if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
      if (op == BinaryOp::kMod) return Value::real(rest == 0 ? std::copysign(0.0, b) : rest);
      return Value::real(std::round((a - rest) / b));
    }
    case BinaryOp::kPow:
      if (a == 0 && b < 0) return failed("0.0 cannot be raised to a negative power");
      if (a < 0 && b != std::floor(b)) return failed("a negative number has no real power with a fraction");
      if (std::isinf(std::pow(a, b)) && std::isfinite(a) && std::isfinite(b))
        return failed("(34, 'Numerical result out of range')");
      return Value::real(std::pow(a, b));
  }
  return too_large();
}

Result<Value> concat_strings(Runtime& rt, const Value& left, const Value& right) {
  if (!left.is_markup() && !right.is_markup()) {
    PAGODA_TRY_STATUS(rt.reserve(static_cast<int64_t>(left.as_str().size() + right.as_str().size())));
    Str out = left.as_str();
    out.append(right.as_str());
    return rt.str(std::move(out));
  }
  PAGODA_TRY(const Value a, escape(rt, left));
  PAGODA_TRY(const Value b, escape(rt, right));
  Builder out(rt);
  out.add(a.as_str());
  out.add(b.as_str());
  return rt.str(out.take(), true);
}

bool is_plain_sequence(const Value& value) {
  if (!value.is_list()) return false;
  const ListKind kind = value.list().kind;
  return kind == ListKind::kList || kind == ListKind::kTuple || kind == ListKind::kGroup;
}

ListKind plain_kind(const Value& value) {
  return value.list().kind == ListKind::kList ? ListKind::kList : ListKind::kTuple;
}

Result<Value> add(Runtime& rt, const Value& left, const Value& right) {
  if (left.is_string()) {
    if (right.is_string()) return concat_strings(rt, left, right);
    return failed(fmt::format("can only concatenate str (not \"{}\") to str", type_name(right)));
  }
  if (is_plain_sequence(left)) {
    const ListKind kind = plain_kind(left);
    if (!is_plain_sequence(right) || plain_kind(right) != kind) {
      const char* name = kind == ListKind::kList ? "list" : "tuple";
      return failed(fmt::format("can only concatenate {} (not \"{}\") to {}", name, type_name(right), name));
    }
    const auto count = left.items().size() + right.items().size();
    PAGODA_TRY_STATUS(rt.reserve(static_cast<int64_t>(count * sizeof(Value))));
    PAGODA_TRY_STATUS(rt.step(static_cast<int64_t>(count)));
    std::vector<Value> items;
    items.reserve(count);
    items.insert(items.end(), left.items().begin(), left.items().end());
    items.insert(items.end(), right.items().begin(), right.items().end());
    return rt.list(std::move(items), kind);
  }
  return unsupported(BinaryOp::kAdd, left, right);
}

Result<Value> repeat(Runtime& rt, const Value& sequence, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const bool text = sequence.is_string();
  const auto unit = text ? sequence.as_str().size() : sequence.items().size() * sizeof(Value);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<int64_t>(unit), times, &bytes)) bytes = std::numeric_limits<int64_t>::max();
  PAGODA_TRY_STATUS(rt.reserve(bytes));
  if (unit == 0) times = 0;
  PAGODA_TRY_STATUS(rt.step(text ? 1 : times * static_cast<int64_t>(sequence.items().size()) + 1));
  if (text) {
    Builder out(rt);
    for (int64_t i = 0; i < times; ++i) out.add(sequence.as_str());
    return rt.str(out.take(), sequence.is_markup());
  }
  std::vector<Value> items;
  for (int64_t i = 0; i < times; ++i) items.insert(items.end(), sequence.items().begin(), sequence.items().end());
  return rt.list(std::move(items), plain_kind(sequence));
}

bool is_repeatable(const Value& value) { return value.is_string() || is_plain_sequence(value); }

Result<bool> equal_lists(Runtime& rt, const Value& left, const Value& right) {
  if (left.items().size() != right.items().size()) return false;
  for (size_t i = 0; i < left.items().size(); ++i) {
    PAGODA_TRY(const bool same, equal(rt, left.items()[i], right.items()[i]));
    if (!same) return false;
  }
  return true;
}

Result<bool> equal_dicts(Runtime& rt, const DictObject& left, const DictObject& right) {
  if (left.entries.size() != right.entries.size()) return false;
  for (const auto& [key, value] : left.entries) {
    const Value* other = right.find(key);
    if (other == nullptr) return false;
    PAGODA_TRY(const bool same, equal(rt, value, *other));
    if (!same) return false;
  }
  return true;
}

ListKind comparable_kind(const Value& value) {
  const ListKind kind = value.list().kind;
  return kind == ListKind::kGroup ? ListKind::kTuple : kind;
}

}  // namespace

Result<Value> binary(Runtime& rt, BinaryOp op, const Value& left, const Value& right) {
  if (left.is_undefined()) {
    if (!(op == BinaryOp::kMod && right.is_string())) return undefined_error(left);
  }
  if (op == BinaryOp::kMod && left.is_string()) return percent_format(rt, left, right);
  if (left.is_undefined()) return undefined_error(left);
  if (right.is_undefined()) return undefined_error(right);
  if (left.is_integral() && right.is_integral()) return int_op(op, left.as_int(), right.as_int());
  if (left.is_number() && right.is_number()) return float_op(op, left.as_float(), right.as_float());
  if (op == BinaryOp::kAdd) return add(rt, left, right);
  if (op == BinaryOp::kMul && is_repeatable(left) && right.is_integral()) return repeat(rt, left, right.as_int());
  if (op == BinaryOp::kMul && is_repeatable(right) && left.is_integral()) return repeat(rt, right, left.as_int());
  if (op == BinaryOp::kMul && (is_repeatable(left) || is_repeatable(right)))
    return failed(
        fmt::format("can't multiply sequence by non-int of type '{}'", type_name(is_repeatable(left) ? right : left)));
  return unsupported(op, left, right);
}

Result<Value> negate(Runtime&, const Value& value) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_integral()) return int_op(BinaryOp::kSub, 0, value.as_int());
  if (value.is_number()) return Value::real(-value.as_float());
  return failed("bad operand type for unary -: " + in_quotes(type_name(value)));
}

Result<Value> plus(Runtime&, const Value& value) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_integral()) return Value::integer(value.as_int());
  if (value.is_number()) return value;
  return failed("bad operand type for unary +: " + in_quotes(type_name(value)));
}

Result<bool> equal(Runtime& rt, const Value& left, const Value& right) {
  PAGODA_TRY_STATUS(rt.step());
  if (left.is_undefined() || right.is_undefined()) {
    if (rt.environment().undefined == Undefined::kStrict) return undefined_error(left.is_undefined() ? left : right);
    return left.kind() == right.kind();
  }
  if (left.is_integral() && right.is_integral()) return left.as_int() == right.as_int();
  if (left.is_number() && right.is_number()) {
    const auto wide = [](const Value& v) {  // 64 bits of mantissa: every int64 is exact
      return v.is_integral() ? static_cast<long double>(v.as_int()) : static_cast<long double>(v.as_float());
    };
    return wide(left) == wide(right);
  }
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kNone:
      return true;
    case Kind::kString:
      return left.view() == right.view();
    case Kind::kDict:
      return left.object() == right.object() ? Result<bool>(true) : equal_dicts(rt, left.dict(), right.dict());
    case Kind::kList:
      if (left.object() == right.object()) return true;
      if (comparable_kind(left) != comparable_kind(right) || left.list().kind == ListKind::kIterator) return false;
      return equal_lists(rt, left, right);
    default:
      return left.object() == right.object();
  }
}

Result<bool> less(Runtime& rt, const Value& left, const Value& right, const char* symbol) {
  PAGODA_TRY_STATUS(rt.step());
  if (left.is_undefined()) return undefined_error(left);
  if (right.is_undefined()) return undefined_error(right);
  if (left.is_integral() && right.is_integral()) return left.as_int() < right.as_int();
  if (left.is_number() && right.is_number()) return left.as_float() < right.as_float();
  if (left.is_string() && right.is_string()) return left.view() < right.view();
  if (is_plain_sequence(left) && is_plain_sequence(right) && comparable_kind(left) == comparable_kind(right)) {
    const size_t common = std::min(left.items().size(), right.items().size());
    for (size_t i = 0; i < common; ++i) {
      PAGODA_TRY(const bool same, equal(rt, left.items()[i], right.items()[i]));
      if (!same) return less(rt, left.items()[i], right.items()[i], symbol);
    }
    return left.items().size() < right.items().size();
  }
  return failed(
      fmt::format("'{}' not supported between instances of '{}' and '{}'", symbol, type_name(left), type_name(right)));
}

Result<bool> contains(Runtime& rt, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.is_string()) return failed("'in <string>' requires string as left operand, not " + type_name(item));
      return container.view().find(item.view()) != std::string_view::npos;
    case Kind::kDict:
      if (!DictObject::hashable(item)) return failed("unhashable type: " + in_quotes(type_name(item)));
      return container.dict().find(item) != nullptr;
    case Kind::kList:
    case Kind::kUndefined: {
      PAGODA_TRY(Cursor cursor, Cursor::over(rt, container));
      for (Value candidate;;) {
        PAGODA_TRY(const bool more, cursor.next(candidate));
        if (!more) return false;
        PAGODA_TRY(const bool same, equal(rt, candidate, item));
        if (same) return true;
      }
    }
    default:
      return failed("argument of type " + in_quotes(type_name(container)) + " is not iterable");
  }
}

Result<bool> compare(Runtime& rt, CompareOp op, const Value& left, const Value& right) {
  bool flip = false;
  Result<bool> answer = false;
  switch (op) {
    case CompareOp::kEq:
    case CompareOp::kNe:
      answer = equal(rt, left, right);
      flip = op == CompareOp::kNe;
      break;
    case CompareOp::kLt:
      return less(rt, left, right, "<");
    case CompareOp::kGt: {
      if (left.is_undefined()) return undefined_error(left);
      Result<bool> other = less(rt, right, left, "<");
      if (other.ok() || right.is_undefined()) return other;
      return less(rt, left, right, ">");
    }
    case CompareOp::kLe:
    case CompareOp::kGe: {
      // Not `not (b < a)`: with a NaN both are false.
      const char* symbol = op == CompareOp::kLe ? "<=" : ">=";
      answer = op == CompareOp::kLe ? less(rt, left, right, symbol) : less(rt, right, left, symbol);
      if (!answer.ok()) return less(rt, left, right, symbol);
      if (answer.value()) return true;
      return equal(rt, left, right);
    }
    case CompareOp::kIn:
    case CompareOp::kNotIn:
      answer = contains(rt, right, left);
      flip = op == CompareOp::kNotIn;
      break;
  }
  if (!answer.ok()) return answer;
  return answer.value() != flip;
}

Status sort_by(Runtime& rt, std::vector<Value>& items, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Python reverses, sorts and reverses back: equal keys keep their order in both directions.
  if (reverse) std::reverse(order.begin(), order.end());
  Status status = ok_status();
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (!status.ok()) return false;
    const Result<bool> before = less(rt, keys[a], keys[b]);
    if (!before.ok()) status = before.error();
    return before.ok() && before.value();
  });
  PAGODA_TRY_STATUS(status);
  if (reverse) std::reverse(order.begin(), order.end());
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const size_t i : order) sorted.push_back(items[i]);
  items = std::move(sorted);
  return ok_status();
}

}  // namespace pagoda::jinja
