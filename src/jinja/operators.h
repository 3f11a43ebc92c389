#pragma once
#include "core/result.h"
#include "jinja/runtime.h"
#include "jinja/value.h"

namespace pagoda::jinja {

enum class BinaryOp : uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

/// Python's arithmetic and concatenation. Errors: operand types, division by zero, an integer beyond 64 bits, the
/// budget.
Result<Value> binary(Runtime& rt, BinaryOp op, const Value& left, const Value& right);
Result<Value> negate(Runtime& rt, const Value& value);
Result<Value> plus(Runtime& rt, const Value& value);

Result<bool> compare(Runtime& rt, CompareOp op, const Value& left, const Value& right);
Result<bool> equal(Runtime& rt, const Value& left, const Value& right);
/// left < right; the message of an error names `symbol`.
Result<bool> less(Runtime& rt, const Value& left, const Value& right, const char* symbol = "<");
Result<bool> contains(Runtime& rt, const Value& container, const Value& item);

/// Stable sort by `keys` (same length as items), ascending or, with equal keys kept in order, descending: Python's
/// sorted().
Status sort_by(Runtime& rt, std::vector<Value>& items, const std::vector<Value>& keys, bool reverse);

}  // namespace pagoda::jinja
