#pragma once
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "grammar/budget.h"
#include "grammar/decimal.h"
#include "grammar/pattern.h"

namespace pagoda::grammar {

/// One question about a string or a number, answered while its bytes come: "does it match this pattern?". Strings are
/// the UTF-8 bytes of their value, escapes already undone; numbers their JSON text. Total: every byte leads somewhere.
class Component {
 public:
  virtual ~Component() = default;
  virtual int32_t start(Budget& budget) = 0;
  virtual int32_t step(int32_t state, uint8_t byte, Budget& budget) = 0;
  virtual bool accepts(int32_t state) const = 0;
  /// -1: the answer is no from here on, whatever comes; 1: it is yes; 0: open.
  virtual int32_t fate(int32_t state) const = 0;
  /// The answer for a number as a whole (components of numbers).
  virtual bool holds([[maybe_unused]] const Decimal& number) const { return false; }
  /// Sets bit b where bytes b-1 and b may be told apart.
  virtual void mark_borders(std::bitset<257>& borders) const = 0;
};
using ComponentPtr = std::shared_ptr<Component>;

/// All bytes so far are the beginning of UTF-8, accepting between characters.
ComponentPtr make_utf8();
/// `pattern` is found somewhere in the string. Errors: kTooLarge.
Result<ComponentPtr> make_search(const Pattern& pattern, Budget& budget);
/// min <= characters <= max (kNoMax: no limit).
inline constexpr int64_t kNoMax = INT64_MAX;
ComponentPtr make_length(int64_t min, int64_t max);
/// Equals one of the strings.
class NamesComponent;
std::shared_ptr<NamesComponent> make_names(std::vector<std::string> names);

class NamesComponent final : public Component {
 public:
  explicit NamesComponent(std::vector<std::string> sorted);
  int32_t start(Budget&) override { return 1; }
  int32_t step(int32_t state, uint8_t byte, Budget&) override;
  bool accepts(int32_t state) const override { return name_at(state) >= 0; }
  int32_t fate(int32_t state) const override { return state == 0 ? -1 : 0; }
  void mark_borders(std::bitset<257>& borders) const override;

  /// Index of the name that ends at `state`, or -1; names are in byte order.
  int32_t name_at(int32_t state) const { return nodes_[static_cast<size_t>(state)].name; }
  /// Names that go on from `state` (itself included): [first, last).
  std::pair<int32_t, int32_t> names_below(int32_t state) const {
    const Node& n = nodes_[static_cast<size_t>(state)];
    return {n.first, n.last};
  }
  int32_t find(std::string_view name) const;
  const std::vector<std::string>& names() const { return names_; }

 private:
  struct Node {
    int32_t first, last;  // names below
    int32_t depth;
    int32_t name = -1;
    std::vector<std::pair<uint8_t, int32_t>> children{};  // by byte
  };
  void split(int32_t node);
  std::vector<std::string> names_;
  std::vector<Node> nodes_;  // 0 = none of the names, 1 = root
};

/// A JSON number's text, without exponent. Where `integer`: its fraction, if any, is zeros only.
ComponentPtr make_number_text(bool exponents);
enum class Relation : uint8_t { kLess, kLessEqual, kEqual };
/// value RELATION bound
ComponentPtr make_compare(Relation relation, const Decimal& bound);
/// value is a multiple of `step` > 0. Errors: kUnsupported where the remainders are too many.
Result<ComponentPtr> make_multiple(const Decimal& step);

/// Whether components' answers together are the wanted one.
struct Formula {
  enum class Kind : uint8_t { kFalse, kTrue, kLeaf, kNot, kAnd, kOr, kOne };  // kOne: exactly one part
  Kind kind = Kind::kTrue;
  int32_t leaf = -1;
  std::vector<std::shared_ptr<const Formula>> parts{};
};
using FormulaPtr = std::shared_ptr<const Formula>;
FormulaPtr make_constant(bool value);
FormulaPtr make_leaf(int32_t leaf);
FormulaPtr make_formula(Formula::Kind kind, std::vector<FormulaPtr> parts);

}  // namespace pagoda::grammar
