#include "jinja/runtime.h"

#include "jinja/loop.h"
#include "jinja/repr.h"
#include "jinja/utf8.h"

namespace pagoda::jinja {

Error failed(std::string message) { return Error{Code::kInvalidRequest, std::move(message)}; }
Error undefined_error(const Value& undefined) { return failed(undefined.undefined().message); }

Value Args::take(std::string_view name) {
  for (size_t i = 0; i < named.size(); ++i) {
    if (named[i].first != name) continue;
    Value value = std::move(named[i].second);
    named.erase(named.begin() + static_cast<std::ptrdiff_t>(i));
    return value;
  }
  return Value();
}

Runtime::Runtime(const Environment& environment, const Budget& budget, int64_t today_unix_s)
    : autoescape(environment.autoescape), environment_(environment), budget_(budget), today_unix_s_(today_unix_s) {
  account_.limit_bytes = budget.memory_bytes_max;
}

Runtime::~Runtime() {
  // Namespaces and closures may hold each other: emptying them breaks every cycle, one object at a time.
  for (const auto& object : kept_) object->clear();
}

Status Runtime::step(int64_t count) {
  steps_ += count;
  if (steps_ > budget_.steps_max)
    return failed("the template took more than " + std::to_string(budget_.steps_max) + " steps");
  if (account_.exceeded)
    return failed("the template needs more than " + std::to_string(budget_.memory_bytes_max) + " bytes of memory");
  if (nesting_exceeded_) return failed("the template nests values more than " + std::to_string(kNestingMax) + " deep");
  return ok_status();
}

Status Runtime::enter() {
  if (depth_ >= budget_.depth_max)
    return failed("the template nests expressions, blocks and calls more than " + std::to_string(budget_.depth_max) +
                  " deep");
  ++depth_;
  return step();
}

Status Runtime::reserve(int64_t bytes) {
  if (account_.room(bytes)) return ok_status();
  account_.exceeded = true;
  return step();
}

void Runtime::charge(Object& object, int64_t bytes) {
  constexpr int64_t kOverhead = 64;  // allocator and control block
  object.account = &account_;
  object.charged_bytes = bytes + kOverhead;
  account_.take(object.charged_bytes);
  if (object.nesting > kNestingMax) nesting_exceeded_ = true;
}

Value Runtime::str(Str s, bool markup) {
  auto object = std::make_shared<StringObject>(std::move(s), markup);
  charge(*object, static_cast<int64_t>(sizeof(StringObject) + object->str.heap_bytes()));
  return Value::of(Kind::kString, std::move(object));
}

Value Runtime::list(std::vector<Value> items, ListKind kind) {
  auto object = std::make_shared<ListObject>(kind, std::move(items));
  for (const Value& item : object->items) object->nesting = std::max(object->nesting, item.nesting() + 1);
  charge(*object, static_cast<int64_t>(sizeof(ListObject) + object->items.capacity() * sizeof(Value)));
  // A value nested too deep is never handed out: dropping it level by level would recurse as deep.
  if (object->nesting > kNestingMax) object->items.clear(), object->nesting = 0;
  return Value::of(Kind::kList, std::move(object));
}

Value Runtime::iterator(std::vector<Value> items, const char* type, std::optional<Error> failure) {
  Value value = list(std::move(items), ListKind::kIterator);
  value.list().iterator_type = type;
  value.list().failure = std::move(failure);
  return value;
}

Value Runtime::range(int64_t start, int64_t stop, int64_t step, int64_t count) {
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) items.push_back(Value::integer(start + i * step));
  Value value = list(std::move(items), ListKind::kRange);
  value.list().range[0] = start;
  value.list().range[1] = stop;
  value.list().range[2] = step;
  return value;
}

Value Runtime::dict(std::shared_ptr<DictObject> object) {
  constexpr size_t kIndexEntry = 96;
  charge(*object, static_cast<int64_t>(sizeof(DictObject) + object->entries.capacity() * 2 * sizeof(Value) +
                                       (object->entries.size() > 8 ? object->entries.size() * kIndexEntry : 0)));
  if (object->nesting > kNestingMax) object->entries.clear(), object->nesting = 0;
  return Value::of(Kind::kDict, std::move(object));
}

Value Runtime::name_space(std::shared_ptr<DictObject> object) {
  charge(*object, static_cast<int64_t>(sizeof(DictObject)) + 512);
  keep(object);
  return Value::of(Kind::kNamespace, std::move(object));
}

