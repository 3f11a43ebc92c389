// Methods of dicts and sequences. Those that change their object are refused before they are looked up here.
#include <algorithm>

#include "jinja/methods.h"
#include "jinja/operators.h"
#include "jinja/repr.h"

namespace pagoda::jinja {
namespace {

Result<Value> view(Runtime& rt, const Call& call, ListKind kind) {
  std::vector<Value> items;
  const auto& entries = call.self.dict().entries;
  PAGODA_TRY_STATUS(rt.step(static_cast<int64_t>(entries.size())));
  for (const auto& [key, value] : entries)
    items.push_back(kind == ListKind::kKeys ? key : kind == ListKind::kValues ? value : rt.tuple({key, value}));
  return rt.list(std::move(items), kind);
}

Result<Value> keys(Runtime& rt, Call& call) { return view(rt, call, ListKind::kKeys); }
Result<Value> values(Runtime& rt, Call& call) { return view(rt, call, ListKind::kValues); }
Result<Value> items(Runtime& rt, Call& call) { return view(rt, call, ListKind::kItems); }

Result<Value> get(Runtime&, Call& call) {
  if (!DictObject::hashable(call.args[0])) return failed("unhashable type: " + in_quotes(type_name(call.args[0])));
  const Value* found = call.self.dict().find(call.args[0]);
  if (found != nullptr) return *found;
  return call.has(1) ? call.args[1] : Value::none();
}

Result<Value> copy_dict(Runtime& rt, Call& call) {
  auto dict = std::make_shared<DictObject>();
  for (const auto& [key, value] : call.self.dict().entries) dict->set(key, value);
  PAGODA_TRY_STATUS(rt.step(static_cast<int64_t>(dict->entries.size())));
  return rt.dict(std::move(dict));
}

Result<Value> copy_list(Runtime& rt, Call& call) {
  PAGODA_TRY_STATUS(rt.step(static_cast<int64_t>(call.self.items().size())));
  return rt.list(call.self.items());
}

Result<Value> count(Runtime& rt, Call& call) {
  int64_t found = 0;
  for (const Value& item : call.self.items()) {
    PAGODA_TRY(const bool same, equal(rt, item, call.args[0]));
    found += same ? 1 : 0;
  }
  return Value::integer(found);
}

Result<Value> index(Runtime& rt, Call& call) {
  const auto& list = call.self.items();
  for (size_t i = 0; i < list.size(); ++i) {
    PAGODA_TRY(const bool same, equal(rt, list[i], call.args[0]));
    if (same) return Value::integer(static_cast<int64_t>(i));
  }
  return failed(short_repr(rt, call.args[0]) + " is not in " + type_name(call.self));
}

constexpr Builtin kDictMethods[] = {
    {"copy", "", 0, copy_dict}, {"get", "key default", 1, get}, {"items", "", 0, items},
    {"keys", "", 0, keys},      {"values", "", 0, values},
};

constexpr Builtin kListMethods[] = {
    {"copy", "", 0, copy_list},
    {"count", "value", 1, count},
    {"index", "value", 1, index},
};

}  // namespace

std::span<const Builtin> dict_methods() { return kDictMethods; }
std::span<const Builtin> list_methods() { return kListMethods; }

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
  const auto found =
      std::lower_bound(table.begin(), table.end(), name,
                       [](const Builtin& entry, std::string_view wanted) { return entry.name < wanted; });
  return found != table.end() && found->name == name ? &*found : nullptr;
}

const Builtin* find_method(const Value& self, std::string_view name) {
  if (self.is_string()) return find_in(str_methods(), name);
  if (self.is_dict()) return find_in(dict_methods(), name);
  if (!self.is_list()) return nullptr;
  const ListKind kind = self.list().kind;
  if (kind > ListKind::kRange || (kind != ListKind::kList && name == "copy")) return nullptr;
  return find_in(list_methods(), name);
}

}  // namespace pagoda::jinja
