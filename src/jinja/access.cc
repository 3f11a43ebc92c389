// Runtime's access to attributes, items and slices, as Jinja's immutable sandbox does it.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "jinja/loop.h"
#include "jinja/repr.h"
#include "jinja/runtime.h"
#include "jinja/utf8.h"

namespace pagoda::jinja {
namespace {

constexpr std::array<std::string_view, 8> kListMutators{"append", "clear",  "extend",  "insert",
                                                        "pop",    "remove", "reverse", "sort"};
constexpr std::array<std::string_view, 5> kDictMutators{"clear", "pop", "popitem", "setdefault", "update"};

bool mutates(const Value& object, std::string_view name) {
  const auto in = [name](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (object.is_dict()) return in(kDictMutators);
  return object.is_list() && object.list().kind == ListKind::kList && in(kListMutators);
}

bool is_dunder(std::string_view name) { return name.size() > 4 && name.starts_with("__") && name.ends_with("__"); }

Value unsafe_attribute(Runtime& rt, const Value& object, std::string_view name) {
  return rt.undefined_hint(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
}

Result<Value> at_index(Runtime& rt, const Value& object, int64_t index) {
  if (object.is_list() && object.list().kind != ListKind::kIterator && object.list().kind != ListKind::kKeys &&
      object.list().kind != ListKind::kValues && object.list().kind != ListKind::kItems) {
    const auto size = static_cast<int64_t>(object.items().size());
    if (index < 0) index += size;
    return index >= 0 && index < size ? object.items()[static_cast<size_t>(index)] : Value();
  }
  if (object.is_string()) {
    const std::string_view text = object.view();
    const int64_t length = utf8::length(text);
    if (index < 0) index += length;
    if (index < 0 || index >= length) return Value();
    const size_t begin = utf8::offset(text, index);
    return rt.str(object.as_str().substr(begin, utf8::char_bytes(text, begin)), object.is_markup());
  }
  return Value();
}

struct SliceBounds {
  int64_t start;
  int64_t stop;
  int64_t step;
};

Result<int64_t> slice_index(const Value& index, int64_t absent) {
  if (index.is_missing() || index.is_none()) return absent;
  if (index.is_undefined()) return undefined_error(index);
  if (!index.is_integral()) return failed("slice indices must be integers or None or have an __index__ method");
  return index.as_int();
}

// Python's slice.indices(length).
Result<SliceBounds> slice_bounds(const Value& start, const Value& stop, const Value& step, int64_t length) {
  PAGODA_TRY(const int64_t by, slice_index(step, 1));
  if (by == 0) return failed("slice step cannot be zero");
  if (by < -length - 1) return slice_bounds(start, stop, Value::integer(-length - 1), length);
  const int64_t lowest = by < 0 ? -1 : 0;
  const int64_t highest = by < 0 ? length - 1 : length;
  const auto clip = [&](int64_t index) {
    if (index < 0) index = index < -length ? lowest : index + length;
    return std::clamp(index, lowest, highest);
  };
  const bool no_start = start.is_missing() || start.is_none();
  const bool no_stop = stop.is_missing() || stop.is_none();
  PAGODA_TRY(const int64_t first, slice_index(start, 0));
  PAGODA_TRY(const int64_t last, slice_index(stop, 0));
  return SliceBounds{no_start ? (by < 0 ? highest : lowest) : clip(first),
                     no_stop ? (by < 0 ? lowest : highest) : clip(last), by};
}

Result<Value> slice_string(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step) {
  const Str& str = object.as_str();
  const std::string_view text = str.view();
  PAGODA_TRY(const SliceBounds bounds, slice_bounds(start, stop, step, utf8::length(text)));
  Builder out(rt);
  if (bounds.step == 1) {
    const size_t begin = utf8::offset(text, bounds.start);
    const int64_t chars = std::max<int64_t>(bounds.stop - bounds.start, 0);
    out.add(str, begin, utf8::offset(text.substr(begin), chars));
    return rt.str(out.take(), object.is_markup());
  }
  std::vector<size_t> offsets;
  PAGODA_TRY_STATUS(rt.reserve(static_cast<int64_t>(text.size() * sizeof(size_t))));
  for (size_t pos = 0; pos < text.size(); pos += utf8::char_bytes(text, pos)) offsets.push_back(pos);
  for (int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop; i += bounds.step) {
    const size_t pos = offsets[static_cast<size_t>(i)];
    out.add(str, pos, utf8::char_bytes(text, pos));
    if (bounds.step > 0 && i > INT64_MAX - bounds.step) break;
  }
  return rt.str(out.take(), object.is_markup());
}

}  // namespace

Result<Value> Runtime::find_attribute(const Value& object, std::string_view name) {
  if (object.is(Kind::kLoop)) return loop_attribute(*this, object, name);
  if (object.is(Kind::kNamespace)) {
    const Value* found = object.dict().find(name);
    return found != nullptr ? *found : Value();
  }
  if (object.is(Kind::kCallable)) {
    PAGODA_TRY(Value found, object.callable().attribute(*this, object, name));
    return found.is_missing() && is_dunder(name) ? unsafe_attribute(*this, object, name) : found;
  }
  if (object.is_list() && object.list().kind == ListKind::kGroup && (name == "grouper" || name == "list"))
    return object.items()[name == "list" ? 1 : 0];
  if (mutates(object, name)) return unsafe_attribute(*this, object, name);
  if (const Builtin* method = find_method(object, name)) return bind_method(*this, object, *method);
  if (is_dunder(name)) return unsafe_attribute(*this, object, name);
  return Value();
}

Result<Value> Runtime::find_item(const Value& object, const Value& key) {
  if (object.is_dict()) {
    if (!DictObject::hashable(key)) return Value();
    const Value* found = object.dict().find(key);
    return found != nullptr ? *found : Value();
  }
  if (key.is_integral()) return at_index(*this, object, key.as_int());
  return Value();
}

Result<Value> Runtime::get_attribute(const Value& object, const Value& name) {
  PAGODA_TRY_STATUS(step());
  if (object.is_undefined()) {
    if (environment_.undefined == Undefined::kChainable) return object;
    return undefined_error(object);
  }
  PAGODA_TRY(Value found, find_attribute(object, name.view()));
  if (!found.is_missing()) return found;
  PAGODA_TRY(found, find_item(object, name));
  return found.is_missing() ? undefined_attribute(object, name) : found;
}

Result<Value> Runtime::get_item(const Value& object, const Value& key) {
  PAGODA_TRY_STATUS(step());
  if (object.is_undefined()) {
    if (environment_.undefined == Undefined::kChainable) return object;
    return undefined_error(object);
  }
  PAGODA_TRY(Value found, find_item(object, key));
  if (!found.is_missing()) return found;
  if (key.is_string()) {
    PAGODA_TRY(found, find_attribute(object, key.view()));
    if (!found.is_missing()) return found;
  }
  return undefined_attribute(object, key);
}

Result<Value> Runtime::get_slice(const Value& object, const Value& start, const Value& stop, const Value& by) {
  PAGODA_TRY_STATUS(step());
  if (object.is_undefined()) return undefined_error(object);
  if (object.is_string()) return slice_string(*this, object, start, stop, by);
  if (object.is_dict()) return failed("unhashable type: 'slice'");
  if (!object.is_list() || object.list().kind == ListKind::kIterator || object.list().kind > ListKind::kIterator)
    return failed(in_quotes(type_name(object)) + " object is not subscriptable");
  const std::vector<Value>& items = object.items();
  PAGODA_TRY(const SliceBounds bounds, slice_bounds(start, stop, by, static_cast<int64_t>(items.size())));
  std::vector<Value> out;
  for (int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop; i += bounds.step) {
    out.push_back(items[static_cast<size_t>(i)]);
    if (bounds.step > 0 && i > INT64_MAX - bounds.step) break;
  }
  PAGODA_TRY_STATUS(step(static_cast<int64_t>(out.size())));
  if (object.list().kind == ListKind::kRange) {
    const int64_t* range = object.list().range;
    return this->range(range[0] + bounds.start * range[2], range[0] + bounds.stop * range[2], range[2] * bounds.step,
                       static_cast<int64_t>(out.size()));
  }
  return list(std::move(out), object.list().kind == ListKind::kList ? ListKind::kList : ListKind::kTuple);
}

}  // namespace pagoda::jinja
