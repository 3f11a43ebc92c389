// Filters on sequences and mappings as a whole.
#include <algorithm>
#include <unordered_set>

#include "jinja/filters.h"
#include "jinja/operators.h"
#include "jinja/repr.h"
#include "jinja/text_ops.h"

namespace pagoda::jinja {
namespace {

Result<Value> length(Runtime& rt, Call& call) {
  PAGODA_TRY(const int64_t count, rt.length(call.self));
  return Value::integer(count);
}

Result<Value> list(Runtime& rt, Call& call) {
  PAGODA_TRY(std::vector<Value> items, rt.to_vector(call.self));
  return rt.list(std::move(items));
}

Result<Value> items(Runtime& rt, Call& call) {
  if (call.self.is_undefined()) return rt.iterator({});
  if (!call.self.is_dict()) return rt.iterator({}, "generator", failed("Can only get item pairs from a mapping."));
  std::vector<Value> pairs;
  for (const auto& [key, value] : call.self.dict().entries) {
    PAGODA_TRY_STATUS(rt.step());
    pairs.push_back(rt.tuple({key, value}));
  }
  return rt.iterator(std::move(pairs));
}

Result<Value> first(Runtime& rt, Call& call) {
  PAGODA_TRY(Cursor cursor, Cursor::over(rt, call.self));
  Value item;
  PAGODA_TRY(const bool more, cursor.next(item));
  return more ? item : rt.undefined_hint("No first item, sequence was empty.");
}

bool reversible(const Value& value) {
  return value.is_string() || value.is_dict() || (value.is_list() && value.list().kind != ListKind::kIterator);
}

Result<Value> last(Runtime& rt, Call& call) {
  if (!reversible(call.self)) {
    if (call.self.is_undefined()) return undefined_error(call.self);
    return failed(in_quotes(type_name(call.self)) + " object is not reversible");
  }
  PAGODA_TRY(const std::vector<Value> all, rt.to_vector(call.self));
  return all.empty() ? rt.undefined_hint("No last item, sequence was empty.") : all.back();
}

Result<Value> reverse(Runtime& rt, Call& call) {
  if (call.self.is_string()) return rt.get_slice(call.self, Value(), Value(), Value::integer(-1));
  const bool lazy = reversible(call.self);
  Result<std::vector<Value>> all = rt.to_vector(call.self);
  if (!all.ok()) return call.self.is_undefined() ? all.error() : failed("argument must be iterable");
  std::reverse(all.value().begin(), all.value().end());
  if (!lazy) return rt.list(std::move(all).take());
  const bool plain = call.self.is_list() && call.self.list().kind == ListKind::kList;
  return rt.iterator(std::move(all).take(), plain ? "list_reverseiterator" : "reversed");
}

Result<Value> join(Runtime& rt, Call& call) {
  PAGODA_TRY(Cursor cursor, Cursor::over(rt, call.self));
  const AttributePath path = AttributePath::parse(rt, call.has(1) ? call.args[1] : Value::none());
  std::vector<Value> all;
  bool markup = call.has(0) && call.args[0].is_markup();
  for (Value item;;) {
    PAGODA_TRY(const bool more, cursor.next(item));
    if (!more) break;
    PAGODA_TRY(item, path.get(rt, item));
    markup = markup || item.is_markup();
    PAGODA_TRY_STATUS(rt.reserve(static_cast<int64_t>(all.size() * sizeof(Value))));
    all.push_back(item);
  }
  markup = markup && rt.autoescape;
  Value separator = call.has(0) ? call.args[0] : rt.str("");
  if (markup) {
    PAGODA_TRY(separator, escape(rt, separator));
  }
  PAGODA_TRY(const Str between, to_str(rt, separator));
  Builder out(rt);
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0) out.add(between);
    if (markup) {
      PAGODA_TRY(all[i], escape(rt, all[i]));
    }
    PAGODA_TRY_STATUS(append_str(rt, all[i], out));
  }
  return rt.str(out.take(), markup);
}

Result<Value> sum(Runtime& rt, Call& call) {
  PAGODA_TRY(Cursor cursor, Cursor::over(rt, call.self));
  const AttributePath path = AttributePath::parse(rt, call.has(0) ? call.args[0] : Value::none());
  Value total = call.has(1) ? call.args[1] : Value::integer(0);
  if (total.is_string()) return failed("sum() can't sum strings [use ''.join(seq) instead]");
  for (Value item;;) {
    PAGODA_TRY(const bool more, cursor.next(item));
    if (!more) return total;
    PAGODA_TRY(item, path.get(rt, item));
    PAGODA_TRY(total, binary(rt, BinaryOp::kAdd, total, item));
  }
}

