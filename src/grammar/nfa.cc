#include "grammar/nfa.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "grammar/lexeme.h"

namespace pagoda::grammar {
namespace {

constexpr int64_t kStateBytes = 160;  // a state with its edges

void encode(uint32_t code, std::array<uint8_t, 4>& out) {
  if (code < 0x80) {
    out[0] = static_cast<uint8_t>(code);
  } else if (code < 0x800) {
    out[0] = static_cast<uint8_t>(0xC0 | (code >> 6));
    out[1] = static_cast<uint8_t>(0x80 | (code & 63));
  } else if (code < 0x10000) {
    out[0] = static_cast<uint8_t>(0xE0 | (code >> 12));
    out[1] = static_cast<uint8_t>(0x80 | ((code >> 6) & 63));
    out[2] = static_cast<uint8_t>(0x80 | (code & 63));
  } else {
    out[0] = static_cast<uint8_t>(0xF0 | (code >> 18));
    out[1] = static_cast<uint8_t>(0x80 | ((code >> 12) & 63));
    out[2] = static_cast<uint8_t>(0x80 | ((code >> 6) & 63));
    out[3] = static_cast<uint8_t>(0x80 | (code & 63));
  }
}

// A range as few products of byte ranges: cut at length borders, then wherever low bytes do not span all of 80..BF.
void split(uint32_t first, uint32_t last, std::vector<ByteRanges>& out) {
  constexpr std::array<uint32_t, 3> kLengthLast = {0x7F, 0x7FF, 0xFFFF};
  for (const uint32_t border : kLengthLast)
    if (first <= border && last > border) {
      split(first, border, out);
      split(border + 1, last, out);
      return;
    }
  const int32_t length = first <= 0x7F ? 1 : first <= 0x7FF ? 2 : first <= 0xFFFF ? 3 : 4;
  for (int32_t i = 1; i < length; ++i) {
    const uint32_t low = (1u << (6 * i)) - 1;
    if ((first & ~low) == (last & ~low)) continue;
    if ((first & low) != 0) {
      split(first, first | low, out);
      split((first | low) + 1, last, out);
      return;
    }
    if ((last & low) != low) {
      split(first, (last & ~low) - 1, out);
      split(last & ~low, last, out);
      return;
    }
  }
  ByteRanges sequence;
  sequence.length = length;
  encode(first, sequence.first);
  encode(last, sequence.last);
  out.push_back(sequence);
}

}  // namespace

void utf8_ranges(uint32_t first, uint32_t last, std::vector<ByteRanges>& out) { split(first, last, out); }

int32_t Nfa::add() {
  states.emplace_back();
  return static_cast<int32_t>(states.size()) - 1;
}

int32_t Nfa::append_class(const CodeSet& set, int32_t from, Budget& budget) {
  const int32_t end = add();
  std::vector<ByteRanges> sequences;
  for (const CodeRange& range : set) split(range.first, range.last, sequences);
  // Sequences that end alike share their tails: a state is known by what follows it.
  std::map<std::array<int32_t, 3>, int32_t> tails;
  for (const ByteRanges& sequence : sequences) {
    int32_t next = end;
    for (int32_t i = sequence.length - 1; i > 0; --i) {
      const auto at_i = static_cast<size_t>(i);
      const auto [known, fresh] = tails.try_emplace({sequence.first[at_i], sequence.last[at_i], next}, 0);
      if (fresh) {
        known->second = add();
        at(known->second).edges.push_back({sequence.first[at_i], sequence.last[at_i], next});
        budget.spend(kStateBytes);
      }
      next = known->second;
    }
    at(from).edges.push_back({sequence.first[0], sequence.last[0], next});
    if (!budget.spend(static_cast<int64_t>(sizeof(Edge)))) break;
  }
  return end;
}

int32_t Nfa::append_repeat(const Pattern& pattern, int32_t from, Budget& budget) {
  const Pattern& part = *pattern.parts[0];
  for (int32_t i = 0; i < pattern.min && !budget.over(); ++i) from = append(part, from, budget);
  if (pattern.max == Pattern::kUnlimited) {
    const int32_t loop = add();  // of its own: `from` may be entered again by an outer loop
    at(from).free.push_back(loop);
    const int32_t back = append(part, loop, budget);
    at(back).free.push_back(loop);
    const int32_t out = add();
    at(loop).free.push_back(out);
    return out;
  }
  const int32_t out = add();
  for (int32_t i = pattern.min; i < pattern.max && !budget.over(); ++i) {
    at(from).free.push_back(out);
    const int32_t inside = add();  // a state's own way out must not be a way into the part
    at(from).free.push_back(inside);
    from = append(part, inside, budget);
  }
  at(from).free.push_back(out);
  return out;
}

int32_t Nfa::append(const Pattern& pattern, int32_t from, Budget& budget) {
  if (!budget.spend(kStateBytes)) return from;
  switch (pattern.kind) {
    case Pattern::Kind::kClass: {
      const int32_t begin = add();  // of its own: edges of `from` would be its loops' too
      at(from).free.push_back(begin);
      return append_class(pattern.set, begin, budget);
    }
    case Pattern::Kind::kCat:
      for (const PatternPtr& part : pattern.parts) from = append(*part, from, budget);
      return from;
    case Pattern::Kind::kAlt: {
      const int32_t out = add();
      for (const PatternPtr& part : pattern.parts) {
        const int32_t begin = add();
        at(from).free.push_back(begin);
        const int32_t end = append(*part, begin, budget);
        at(end).free.push_back(out);
      }
      return out;
    }
    case Pattern::Kind::kRepeat:
      return append_repeat(pattern, from, budget);
    case Pattern::Kind::kCall: {
      const int32_t begin = add(), out = add();
      at(from).free.push_back(begin);
      at(begin).call = pattern.rule;
      at(begin).after = out;
      return out;
    }
    default:
      break;
  }
  const int32_t begin = add(), out = add();
  at(from).free.push_back(begin);
  (pattern.kind == Pattern::Kind::kBegin ? at(begin).begin : at(begin).end) = out;
  return out;
}

}  // namespace pagoda::grammar
