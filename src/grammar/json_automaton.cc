#include "grammar/json_automaton.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "grammar/array_case.h"
#include "grammar/json_string.h"
#include "grammar/object_case.h"
#include "grammar/scientific.h"
#include "grammar/values.h"

namespace pagoda::grammar {
namespace {

constexpr size_t kJsonThreadsMax = 4096;  // ways to read one text at the same time
constexpr int32_t kValueDepthMax = 512;   // arrays and objects inside one another
constexpr std::array<std::string_view, 3> kWords = {"null", "true", "false"};

enum class Mode : int32_t {
  kValue,       // a value comes: conj
  kString,      // inside one: conj, state, escape
  kNumber,      // conj, state
  kScientific,  // inside a number with an exponent, or one that may get one: conj; 1 if it is right as it is; text
  kWord,        // which, bytes read
  kOpen,        // after { or [
  kKey,         // inside a member's name: -, state, escape
  kColon,       // after a name; conj of its value
  kName,        // after a comma in an object
  kAfter,       // after a value inside an array or object
  kEnd,         // after the whole value
};

/// One way to read the text so far.
struct Thread {
  Mode mode = Mode::kValue;
  int32_t a = 0;      // see Mode
  int32_t state = 0;  // of the lexeme; white space read; bytes of a word
  int32_t escape = 0;
  int32_t text = -1;  // the string, number or name so far, where it must be remembered
  int32_t stack = -1;
  friend auto operator<=>(const Thread&, const Thread&) = default;
};
constexpr size_t kThreadInts = 6;
static_assert(sizeof(Thread) == kThreadInts * sizeof(int32_t));

class JsonAutomaton final : public Automaton {
 public:
  JsonAutomaton(const Limits& limits, const JsonLayout& layout) : Automaton(limits), layout_(layout) {}

  Status build(std::string_view text) {
    PAGODA_TRY(auto schema, Schema::parse(text));
    values_ = std::make_unique<Values>(std::move(schema), budget_);
    PAGODA_TRY_STATUS(values_->prepare());
    return ok_status();
  }

  StateId start() override {
    threads_.clear();
    const ConjId root = values_->root();
    if (values_->satisfiable(root)) threads_.push_back({.mode = Mode::kValue, .a = root});
    return intern();
  }

  bool accepting(StateId state) const override {
    const auto threads = threads_of(state);
    return std::any_of(threads.begin(), threads.end(), [this](const Thread& t) {
      return t.mode == Mode::kEnd || (t.stack == kBottom && number_right(t));
    });
  }

  int32_t inside(StateId state) const override { return insides_[static_cast<size_t>(state)]; }

 protected:
  StateId compute_step(StateId from, uint8_t byte) override {
    threads_.clear();
    const std::vector<Thread> before = threads_of(from);
    for (const Thread& thread : before) {
      advance(thread, byte);
      if (threads_.size() > 4 * kJsonThreadsMax) {
        budget_.spend(INT64_MAX / 4);  // too many alternatives at the same time
        return kDead;
      }
    }
    return intern();
  }

  int32_t compute_step_inside(int32_t inside, uint8_t byte) override {
    const Inside here = inside_list_[static_cast<size_t>(inside)];
    std::string fed;
    JsonStringStep next;
    if (here.key) {
      ObjectCase& object = values_->object(here.a);
      next = step_json_string(
          object.key(), [&](int32_t s) { return object.key_live(here.data, s); }, here.state, here.escape, byte,
          layout_.tidy, fed);
      if (next.kind == JsonStringStep::Kind::kQuote)
        return object.ways(here.data, here.state, -1).empty() ? kDead : kLeft;
    } else {
      Scalar& scalar = *values_->spec(here.a).string;
      next = step_json_string(
          scalar.lexeme, [&](int32_t s) { return scalar.live(s); }, here.state, here.escape, byte, layout_.tidy, fed);
      if (next.kind == JsonStringStep::Kind::kQuote) return scalar.right(here.state) ? kLeft : kDead;
    }
    if (next.kind == JsonStringStep::Kind::kRefused) return kDead;
    Inside to = here;
    to.state = next.state;
    to.escape = next.escape;
    return intern_inside(to);
  }

