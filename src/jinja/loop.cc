#include "jinja/loop.h"

#include <fmt/format.h>

#include "jinja/operators.h"

namespace pagoda::jinja {
namespace {

Result<Value> cycle(Runtime&, Call& call) {
  if (call.raw.positional.empty()) return failed("no items for cycling given");
  const auto count = static_cast<int64_t>(call.raw.positional.size());
  return call.raw.positional[static_cast<size_t>(call.self.loop().index0 % count)];
}

Result<Value> changed(Runtime& rt, Call& call) {
  const Value now = rt.tuple(std::move(call.raw.positional));
  LoopObject& loop = call.self.loop();
  if (!loop.last_changed.is_missing()) {
    PAGODA_TRY(const bool same, equal(rt, loop.last_changed, now));
    if (same) return Value::boolean(false);
  }
  loop.last_changed = now;
  return Value::boolean(true);
}

constexpr Builtin kCycle{"cycle", "*", 0, cycle};
constexpr Builtin kChanged{"changed", "*", 0, changed};

Result<Value> number(const Result<int64_t>& value, int64_t minus) {
  if (!value.ok()) return value.error();
  return Value::integer(value.value() - minus);
}

}  // namespace

Result<Value> LoopObject::draw() {
  if (drawn_at < drawn.size()) return drawn[drawn_at++];
  if (drawn_all) return Value();
  for (Value item;;) {
    PAGODA_TRY(const bool more, cursor.next(item));
    if (!more) {
      drawn_all = true;
      return Value();
    }
    if (filter == nullptr) return item;
    PAGODA_TRY(const bool wanted, filter->accepts(item));
    if (wanted) return item;
  }
}

Result<Value> LoopObject::peek() {
  if (after.is_missing()) {
    PAGODA_TRY(after, draw());
  }
  return after;
}

Result<bool> LoopObject::advance() {
  PAGODA_TRY(Value item, peek());
  if (item.is_missing()) return false;
  ++index0;
  before = std::move(current);
  current = std::move(item);
  after = Value();
  return true;
}

Result<int64_t> LoopObject::length(Runtime& rt) {
  if (known_length >= 0) return known_length;
  const bool sized = filter == nullptr && !(iterable.is_list() && iterable.list().kind == ListKind::kIterator);
  if (sized) {
    PAGODA_TRY(known_length, rt.length(iterable));
    return known_length;
  }
  std::vector<Value> rest;
  for (;;) {
    PAGODA_TRY(Value item, draw());
    if (item.is_missing()) break;
    PAGODA_TRY_STATUS(rt.reserve(static_cast<int64_t>(rest.size() * sizeof(Value))));
    rest.push_back(std::move(item));
  }
  drawn = std::move(rest);
  drawn_at = 0;
  drawn_all = true;
  known_length = static_cast<int64_t>(drawn.size()) + index0 + 1 + (after.is_missing() ? 0 : 1);
  return known_length;
}

Result<Value> loop_attribute(Runtime& rt, const Value& value, std::string_view name) {
  LoopObject& loop = value.loop();
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "length") return number(loop.length(rt), 0);
  if (name == "revindex") return number(loop.length(rt), loop.index0);
  if (name == "revindex0") return number(loop.length(rt), loop.index0 + 1);
  if (name == "last" || name == "nextitem") {
    PAGODA_TRY(Value next, loop.peek());
    if (name == "last") return Value::boolean(next.is_missing());
    return next.is_missing() ? rt.undefined_hint("there is no next item") : next;
  }
  if (name == "previtem") return loop.index0 == 0 ? rt.undefined_hint("there is no previous item") : loop.before;
  if (name == "cycle") return bind_method(rt, value, kCycle);
  if (name == "changed") return bind_method(rt, value, kChanged);
  return Value();
}

Result<Value> call_loop(Runtime& rt, const Value& value, Args args) {
  CallableObject* recurse = value.loop().recurse;
  if (recurse == nullptr) return failed("The loop must have the 'recursive' marker to be called recursively.");
  if (args.positional.size() != 1 || !args.named.empty()) return failed("loop() takes one iterable");
  args.positional.push_back(Value::integer(value.loop().depth0 + 1));
  return recurse->call(rt, std::move(args));
}

Result<std::string> loop_repr(Runtime& rt, const Value& value) {
  PAGODA_TRY(const int64_t length, value.loop().length(rt));
  return fmt::format("<LoopContext {}/{}>", value.loop().index0 + 1, length);
}

}  // namespace pagoda::jinja