// ---- order ----

Result<std::vector<Value>> keys_of(Runtime& rt, const std::vector<Value>& all, const std::vector<AttributePath>& paths,
                                   bool case_sensitive, const Value& absent = Value()) {
  std::vector<Value> keys;
  for (const Value& item : all) {
    std::vector<Value> parts;
    for (const AttributePath& path : paths) {
      PAGODA_TRY(Value part, path.get(rt, item, absent));
      parts.push_back(case_sensitive ? part : fold_case(rt, part));
    }
    keys.push_back(parts.size() == 1 ? std::move(parts[0]) : rt.list(std::move(parts)));
    PAGODA_TRY_STATUS(rt.step());
  }
  return keys;
}

Result<Value> sort(Runtime& rt, Call& call) {
  PAGODA_TRY(std::vector<Value> all, rt.to_vector(call.self));
  std::vector<AttributePath> paths;
  if (call.has(2) && call.args[2].is_string()) {
    PAGODA_TRY(const std::vector<Str> names, split(rt, call.args[2].as_str(), ",", -1, false));
    for (const Str& name : names) paths.push_back(AttributePath::parse(rt, rt.str(name)));
  } else {
    paths.push_back(AttributePath::parse(rt, call.has(2) ? call.args[2] : Value::none()));
  }
  PAGODA_TRY(std::vector<Value> keys, keys_of(rt, all, paths, call.flag(1)));
  // Jinja compares lists of keys, and in a list two undefined are equal instead of an error.
  if (paths.size() == 1)
    for (Value& key : keys) key = rt.list({key});
  PAGODA_TRY_STATUS(sort_by(rt, all, keys, call.flag(0)));
  return rt.list(std::move(all));
}

Result<Value> dictsort(Runtime& rt, Call& call) {
  if (call.self.is_undefined()) return undefined_error(call.self);
  if (!call.self.is_dict()) return failed(in_quotes(type_name(call.self)) + " object has no attribute 'items'");
  const std::string_view by = call.has(1) && call.args[1].is_string() ? call.args[1].view() : call.has(1) ? "?" : "key";
  if (by != "key" && by != "value") return failed("You can only sort by either \"key\" or \"value\"");
  std::vector<Value> pairs;
  std::vector<Value> keys;
  for (const auto& [key, value] : call.self.dict().entries) {
    PAGODA_TRY_STATUS(rt.step());
    pairs.push_back(rt.tuple({key, value}));
    const Value& wanted = by == "key" ? key : value;
    keys.push_back(call.flag(0) ? wanted : fold_case(rt, wanted));
  }
  PAGODA_TRY_STATUS(sort_by(rt, pairs, keys, call.flag(2)));
  return rt.list(std::move(pairs));
}

template <bool largest>
Result<Value> extreme(Runtime& rt, Call& call) {
  PAGODA_TRY(const std::vector<Value> all, rt.to_vector(call.self));
  if (all.empty()) return rt.undefined_hint("No aggregated item, sequence was empty.");
  const std::vector<AttributePath> path{AttributePath::parse(rt, call.has(1) ? call.args[1] : Value::none())};
  PAGODA_TRY(const std::vector<Value> keys, keys_of(rt, all, path, call.flag(0)));
  size_t best = 0;
  for (size_t i = 1; i < all.size(); ++i) {
    PAGODA_TRY(const bool better, largest ? less(rt, keys[best], keys[i], ">") : less(rt, keys[i], keys[best], "<"));
    if (better) best = i;
  }
  return all[best];
}

Result<Value> unique(Runtime& rt, Call& call) {
  PAGODA_TRY(const std::vector<Value> all, rt.to_vector(call.self));
  const std::vector<AttributePath> path{AttributePath::parse(rt, call.has(1) ? call.args[1] : Value::none())};
  PAGODA_TRY(const std::vector<Value> keys, keys_of(rt, all, path, call.flag(0)));
  DictObject seen;
  std::vector<Value> out;
  for (size_t i = 0; i < all.size(); ++i) {
    PAGODA_TRY_STATUS(rt.step());
    if (!DictObject::hashable(keys[i]))
      return rt.iterator(std::move(out), "generator", failed("unhashable type: " + in_quotes(type_name(keys[i]))));
    if (seen.find(keys[i]) != nullptr) continue;
    seen.set(keys[i], Value::none());
    out.push_back(all[i]);
  }
  return rt.iterator(std::move(out));
}

