#include "grammar/pattern.h"

#include <algorithm>

#include "core/utf8.h"

namespace pagoda::grammar {

CodeSet normalized(CodeSet set) {
  std::sort(set.begin(), set.end(), [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  CodeSet merged;
  for (const CodeRange& range : set) {
    if (!merged.empty() && range.first <= merged.back().last + 1)
      merged.back().last = std::max(merged.back().last, range.last);
    else
      merged.push_back(range);
  }
  CodeSet out;
  for (const CodeRange& range : merged) {  // no UTF-8 text holds a surrogate
    if (range.first < 0xD800) out.push_back({range.first, std::min(range.last, 0xD7FFu)});
    if (range.last > 0xDFFF) out.push_back({std::max(range.first, 0xE000u), range.last});
  }
  return out;
}

CodeSet complement(const CodeSet& normalized_set) {
  CodeSet out;
  uint32_t next = 0;
  for (const CodeRange& range : normalized_set) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kCodeMax) out.push_back({next, kCodeMax});
  return normalized(std::move(out));
}

namespace {

std::shared_ptr<Pattern> make_pattern(Pattern::Kind kind) {
  auto made = std::make_shared<Pattern>();
  made->kind = kind;
  return made;
}

PatternPtr make_list(Pattern::Kind kind, std::vector<PatternPtr> parts) {
  if (parts.size() == 1) return parts.front();
  auto made = make_pattern(kind);
  made->parts = std::move(parts);
  return made;
}

}  // namespace

PatternPtr make_class(CodeSet set) {
  auto made = make_pattern(Pattern::Kind::kClass);
  made->set = normalized(std::move(set));
  return made;
}

PatternPtr make_cat(std::vector<PatternPtr> parts) { return make_list(Pattern::Kind::kCat, std::move(parts)); }

PatternPtr make_alt(std::vector<PatternPtr> parts) {
  if (parts.empty()) return make_class({});
  return make_list(Pattern::Kind::kAlt, std::move(parts));
}

PatternPtr make_repeat(PatternPtr part, int32_t min, int32_t max) {
  auto made = make_pattern(Pattern::Kind::kRepeat);
  made->parts.push_back(std::move(part));
  made->min = min;
  made->max = max;
  return made;
}

PatternPtr make_call(int32_t rule) {
  auto made = make_pattern(Pattern::Kind::kCall);
  made->rule = rule;
  return made;
}

PatternPtr make_assert(Pattern::Kind kind, std::vector<PatternPtr> parts) {
  auto made = make_pattern(kind);
  made->parts = std::move(parts);
  return made;
}

PatternPtr make_literal(std::string_view utf8) {
  std::vector<PatternPtr> parts;
  for (size_t at = 0; at < utf8.size();) {
    const Utf8Step step = utf8_step(utf8, at);
    parts.push_back(make_class({{step.code_point, step.code_point}}));
    at += static_cast<size_t>(step.bytes);
  }
  return make_cat(std::move(parts));
}

}  // namespace pagoda::grammar