namespace {

Value make_undefined(Runtime& rt, std::string message, std::string debug) {
  auto object = std::make_shared<UndefinedObject>();
  object->message = std::move(message);
  object->debug = std::move(debug);
  rt.charge(*object, static_cast<int64_t>(sizeof(UndefinedObject) + object->message.size() + object->debug.size()));
  return Value::of(Kind::kUndefined, std::move(object));
}

}  // namespace

Value Runtime::undefined_name(std::string_view name) {
  return make_undefined(*this, in_quotes(name) + " is undefined", std::string(name));
}

Value Runtime::undefined_attribute(const Value& object, const Value& name) {
  const std::string type = object_type(object);
  const std::string shown = short_repr(*this, name);
  const std::string debug = "no such element: " + type + "[" + shown + "]";
  if (name.is_string()) return make_undefined(*this, in_quotes(type) + " has no attribute " + shown, debug);
  return make_undefined(*this, type + " has no element " + shown, debug);
}

Value Runtime::undefined_hint(std::string message) {
  return make_undefined(*this, message, "undefined value printed: " + message);
}

Result<bool> Runtime::truth(const Value& value) {
  if (value.is_undefined() && environment_.undefined == Undefined::kStrict) return undefined_error(value);
  return truthy(value);
}

Result<int64_t> Runtime::length(const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return utf8::length(value.view());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().entries.size());
    case Kind::kUndefined:
      if (environment_.undefined == Undefined::kStrict) return undefined_error(value);
      return int64_t{0};
    case Kind::kList:
      if (value.list().kind != ListKind::kIterator) return static_cast<int64_t>(value.items().size());
      break;
    case Kind::kLoop: {
      PAGODA_TRY(const Value count, get_attribute(value, Value::string("length")));
      return count.as_int();
    }
    default:
      break;
  }
  return failed("object of type " + in_quotes(type_name(value)) + " has no len()");
}

Result<std::vector<Value>> Runtime::to_vector(const Value& iterable) {
  PAGODA_TRY(Cursor cursor, Cursor::over(*this, iterable));
  std::vector<Value> items;
  for (Value item;;) {
    PAGODA_TRY(const bool more, cursor.next(item));
    if (!more) return items;
    if (items.size() == items.capacity())
      PAGODA_TRY_STATUS(reserve(static_cast<int64_t>(items.size() * 2 * sizeof(Value))));
    items.push_back(std::move(item));
  }
}

Result<Value> Runtime::call(const Value& callee, Args args) {
  if (callee.is_undefined()) return undefined_error(callee);
  if (callee.is(Kind::kLoop)) return call_loop(*this, callee, std::move(args));
  if (!callee.is(Kind::kCallable)) return failed(in_quotes(type_name(callee)) + " object is not callable");
  return callee.callable().call(*this, std::move(args));
}

Result<Cursor> Cursor::over(Runtime& rt, const Value& iterable) {
  switch (iterable.kind()) {
    case Kind::kList:
    case Kind::kString:
    case Kind::kDict:
      return Cursor(rt, iterable);
    case Kind::kUndefined:
      if (rt.environment().undefined == Undefined::kStrict) return undefined_error(iterable);
      return Cursor(rt, iterable);
    default:
      return failed(in_quotes(type_name(iterable)) + " object is not iterable");
  }
}

Result<bool> Cursor::next(Value& out) {
  PAGODA_TRY_STATUS(rt_->step());
  switch (iterable_.kind()) {
    case Kind::kList: {
      ListObject& list = iterable_.list();
      size_t& at = list.kind == ListKind::kIterator ? list.consumed : at_;
      if (at < list.items.size()) {
        out = list.items[at++];
        return true;
      }
      if (list.failure) return *std::exchange(list.failure, std::nullopt);
      return false;
    }
    case Kind::kString: {
      const Str& str = iterable_.as_str();
      if (at_ >= str.size()) return false;
      const size_t bytes = utf8::char_bytes(str.view(), at_);
      out = rt_->str(str.substr(at_, bytes), iterable_.is_markup());
      at_ += bytes;
      return true;
    }
    case Kind::kDict: {
      const auto& entries = iterable_.dict().entries;
      if (at_ >= entries.size()) return false;
      out = entries[at_++].first;
      return true;
    }
    default:
      return false;
  }
}

}  // namespace pagoda::jinja