Result<Value> groupby(Runtime& rt, Call& call) {
  PAGODA_TRY(std::vector<Value> all, rt.to_vector(call.self));
  const std::vector<AttributePath> path{AttributePath::parse(rt, call.args[0])};
  const Value absent = call.has(1) && !call.args[1].is_none() ? call.args[1] : Value();
  PAGODA_TRY(const std::vector<Value> keys, keys_of(rt, all, path, call.flag(2), absent));
  PAGODA_TRY_STATUS(sort_by(rt, all, keys, false));
  PAGODA_TRY(const std::vector<Value> sorted_keys, keys_of(rt, all, path, call.flag(2), absent));
  std::vector<Value> groups;
  for (size_t begin = 0; begin < all.size();) {
    std::vector<Value> group;
    size_t end = begin;
    for (bool same = true; same;) {
      group.push_back(all[end++]);
      if (end == all.size()) break;
      PAGODA_TRY(same, equal(rt, sorted_keys[begin], sorted_keys[end]));
    }
    PAGODA_TRY(Value shown, path[0].get(rt, all[begin], absent));
    groups.push_back(rt.list({shown, rt.list(std::move(group))}, ListKind::kGroup));
    begin = end;
  }
  return rt.list(std::move(groups));
}

// ---- cuts ----

Result<Value> batch(Runtime& rt, Call& call) {
  PAGODA_TRY(const std::vector<Value> all, rt.to_vector(call.self));
  if (!call.args[0].is_integral()) return failed("batch needs an integer");
  const auto size = static_cast<size_t>(std::max<int64_t>(call.args[0].as_int(), 1));
  const bool fill = call.has(1) && !call.args[1].is_none();
  if (fill && !all.empty())
    PAGODA_TRY_STATUS(rt.reserve(static_cast<int64_t>(std::min<size_t>(size, INT32_MAX) * sizeof(Value))));
  std::vector<Value> out;
  for (size_t begin = 0; begin < all.size(); begin += size) {
    const size_t end = begin + std::min(size, all.size() - begin);
    std::vector<Value> group(all.begin() + static_cast<std::ptrdiff_t>(begin),
                             all.begin() + static_cast<std::ptrdiff_t>(end));
    if (fill) group.resize(size, call.args[1]);
    out.push_back(rt.list(std::move(group)));
    if (end == all.size()) break;
  }
  return rt.iterator(std::move(out));
}

Result<Value> slice(Runtime& rt, Call& call) {
  PAGODA_TRY(const std::vector<Value> all, rt.to_vector(call.self));
  if (!call.args[0].is_integral()) return failed("slice needs an integer");
  const int64_t count = call.args[0].as_int();
  if (count == 0) return failed("integer division or modulo by zero");
  const auto total = static_cast<int64_t>(all.size());
  const bool fill = call.has(1) && !call.args[1].is_none();
  std::vector<Value> out;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t each = total / count;
    const int64_t longer = total % count;
    const int64_t begin = std::min(i, longer) + i * each;
    const int64_t end = begin + each + (i < longer ? 1 : 0);
    std::vector<Value> group(all.begin() + begin, all.begin() + end);
    if (fill && i >= longer) group.push_back(call.args[1]);
    out.push_back(rt.list(std::move(group)));
    PAGODA_TRY_STATUS(rt.step());
  }
  return rt.iterator(std::move(out));
}

constexpr Builtin kSequenceFilters[] = {
    {"batch", "linecount fill_with", 1, batch},
    {"count", "", 0, length},
    {"dictsort", "case_sensitive by reverse", 0, dictsort},
    {"first", "", 0, first},
    {"groupby", "attribute default case_sensitive", 1, groupby},
    {"items", "", 0, items},
    {"join", "d attribute", 0, join},
    {"last", "", 0, last},
    {"length", "", 0, length},
    {"list", "", 0, list},
    {"max", "case_sensitive attribute", 0, extreme<true>},
    {"min", "case_sensitive attribute", 0, extreme<false>},
    {"reverse", "", 0, reverse},
    {"slice", "slices fill_with", 1, slice},
    {"sort", "reverse case_sensitive attribute", 0, sort},
    {"sum", "attribute start", 0, sum},
    {"unique", "case_sensitive attribute", 0, unique},
};

}  // namespace

std::span<const Builtin> sequence_filters() { return kSequenceFilters; }

}  // namespace pagoda::jinja