 private:
  static constexpr int32_t kBottom = -1;
  struct Frame {
    bool array;
    int32_t index;  // of the case
    int32_t data;
    int32_t below;
    int32_t depth;
  };
  /// The rest of a string or of a name that nothing else depends on.
  struct Inside {
    bool key;
    int32_t a;  // conj or object case
    int32_t state, escape;
    int32_t kind = 0;  // ObjectCase::free_key
    int32_t data = 0;  // one of those with that kind
  };

  std::vector<Thread> threads_of(StateId state) const {
    const auto view = states_.at(state);
    std::vector<Thread> out(view.size() / kThreadInts);
    for (size_t i = 0; i < out.size(); ++i) {
      const auto v = view.subspan(i * kThreadInts, kThreadInts);
      out[i] = {static_cast<Mode>(v[0]), v[1], v[2], v[3], v[4], v[5]};
    }
    return out;
  }

  StateId intern() {
    if (values_->failed()) budget_.spend(INT64_MAX / 4);  // what could not be worked out is no "no"
    if (threads_.empty() || budget_.over()) return kDead;
    std::sort(threads_.begin(), threads_.end());
    threads_.erase(std::unique(threads_.begin(), threads_.end()), threads_.end());
    if (threads_.size() > kJsonThreadsMax) {
      budget_.spend(INT64_MAX / 4);
      return kDead;
    }
    key_.clear();
    for (const Thread& t : threads_)
      key_.insert(key_.end(), {static_cast<int32_t>(t.mode), t.a, t.state, t.escape, t.text, t.stack});
    bool fresh = false;
    const StateId id = states_.intern(key_, fresh);
    if (fresh) {
      budget_.spend(Interner::bytes_of(key_.size()) + 4);
      insides_.push_back(find_inside());
    }
    return id;
  }

  // All threads inside the same string, or one inside a name on which the members so far have no influence.
  int32_t find_inside() {
    const Thread& first = threads_[0];
    if (first.text >= 0) return kDead;
    if (first.mode == Mode::kString) {
      const bool alike = std::all_of(threads_.begin(), threads_.end(), [&](const Thread& t) {
        return t.mode == first.mode && t.a == first.a && t.state == first.state && t.escape == first.escape &&
               t.text < 0;
      });
      return alike ? intern_inside({false, first.a, first.state, first.escape}) : kDead;
    }
    if (first.mode != Mode::kKey || threads_.size() > 1) return kDead;
    const Frame frame = frame_at(first.stack);
    const int32_t kind = values_->object(frame.index).free_key(frame.data, first.state);
    if (kind < 0) return kDead;
    return intern_inside({true, frame.index, first.state, first.escape, kind, frame.data});
  }

  int32_t intern_inside(const Inside& inside) {
    bool fresh = false;
    const int32_t id =
        inside_ids_.intern(std::array{inside.key ? 1 : 0, inside.a, inside.state, inside.escape, inside.kind}, fresh);
    if (fresh) {
      budget_.spend(Interner::bytes_of(5) + 24);
      inside_list_.push_back(inside);
    }
    return id;
  }

  Frame frame_at(int32_t stack) const {
    const auto v = stacks_.at(stack);
    return {v[0] != 0, v[1], v[2], v[3], v[4]};
  }
  int32_t push(bool array, int32_t index, int32_t data, int32_t below, int32_t depth) {
    bool fresh = false;
    const int32_t id = stacks_.intern(std::array{array ? 1 : 0, index, data, below, depth}, fresh);
    if (fresh) budget_.spend(Interner::bytes_of(5));
    return id;
  }
  int32_t with_data(const Frame& frame, int32_t data) {
    return push(frame.array, frame.index, data, frame.below, frame.depth);
  }

