#include "jinja/value.h"

#include <cmath>

#include "jinja/callable.h"
#include "jinja/loop.h"

namespace pagoda::jinja {
namespace {

constexpr size_t kLinearKeys = 8;

void canonical(const Value& key, std::string& out) {
  switch (key.kind()) {
    case Kind::kString:
      out += 's' + std::to_string(key.view().size()) + ':';
      out += key.view();
      return;
    case Kind::kBool:
    case Kind::kInt:
      out += 'i' + std::to_string(key.as_int());
      return;
    case Kind::kFloat: {
      const double d = key.as_float();
      if (d == std::floor(d) && std::abs(d) < 9e18) {
        out += 'i' + std::to_string(static_cast<int64_t>(d));
      } else {
        out += 'f' + std::to_string(std::hash<double>{}(d));
      }
      return;
    }
    case Kind::kNone:
      out += 'n';
      return;
    case Kind::kList:
      out += '(';
      for (const Value& item : key.items()) canonical(item, out), out += ',';
      out += ')';
      return;
    case Kind::kUndefined:
      out += 'u';
      return;
    default:
      out += 'p' + std::to_string(reinterpret_cast<uintptr_t>(key.object()));
  }
}

std::string canonical(const Value& key) {
  std::string out;
  canonical(key, out);
  return out;
}

}  // namespace

Value Value::string(std::string bytes, bool from_input) {
  return of(Kind::kString, std::make_shared<StringObject>(Str(std::move(bytes), from_input), false));
}

bool Value::is_markup() const { return is_string() && static_cast<StringObject*>(object_.get())->markup; }

const Str& Value::as_str() const {
  PAGODA_CHECK(is_string());
  return static_cast<StringObject*>(object_.get())->str;
}

ListObject& Value::list() const {
  PAGODA_CHECK(is_list());
  return *static_cast<ListObject*>(object_.get());
}

const std::vector<Value>& Value::items() const { return list().items; }

DictObject& Value::dict() const {
  PAGODA_CHECK(is_dict() || is(Kind::kNamespace));
  return *static_cast<DictObject*>(object_.get());
}

const UndefinedObject& Value::undefined() const {
  PAGODA_CHECK(is_undefined());
  return *static_cast<UndefinedObject*>(object_.get());
}

CallableObject& Value::callable() const {
  PAGODA_CHECK(is(Kind::kCallable));
  return *static_cast<CallableObject*>(object_.get());
}

LoopObject& Value::loop() const {
  PAGODA_CHECK(is(Kind::kLoop));
  return *static_cast<LoopObject*>(object_.get());
}

bool DictObject::hashable(const Value& key) {
  switch (key.kind()) {
    case Kind::kDict:
      return false;
    case Kind::kList: {
      const ListObject& list = key.list();
      if (list.kind == ListKind::kRange || list.kind == ListKind::kIterator) return true;
      if (list.kind != ListKind::kTuple && list.kind != ListKind::kGroup) return false;
      for (const Value& item : list.items)
        if (item.is_list() || !hashable(item)) return false;
      return true;
    }
    default:
      return true;
  }
}

const Value* DictObject::find(std::string_view key) const {
  if (index_.empty()) {
    for (const auto& [name, value] : entries)
      if (name.is_string() && name.view() == key) return &value;
    return nullptr;
  }
  const auto found = index_.find('s' + std::to_string(key.size()) + ':' + std::string(key));
  return found == index_.end() ? nullptr : &entries[found->second].second;
}

const Value* DictObject::find(const Value& key) const {
  if (key.is_string()) return find(key.view());
  const std::string wanted = canonical(key);
  if (index_.empty()) {
    for (const auto& [name, value] : entries)
      if (!name.is_string() && canonical(name) == wanted) return &value;
    return nullptr;
  }
  const auto found = index_.find(wanted);
  return found == index_.end() ? nullptr : &entries[found->second].second;
}

void DictObject::set(Value key, Value value) {
  if (const Value* present = find(key)) {
    *const_cast<Value*>(present) = std::move(value);
    return;
  }
  nesting = std::max(nesting, value.nesting() + 1);
  entries.emplace_back(std::move(key), std::move(value));
  if (entries.size() <= kLinearKeys) return;
  if (index_.empty()) {
    for (size_t i = 0; i < entries.size(); ++i) index_.emplace(canonical(entries[i].first), i);
  } else {
    index_.emplace(canonical(entries.back().first), entries.size() - 1);
  }
}

std::string type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.is_markup() ? "Markup" : "str";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kBlocks:
      return "TemplateReference";
    case Kind::kCallable:
      return value.callable().python_type();
    case Kind::kList:
      break;
  }
  switch (value.list().kind) {
    case ListKind::kList:
      return "list";
    case ListKind::kTuple:
      return "tuple";
    case ListKind::kGroup:
      return "_GroupTuple";
    case ListKind::kRange:
      return "range";
    case ListKind::kIterator:
      return value.list().iterator_type;
    case ListKind::kKeys:
      return "dict_keys";
    case ListKind::kValues:
      return "dict_values";
    case ListKind::kItems:
      return "dict_items";
  }
  return "object";
}

std::string object_type(const Value& value) {
  if (value.is_none()) return "None";
  const std::string name = type_name(value);
  if (value.is(Kind::kNamespace)) return "jinja2.utils.Namespace object";
  if (value.is_markup()) return "markupsafe.Markup object";
  if (value.is(Kind::kLoop) || value.is(Kind::kBlocks) || name == "Macro") return "jinja2.runtime." + name + " object";
  if (name == "_GroupTuple") return "jinja2.filters." + name + " object";
  return name + " object";
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_float() != 0;
    case Kind::kString:
      return !value.as_str().empty();
    case Kind::kDict:
      return !value.dict().entries.empty();
    case Kind::kList:
      return value.list().kind == ListKind::kIterator || !value.items().empty();
    default:
      return true;
  }
}

}  // namespace pagoda::jinja
