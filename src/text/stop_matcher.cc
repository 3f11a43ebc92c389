#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace pagoda::text {
namespace {

// Knuth-Morris-Pratt: failure[k] = length of the longest proper prefix of the first k bytes that is also their suffix.
std::vector<size_t> failure_of(std::string_view pattern) {
  std::vector<size_t> failure(pattern.size() + 1, 0);
  for (size_t i = 1, k = 0; i < pattern.size(); ++i) {
    while (k > 0 && pattern[i] != pattern[k]) k = failure[k];
    if (pattern[i] == pattern[k]) ++k;
    failure[i + 1] = k;
  }
  return failure;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_in_output)
    : include_in_output_(include_in_output) {
  for (std::string& stop : stops) {
    if (stop.empty()) continue;
    std::vector<size_t> failure = failure_of(stop);
    stops_.push_back({std::move(stop), std::move(failure)});
  }
  // Of two that end at the same place the longer is found first.
  std::stable_sort(stops_.begin(), stops_.end(),
                   [](const Stop& a, const Stop& b) { return a.text.size() > b.text.size(); });
}

const StopMatcher::Stop* StopMatcher::advance(char byte) {
  const Stop* complete = nullptr;
  for (Stop& stop : stops_) {
    while (stop.matched > 0 && stop.text[stop.matched] != byte) stop.matched = stop.failure[stop.matched];
    if (stop.text[stop.matched] == byte) ++stop.matched;
    if (stop.matched < stop.text.size()) continue;
    if (complete == nullptr) complete = &stop;
    stop.matched = stop.failure[stop.matched];
  }
  return complete;
}

StopMatcher::Step StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  for (size_t i = 0; i < text.size(); ++i) {
    const Stop* stop = advance(text[i]);
    if (stop == nullptr) continue;
    stopped_ = true;
    held_.append(text.substr(0, i + 1));
    if (!include_in_output_) held_.resize(held_.size() - stop->text.size());
    return {std::exchange(held_, {}), true, stop->text};
  }
  held_.append(text);
  size_t keep = 0;
  for (const Stop& stop : stops_) keep = std::max(keep, stop.matched);
  std::string safe = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return {std::move(safe)};
}

std::string StopMatcher::finish() {
  stopped_ = true;
  return std::exchange(held_, {});
}

}  // namespace pagoda::text
