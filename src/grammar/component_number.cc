#include <fmt/format.h>

#include <algorithm>

#include "grammar/component.h"

namespace pagoda::grammar {
namespace {

void mark_number_borders(std::bitset<257>& borders) {
  for (const char c : {'+', '-', '.', 'E', 'e'})
    borders.set(static_cast<size_t>(c)), borders.set(static_cast<size_t>(c) + 1);
  for (size_t c = '0'; c <= '9' + 1; ++c) borders.set(c);
}

bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

class NumberText final : public Component {
 public:
  explicit NumberText(bool exponents) : exponents_(exponents) {}
  enum : int32_t {
    kWrong,
    kStart,
    kSign,
    kZero,
    kInteger,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits
  };
  int32_t start(Budget&) override { return kStart; }
  int32_t step(int32_t state, uint8_t byte, Budget&) override {
    switch (state) {
      case kStart:
        if (byte == '-') return kSign;
        [[fallthrough]];
      case kSign:
        return byte == '0' ? kZero : is_digit(byte) ? kInteger : kWrong;
      case kZero:
      case kInteger:
        if (byte == '.') return kPoint;
        if (exponents_ && (byte | 32) == 'e') return kExponent;
        return state == kInteger && is_digit(byte) ? kInteger : kWrong;
      case kPoint:
        return is_digit(byte) ? kFraction : kWrong;
      case kFraction:
        if (exponents_ && (byte | 32) == 'e') return kExponent;
        return is_digit(byte) ? kFraction : kWrong;
      case kExponent:
        if (byte == '+' || byte == '-') return kExponentSign;
        [[fallthrough]];
      case kExponentSign:
      case kExponentDigits:
        return is_digit(byte) ? kExponentDigits : kWrong;
      default:
        return kWrong;
    }
  }
  bool accepts(int32_t state) const override {
    return state == kZero || state == kInteger || state == kFraction || state == kExponentDigits;
  }
  int32_t fate(int32_t state) const override { return state == kWrong ? -1 : 0; }
  bool holds(const Decimal&) const override { return true; }
  void mark_borders(std::bitset<257>& borders) const override { mark_number_borders(borders); }

 private:
  bool exponents_;
};

// Digits are compared from the left while they come; where the point lies decides at its end.
class CompareComponent final : public Component {
 public:
  CompareComponent(Relation relation, const Decimal& bound) : relation_(relation), bound_(bound) {
    const std::string text = Decimal{false, bound.digits, bound.exponent}.plain();
    const size_t point = std::min(text.find('.'), text.size());
    before_ = text.substr(0, point) == "0" ? "" : text.substr(0, point);
    if (point < text.size()) after_ = text.substr(point + 1);
  }
  int32_t start(Budget&) override { return pack({}); }
  int32_t step(int32_t packed, uint8_t byte, Budget&) override {
    State s = unpack(packed);
    if (byte == '-') {
      s.negative = true;
    } else if (byte == '.') {
      s = {s.negative, true, 0, integer_order(s)};
    } else if (is_digit(byte)) {
      const auto at = static_cast<size_t>(s.digits);
      const std::string& other = s.fraction ? after_ : before_;
      if (!s.fraction && byte == '0' && s.digits == 0) return pack(s);  // "0" has no digits before the point
      const char wanted = at < other.size() ? other[at] : '0';
      if (s.order == 0 && (s.fraction || at < other.size())) s.order = byte < wanted ? -1 : byte > wanted ? 1 : 0;
      s.digits = std::min<int32_t>(s.digits + 1, static_cast<int32_t>(other.size()) + 1);
      if (s.fraction && s.order != 0) s.digits = 0;
    }
    return pack(s);
  }
  bool accepts(int32_t packed) const override {
    const State s = unpack(packed);
    int magnitude = s.fraction ? s.order : integer_order(s);
    const size_t fraction_digits = s.fraction ? static_cast<size_t>(s.digits) : 0;
    if (magnitude == 0 && fraction_digits < after_.size()) magnitude = -1;
    int order = magnitude;
    if (bound_.negative)
      order = s.negative ? -magnitude : 1;
    else if (s.negative)
      order = bound_.zero() && magnitude == 0 ? 0 : -1;
    return right(order);
  }
  bool holds(const Decimal& number) const override { return right(compare(number, bound_)); }
  int32_t fate(int32_t) const override { return 0; }
  void mark_borders(std::bitset<257>& borders) const override { mark_number_borders(borders); }

 private:
  struct State {
    bool negative = false;
    bool fraction = false;
    int32_t digits = 0;  // read so far of this part
    int order = 0;       // of these to the bound's
  };
  bool right(int order) const {
    return relation_ == Relation::kLess ? order < 0 : relation_ == Relation::kLessEqual ? order <= 0 : order == 0;
  }
  static int32_t pack(const State& s) {
    return s.digits * 16 + (s.order + 1) * 4 + (s.fraction ? 2 : 0) + (s.negative ? 1 : 0);
  }
  static State unpack(int32_t packed) {
    return {(packed & 1) != 0, (packed & 2) != 0, packed / 16, packed / 4 % 4 - 1};
  }
  int integer_order(const State& s) const {
    const auto digits = static_cast<size_t>(s.digits);
    return digits < before_.size() ? -1 : digits > before_.size() ? 1 : s.order;
  }

