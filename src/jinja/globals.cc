// Functions every template can call.
#include <fmt/format.h>

#include <array>
#include <ctime>

#include "jinja/methods.h"
#include "jinja/repr.h"
#include "jinja/runtime.h"

namespace pagoda::jinja {
namespace {

Result<Value> range(Runtime& rt, Call& call) {
  constexpr int64_t kRangeMax = 100'000;  // jinja2.sandbox.MAX_RANGE
  std::array<int64_t, 3> bounds{0, 0, 1};
  for (size_t i = 0; i < 3; ++i) {
    if (!call.has(i)) continue;
    if (call.args[i].is_undefined()) return undefined_error(call.args[i]);
    if (!call.args[i].is_integral())
      return failed(in_quotes(type_name(call.args[i])) + " object cannot be interpreted as an integer");
    bounds[i] = call.args[i].as_int();
  }
  if (!call.has(1)) bounds = {0, bounds[0], 1};
  const auto [start, stop, step] = bounds;
  if (step == 0) return failed("range() arg 3 must not be zero");
  const bool any = step > 0 ? start < stop : start > stop;
  const auto unsign = [](int64_t i) { return static_cast<uint64_t>(i); };  // differences of int64 fit uint64
  const uint64_t span = step > 0 ? unsign(stop) - unsign(start) : unsign(start) - unsign(stop);
  const uint64_t by = step > 0 ? unsign(step) : 0 - unsign(step);
  const uint64_t count = any ? (span - 1) / by + 1 : 0;
  if (count > unsign(kRangeMax))
    return failed(fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kRangeMax));
  PAGODA_TRY_STATUS(rt.step(static_cast<int64_t>(count)));
  return rt.range(start, stop, step, static_cast<int64_t>(count));
}

// dict(mapping or pairs, name=value ...)
Result<std::shared_ptr<DictObject>> build_dict(Runtime& rt, Args& args) {
  auto dict = std::make_shared<DictObject>();
  if (args.positional.size() > 1)
    return failed(fmt::format("dict expected at most 1 argument, got {}", args.positional.size()));
  if (!args.positional.empty() && (args.positional[0].is_dict() || args.positional[0].is(Kind::kNamespace))) {
    for (const auto& [key, value] : args.positional[0].dict().entries) dict->set(key, value);
  } else if (!args.positional.empty()) {
    PAGODA_TRY(const std::vector<Value> pairs, rt.to_vector(args.positional[0]));
    for (const Value& item : pairs) {
      PAGODA_TRY(const std::vector<Value> pair, rt.to_vector(item));
      if (pair.size() != 2)
        return failed(fmt::format("dictionary update sequence element has length {}; 2 is required", pair.size()));
      if (!DictObject::hashable(pair[0])) return failed("unhashable type: " + in_quotes(type_name(pair[0])));
      dict->set(pair[0], pair[1]);
    }
  }
  for (auto& [name, value] : args.named) dict->set(rt.str(name), std::move(value));
  PAGODA_TRY_STATUS(rt.step(static_cast<int64_t>(dict->entries.size())));
  return dict;
}

Result<Value> dict(Runtime& rt, Call& call) {
  PAGODA_TRY(std::shared_ptr<DictObject> object, build_dict(rt, call.raw));
  return rt.dict(std::move(object));
}

Result<Value> name_space(Runtime& rt, Call& call) {
  PAGODA_TRY(std::shared_ptr<DictObject> object, build_dict(rt, call.raw));
  return rt.name_space(std::move(object));
}

Result<Value> raise_exception(Runtime& rt, Call& call) {
  PAGODA_TRY(const Str message, to_str(rt, call.args[0]));
  return failed(std::string(message.view()));
}

Result<Value> strftime_now(Runtime& rt, Call& call) {
  if (!call.args[0].is_string()) return failed("strftime_now needs a format string");
  const std::string format(call.args[0].view());
  if (format.empty()) return rt.str("");
  const std::time_t now = rt.today_unix_s();
  std::tm parts{};
  if (gmtime_r(&now, &parts) == nullptr) return failed("the clock is out of range");
  std::array<char, 4096> buffer{};
  // strftime answers 0 both for "too long" and for "nothing to print": a blank in front tells them apart.
  const size_t written = std::strftime(buffer.data(), buffer.size(), (" " + format).c_str(), &parts);
  if (written == 0) return failed("the date needs more than 4095 bytes");
  return rt.str(std::string(buffer.data() + 1, written - 1));
}

// ---- cycler and joiner ----

class Cycler final : public CallableObject {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {
    for (const Value& item : items_) nesting = std::max(nesting, item.nesting() + 1);
  }
  Result<Value> call(Runtime&, Args) override { return failed("'Cycler' object is not callable"); }
  const char* python_type() const override { return "Cycler"; }
  Result<Value> attribute(Runtime& rt, const Value& self, std::string_view name) override;
  Value next() {
    const Value item = items_[at_];
    at_ = (at_ + 1) % items_.size();
    return item;
  }
  void reset() { at_ = 0; }

 private:
  std::vector<Value> items_;
  size_t at_ = 0;
};

Result<Value> cycler_next(Runtime&, Call& call) { return static_cast<Cycler&>(call.self.callable()).next(); }
Result<Value> cycler_reset(Runtime&, Call& call) {
  static_cast<Cycler&>(call.self.callable()).reset();
  return Value::none();
}

constexpr Builtin kCyclerNext{"next", "", 0, cycler_next};
constexpr Builtin kCyclerReset{"reset", "", 0, cycler_reset};

Result<Value> Cycler::attribute(Runtime& rt, const Value& self, std::string_view name) {
  if (name == "next") return bind_method(rt, self, kCyclerNext);
  if (name == "reset") return bind_method(rt, self, kCyclerReset);
  return name == "current" ? items_[at_] : Value();
}

Result<Value> cycler(Runtime& rt, Call& call) {
  if (call.raw.positional.empty()) return failed("at least one item has to be provided");
  return rt.callable(std::make_shared<Cycler>(std::move(call.raw.positional)));
}

class Joiner final : public CallableObject {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) { nesting = separator_.nesting() + 1; }
  Result<Value> call(Runtime& rt, Args) override { return std::exchange(used_, true) ? separator_ : rt.str(""); }
  const char* python_type() const override { return "Joiner"; }

 private:
  Value separator_;
  bool used_ = false;
};

Result<Value> joiner(Runtime& rt, Call& call) {
  return rt.callable(std::make_shared<Joiner>(call.has(0) ? call.args[0] : rt.str(", ")));
}

constexpr Builtin kGlobals[] = {
    {"cycler", "*", 0, cycler},
    {"dict", "*", 0, dict},
    {"joiner", "sep", 0, joiner},
    {"namespace", "*", 0, name_space},
    {"raise_exception", "message", 1, raise_exception},
    {"range", "start stop step", 1, range},
    {"strftime_now", "format", 1, strftime_now},
};

}  // namespace

const Builtin* find_global(std::string_view name) { return find_in(kGlobals, name); }

}  // namespace pagoda::jinja