  static bool blank(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

  // How much white space there is then, or -1 where that is too much. Tidy: 1 = a blank, 2 + n = a line end and n more.
  int32_t after_blank(const Thread& t, uint8_t byte) const {
    if (!layout_.tidy) return t.state < layout_.blanks_max ? t.state + 1 : -1;
    constexpr int32_t kIndentMax = 40;
    const bool around = t.mode == Mode::kEnd || (t.mode == Mode::kValue && t.stack == kBottom);
    if (around || layout_.blanks_max == 0 || byte == '\r') return -1;
    if (t.state == 0) return byte == ' ' ? 1 : byte == '\n' ? 2 : -1;
    return t.state >= 2 && t.state < 2 + kIndentMax && byte != '\n' ? t.state + 1 : -1;
  }

  void advance(const Thread& t, uint8_t byte) {
    const bool between = t.mode != Mode::kString && t.mode != Mode::kNumber && t.mode != Mode::kScientific &&
                         t.mode != Mode::kWord && t.mode != Mode::kKey;
    if (between && blank(byte)) {
      Thread next = t;
      next.state = after_blank(t, byte);
      if (next.state >= 0) threads_.push_back(next);
      return;
    }
    switch (t.mode) {
      case Mode::kValue:
        return begin_value(t, byte);
      case Mode::kString:
        return advance_string(t, byte);
      case Mode::kNumber:
        return advance_number(t, byte);
      case Mode::kScientific:
        return advance_scientific(t, byte);
      case Mode::kWord:
        return advance_word(t, byte);
      case Mode::kOpen:
        return advance_open(t, byte);
      case Mode::kKey:
        return advance_key(t, byte);
      case Mode::kColon:
        if (byte == ':') threads_.push_back({.mode = Mode::kValue, .a = t.a, .stack = t.stack});
        return;
      case Mode::kName:
        return begin_name(t, byte);
      case Mode::kAfter:
        return advance_after(t, byte);
      case Mode::kEnd:
        return;
    }
  }

  bool remembers(int32_t stack) {
    if (stack == kBottom) return false;
    const Frame frame = frame_at(stack);
    return frame.array && values_->array(frame.index).unique();
  }

  void begin_value(const Thread& t, uint8_t byte) {
    ValueSpec& spec = values_->spec(t.a);
    const int32_t text = remembers(t.stack) ? 0 : -1;
    if (byte == '"' && spec.string)
      threads_.push_back({Mode::kString, t.a, spec.string->lexeme.start(), 0, text, t.stack});
    if (spec.number && (byte == '-' || (byte >= '0' && byte <= '9'))) {
      advance_number({Mode::kNumber, t.a, spec.number->lexeme.start(), 0, text, t.stack}, byte);
      if (!spec.number->exponents) advance_scientific({Mode::kScientific, t.a, 0, 0, 0, t.stack}, byte);
    }
    if ((byte == 'n' && spec.null) || (byte == 't' && spec.yes) || (byte == 'f' && spec.no))
      threads_.push_back({Mode::kWord, byte == 'n' ? 0 : byte == 't' ? 1 : 2, 1, 0, -1, t.stack});
    if (byte != '{' && byte != '[') return;
    const int32_t depth = t.stack == kBottom ? 1 : frame_at(t.stack).depth + 1;
    if (depth > kValueDepthMax) return;
    const std::vector<int32_t> cases = byte == '{' ? spec.objects : spec.arrays;
    for (const int32_t index : cases) {
      if (byte == '{') {
        if (values_->object(index).satisfiable())
          threads_.push_back(
              {.mode = Mode::kOpen, .stack = push(false, index, values_->object(index).begin(), t.stack, depth)});
      } else if (values_->array(index).satisfiable()) {
        const int32_t data = values_->array(index).begin();
        const int32_t stack = push(true, index, data, t.stack, depth);
        if (values_->array(index).may_close(data)) threads_.push_back({.mode = Mode::kOpen, .stack = stack});
        begin_item(stack);
      }
    }
  }

  void begin_item(int32_t stack) {
    const Frame frame = frame_at(stack);
    for (const ArrayCase::Way& way : values_->array(frame.index).ways(frame.data))
      threads_.push_back({.mode = Mode::kValue, .a = way.value, .stack = with_data(frame, way.data)});
  }

  void advance_open(const Thread& t, uint8_t byte) {
    const Frame frame = frame_at(t.stack);
    if (frame.array) {
      if (byte == ']') finish(frame.below, nullptr);
      return;
    }
    if (byte == '}' && values_->object(frame.index).may_close(frame.data)) return finish(frame.below, nullptr);
    begin_name(t, byte);
  }

  void begin_name(const Thread& t, uint8_t byte) {
    if (byte != '"') return;
    const Frame frame = frame_at(t.stack);
    ObjectCase& object = values_->object(frame.index);
    const int32_t start = object.key().start();
    if (object.key_live(frame.data, start))
      threads_.push_back({Mode::kKey, 0, start, 0, object.keeps_names() ? 0 : -1, t.stack});
  }

  int32_t longer(int32_t text, const std::string& fed) {
    for (const char c : fed) {
      bool fresh = false;
      text = 1 + texts_.intern(std::array{text, static_cast<int32_t>(static_cast<uint8_t>(c))}, fresh);
      if (fresh) budget_.spend(Interner::bytes_of(2));
    }
    return text;
  }
  std::string text_of(int32_t text) const {
    std::string out;
    while (text > 0) {
      const auto v = texts_.at(text - 1);
      out += static_cast<char>(v[1]);
      text = v[0];
    }
    return {out.rbegin(), out.rend()};
  }

  void advance_key(const Thread& t, uint8_t byte) {
    const Frame frame = frame_at(t.stack);
    ObjectCase& object = values_->object(frame.index);
    std::string fed;
    const JsonStringStep next = step_json_string(
        object.key(), [&](int32_t s) { return object.key_live(frame.data, s); }, t.state, t.escape, byte, layout_.tidy,
        fed);
    if (next.kind == JsonStringStep::Kind::kQuote) {
      for (const ObjectCase::Way& way : object.ways(frame.data, t.state, t.text))
        threads_.push_back({.mode = Mode::kColon, .a = way.value, .stack = with_data(frame, way.data)});
    } else if (next.kind == JsonStringStep::Kind::kOn) {
      threads_.push_back({t.mode, t.a, next.state, next.escape, t.text < 0 ? -1 : longer(t.text, fed), t.stack});
    }
  }

  void advance_string(const Thread& t, uint8_t byte) {
    Scalar& scalar = *values_->spec(t.a).string;
    std::string fed;
    const JsonStringStep next = step_json_string(
        scalar.lexeme, [&](int32_t s) { return scalar.live(s); }, t.state, t.escape, byte, layout_.tidy, fed);
    if (next.kind == JsonStringStep::Kind::kQuote) {
      if (!scalar.right(t.state)) return;
      JsonValue value;
      value.type = JsonValue::Type::kString;
      if (t.text >= 0) value.text = text_of(t.text);
      finish(t.stack, &value);
    } else if (next.kind == JsonStringStep::Kind::kOn) {
      threads_.push_back({t.mode, t.a, next.state, next.escape, t.text < 0 ? -1 : longer(t.text, fed), t.stack});
    }
  }

  bool number_right(const Thread& t) const {
    if (t.mode == Mode::kScientific) return t.state == 1;
    return t.mode == Mode::kNumber && values_->spec(t.a).number->right(t.state);
  }

  static bool number_part(uint8_t byte) {
    return (byte >= '0' && byte <= '9') || byte == '.' || byte == '-' || byte == '+' || (byte | 32) == 'e';
  }

  void advance_scientific(const Thread& t, uint8_t byte) {
    if (!number_part(byte)) return end_number(t, byte);
    const int32_t text = longer(t.text, std::string(1, static_cast<char>(byte)));
    Scalar& scalar = *values_->spec(t.a).number;
    const std::string whole = text_of(text);
    int32_t plain = scalar.lexeme.start();
    for (const char c : whole) plain = scalar.lexeme.step(plain, static_cast<uint8_t>(c));
    const ScientificAnswer answer = judge_scientific(scalar, whole, scalar.live(plain));
    if (answer != ScientificAnswer::kNo)
      threads_.push_back({t.mode, t.a, answer == ScientificAnswer::kRight ? 1 : 0, 0, text, t.stack});
  }

  void advance_number(const Thread& t, uint8_t byte) {
    Scalar& scalar = *values_->spec(t.a).number;
    if (number_part(byte)) {
      const int32_t next = scalar.lexeme.step(t.state, byte);
      if (!scalar.live(next)) return;
      const int32_t text = t.text < 0 ? -1 : longer(t.text, std::string(1, static_cast<char>(byte)));
      threads_.push_back({t.mode, t.a, next, 0, text, t.stack});
      return;
    }
    if (scalar.right(t.state)) end_number(t, byte);
  }

  // The byte after a number tells that it is over.
  void end_number(const Thread& t, uint8_t byte) {
    if (!number_right(t)) return;
    JsonValue value;
    value.type = JsonValue::Type::kNumber;
    if (t.text >= 0) value.text = text_of(t.text);
    const size_t before = threads_.size();
    finish(t.stack, &value);
    const std::vector<Thread> after(threads_.begin() + static_cast<std::ptrdiff_t>(before), threads_.end());
    threads_.resize(before);
    for (const Thread& next : after) advance(next, byte);
  }

  void advance_word(const Thread& t, uint8_t byte) {
    const std::string_view word = kWords[static_cast<size_t>(t.a)];
    if (static_cast<char>(byte) != word[static_cast<size_t>(t.state)]) return;
    Thread next = t;
    if (static_cast<size_t>(++next.state) < word.size()) return threads_.push_back(next);
    JsonValue value;
    value.type = t.a == 0 ? JsonValue::Type::kNull : JsonValue::Type::kBoolean;
    value.boolean = t.a == 1;
    finish(t.stack, &value);
  }

  // A value is over; a scalar comes with its value, which counts where items must differ.
  void finish(int32_t stack, const JsonValue* scalar) {
    if (stack == kBottom) return threads_.push_back({.mode = Mode::kEnd});
    if (scalar != nullptr && remembers(stack)) {
      const Frame frame = frame_at(stack);
      stack = with_data(frame, values_->array(frame.index).remember(frame.data, constant_of(*scalar)));
    }
    threads_.push_back({.mode = Mode::kAfter, .stack = stack});
  }

  NodeId constant_of(const JsonValue& value) {
    std::string key(1, static_cast<char>('0' + static_cast<int>(value.type)));
    if (value.is(JsonValue::Type::kNumber)) {
      const Decimal number = Decimal::parse(value.text);
      key += (number.negative ? "-" : "") + number.digits + "e" + std::to_string(number.exponent);
    } else {
      key += value.text;
    }
    if (value.boolean) key += 't';
    const auto known = constants_.find(key);
    if (known != constants_.end()) return known->second;
    budget_.spend(512);
    return constants_.emplace(std::move(key), values_->schema().constant(value)).first->second;
  }

  void advance_after(const Thread& t, uint8_t byte) {
    const Frame frame = frame_at(t.stack);
    if (frame.array) {
      if (byte == ',') begin_item(t.stack);
      if (byte == ']' && values_->array(frame.index).may_close(frame.data)) finish(frame.below, nullptr);
      return;
    }
    ObjectCase& object = values_->object(frame.index);
    if (byte == ',' && object.key_live(frame.data, object.key().start()))
      threads_.push_back({.mode = Mode::kName, .stack = t.stack});
    if (byte == '}' && object.may_close(frame.data)) finish(frame.below, nullptr);
  }

  JsonLayout layout_;
  std::unique_ptr<Values> values_;
  Interner stacks_, states_, texts_, inside_ids_;
  std::vector<int32_t> insides_;     // [states]
  std::vector<Inside> inside_list_;  // [inside_ids_]
  std::map<std::string, NodeId> constants_;
  std::vector<Thread> threads_;
  std::vector<int32_t> key_;
};

}  // namespace

Result<std::unique_ptr<Automaton>> compile_json_schema(std::string_view schema, const JsonLayout& layout,
                                                       const Limits& limits) {
  auto made = std::make_unique<JsonAutomaton>(limits, layout);
  PAGODA_TRY_STATUS(made->build(schema));
  made->stop_clock();
  return std::unique_ptr<Automaton>(std::move(made));
}

}  // namespace pagoda::grammar
