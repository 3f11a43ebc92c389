// Filters that choose: by another filter, by a test, by an attribute, by definedness.
#include <algorithm>

#include "jinja/filters.h"
#include "jinja/methods.h"
#include "jinja/numbers.h"
#include "jinja/repr.h"
#include "jinja/text_ops.h"

namespace pagoda::jinja {

AttributePath AttributePath::parse(Runtime& rt, const Value& path) {
  AttributePath out;
  if (path.is_none() || path.is_missing()) return out;
  if (!path.is_string()) {
    out.parts_.push_back(path);
    return out;
  }
  const auto parts = split(rt, path.as_str(), ".", -1, false);
  if (!parts.ok()) return out;
  for (const Str& part : parts.value()) {
    const std::string_view text = part.view();
    const bool digits =
        !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    const auto number = digits ? parse_int(text, 10) : std::nullopt;
    out.parts_.push_back(number ? Value::integer(*number) : rt.str(part));
  }
  return out;
}

Result<Value> AttributePath::get(Runtime& rt, const Value& item, const Value& absent) const {
  Value value = item;
  for (const Value& part : parts_) {
    PAGODA_TRY(value, rt.get_item(value, part));
    if (value.is_undefined() && !absent.is_missing()) value = absent;
  }
  return value;
}

Value fold_case(Runtime& rt, const Value& value) {
  return value.is_string() ? rt.str(lower(rt, value.as_str()), value.is_markup()) : value;
}

namespace {

Result<Value> default_filter(Runtime&, Call& call) {
  const bool replace = call.self.is_undefined() || (call.flag(1) && !truthy(call.self));
  if (!replace) return call.self;
  return call.has(0) ? call.args[0] : Value::string("");
}

Result<Value> attr(Runtime& rt, Call& call) {
  const Value& name = call.args[0];
  if (!name.is_string()) return failed("attribute name must be string, not " + in_quotes(type_name(name)));
  if (call.self.is_undefined()) return undefined_error(call.self);
  // Unlike the dot, it does not fall back to items.
  PAGODA_TRY(const Value found, rt.get_attribute(call.self, name));
  if (call.self.is_dict() && find_method(call.self, name.view()) == nullptr &&
      call.self.dict().find(name.view()) != nullptr)
    return rt.undefined_attribute(call.self, name);
  return found;
}

// The rest of the work of map, select and their kin, given what to do with an item: missing drops it.
template <class Fn>
Result<Value> lazily(Runtime& rt, const Value& iterable, Fn fn) {
  PAGODA_TRY(const bool any, rt.truth(iterable));
  if (!any) return rt.iterator({});
  Result<Cursor> cursor = Cursor::over(rt, iterable);
  if (!cursor.ok()) return rt.iterator({}, "generator", cursor.error());
  std::vector<Value> out;
  for (Value item;;) {
    const Result<bool> more = cursor.value().next(item);
    if (!more.ok()) return rt.iterator(std::move(out), "generator", more.error());
    if (!more.value()) return rt.iterator(std::move(out));
    Result<Value> kept = fn(item);
    // A generator fails where it is read: what came before is still there.
    if (!kept.ok()) return rt.iterator(std::move(out), "generator", kept.error());
    if (kept.value().is_missing()) continue;
    PAGODA_TRY_STATUS(rt.reserve(static_cast<int64_t>(out.size() * sizeof(Value))));
    out.push_back(std::move(kept).take());
  }
}

Result<Value> map(Runtime& rt, Call& call) {
  Args& args = call.raw;
  if (args.positional.empty()) {
    const Value attribute = args.take("attribute");
    if (attribute.is_missing()) return failed("map requires a filter argument");
    const Value absent = args.take("default");
    if (!args.named.empty()) return failed("Unexpected keyword argument " + in_quotes(args.named[0].first));
    const AttributePath path = AttributePath::parse(rt, attribute);
    const Value replacement = absent.is_none() ? Value() : absent;
    return lazily(rt, call.self, [&](const Value& item) { return path.get(rt, item, replacement); });
  }
  const Value name = args.positional[0];
  const Builtin* filter = name.is_string() ? find_filter(name.view()) : nullptr;
  args.positional.erase(args.positional.begin());
  return lazily(rt, call.self, [&](const Value& item) -> Result<Value> {
    if (filter == nullptr) return failed("No filter named " + short_repr(rt, name) + " found.");
    return call_builtin(rt, *filter, item, args);
  });
}

Result<Value> choose(Runtime& rt, Call& call, bool wanted, bool by_attribute) {
  Args& args = call.raw;
  AttributePath path;
  if (by_attribute) {
    if (args.positional.empty()) return failed("Missing parameter for attribute name");
    path = AttributePath::parse(rt, args.positional[0]);
    args.positional.erase(args.positional.begin());
  }
  Value name;
  if (!args.positional.empty()) {
    name = args.positional[0];
    args.positional.erase(args.positional.begin());
  }
  const Builtin* test = name.is_string() ? find_test(name.view()) : nullptr;
  return lazily(rt, call.self, [&](const Value& item) -> Result<Value> {
    PAGODA_TRY(const Value tested, path.get(rt, item));
    Value verdict = tested;
    if (!name.is_missing()) {
      if (test == nullptr) return failed("No test named " + short_repr(rt, name) + " found.");
      PAGODA_TRY(verdict, call_builtin(rt, *test, tested, args));
    }
    PAGODA_TRY(const bool passes, rt.truth(verdict));
    return passes == wanted ? item : Value();
  });
}

Result<Value> select(Runtime& rt, Call& call) { return choose(rt, call, true, false); }
Result<Value> reject(Runtime& rt, Call& call) { return choose(rt, call, false, false); }
Result<Value> selectattr(Runtime& rt, Call& call) { return choose(rt, call, true, true); }
Result<Value> rejectattr(Runtime& rt, Call& call) { return choose(rt, call, false, true); }

constexpr Builtin kSelectingFilters[] = {
    {"attr", "name", 1, attr},
    {"d", "default_value boolean", 0, default_filter},
    {"default", "default_value boolean", 0, default_filter},
    {"map", "*", 0, map},
    {"reject", "*", 0, reject},
    {"rejectattr", "*", 0, rejectattr},
    {"select", "*", 0, select},
    {"selectattr", "*", 0, selectattr},
};

}  // namespace

std::span<const Builtin> selecting_filters() { return kSelectingFilters; }

const Builtin* find_filter(std::string_view name) {
  for (const auto table : {selecting_filters(), text_filters(), sequence_filters(), html_filters(), number_filters()})
    if (const Builtin* found = find_in(table, name)) return found;
  return nullptr;
}

}  // namespace pagoda::jinja