  Relation relation_;
  Decimal bound_;
  std::string before_, after_;  // the bound's digits around the point, without leading and trailing zeros
};

constexpr int64_t kRemaindersMax = 200'000;

// The remainder of the digits so far, read as one integer scaled by 10^fraction_.
class MultipleComponent final : public Component {
 public:
  MultipleComponent(int64_t step, int32_t fraction) : step_(step), fraction_(fraction) {
    int64_t power = 1 % step;
    for (int32_t i = 0; i <= fraction; ++i) {
      powers_.push_back(power);
      power = power * 10 % step;
    }
  }
  int32_t start(Budget&) override { return pack(0, 0); }
  int32_t step(int32_t state, uint8_t byte, Budget&) override {
    if (state == kWrong) return kWrong;
    const int32_t phase = (state - 1) % phases();
    const int64_t rest = (state - 1) / phases();
    if (byte == '.') return phase == 0 ? pack(rest, 1) : kWrong;
    if (!is_digit(byte)) return state;
    if (phase == fraction_ + 1) return byte == '0' ? state : kWrong;
    return pack((rest * 10 + (byte - '0')) % step_, phase == 0 ? 0 : phase + 1);
  }
  bool accepts(int32_t state) const override {
    if (state == kWrong) return false;
    const int32_t phase = (state - 1) % phases();
    const int32_t missing = phase == 0 ? fraction_ : fraction_ + 1 - phase;
    return (state - 1) / phases() * powers_[static_cast<size_t>(missing)] % step_ == 0;
  }
  int32_t fate(int32_t state) const override { return state == kWrong ? -1 : 0; }
  bool holds(const Decimal& number) const override {
    if (number.exponent + fraction_ < 0) return false;  // digits end in no zero: a fraction is left
    int64_t rest = 0;
    for (const char digit : number.digits) rest = (rest * 10 + (digit - '0')) % step_;
    for (int64_t i = number.exponent + fraction_; i > 0 && rest != 0; --i) rest = rest * 10 % step_;
    return rest == 0;
  }
  void mark_borders(std::bitset<257>& borders) const override { mark_number_borders(borders); }

 private:
  static constexpr int32_t kWrong = 0;
  int32_t phases() const { return fraction_ + 2; }  // before the point; k - 1 digits after it
  int32_t pack(int64_t rest, int32_t phase) const { return static_cast<int32_t>(rest * phases() + phase + 1); }

  int64_t step_;
  int32_t fraction_;
  std::vector<int64_t> powers_;  // 10^i mod step
};

}  // namespace

ComponentPtr make_number_text(bool exponents) { return std::make_shared<NumberText>(exponents); }

ComponentPtr make_compare(Relation relation, const Decimal& bound) {
  return std::make_shared<CompareComponent>(relation, bound);
}

Result<ComponentPtr> make_multiple(const Decimal& step) {
  const int64_t fraction = std::max<int64_t>(0, -step.exponent);
  const int64_t zeros = std::max<int64_t>(0, step.exponent);
  if (fraction > 40 || static_cast<int64_t>(step.digits.size()) + zeros > 7)
    return Error{Code::kUnsupported, "multipleOf needs too many remainders"};
  const int64_t scaled = std::stoll(step.digits + std::string(static_cast<size_t>(zeros), '0'));
  if (scaled * (fraction + 2) > kRemaindersMax)
    return Error{Code::kUnsupported, "multipleOf needs too many remainders"};
  return ComponentPtr(std::make_shared<MultipleComponent>(scaled, static_cast<int32_t>(fraction)));
}

FormulaPtr make_constant(bool value) {
  auto made = std::make_shared<Formula>();
  made->kind = value ? Formula::Kind::kTrue : Formula::Kind::kFalse;
  return made;
}

FormulaPtr make_leaf(int32_t leaf) {
  auto made = std::make_shared<Formula>();
  made->kind = Formula::Kind::kLeaf;
  made->leaf = leaf;
  return made;
}

FormulaPtr make_formula(Formula::Kind kind, std::vector<FormulaPtr> parts) {
  const auto is = [](const FormulaPtr& f, Formula::Kind k) { return f->kind == k; };
  using Kind = Formula::Kind;
  if (kind == Kind::kNot) {
    if (is(parts[0], Kind::kTrue) || is(parts[0], Kind::kFalse)) return make_constant(is(parts[0], Kind::kFalse));
    if (is(parts[0], Kind::kNot)) return parts[0]->parts[0];
  } else if (kind == Kind::kAnd || kind == Kind::kOr) {
    const Kind neutral = kind == Kind::kAnd ? Kind::kTrue : Kind::kFalse;
    const Kind strong = kind == Kind::kAnd ? Kind::kFalse : Kind::kTrue;
    std::erase_if(parts, [&](const FormulaPtr& f) { return is(f, neutral); });
    for (const FormulaPtr& part : parts)
      if (is(part, strong)) return part;
    if (parts.empty()) return make_constant(kind == Kind::kAnd);
    if (parts.size() == 1) return parts[0];
  } else if (kind == Kind::kOne) {
    std::erase_if(parts, [&](const FormulaPtr& f) { return is(f, Kind::kFalse); });
    if (parts.empty()) return make_constant(false);
    if (parts.size() == 1) return parts[0];
  }
  auto made = std::make_shared<Formula>();
  made->kind = kind;
  made->parts = std::move(parts);
  return made;
}

}  // namespace pagoda::grammar
