#include "api/grammar_cache.h"

#include <algorithm>
#include <vector>

namespace pagoda::api {
namespace {

constexpr size_t kEntriesMax = 64;

}  // namespace

std::optional<GrammarCache::Compiled> GrammarCache::find(const grammar::Source& source) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.source == source; });
  if (found == entries_.end()) return std::nullopt;
  if (found->compiled.ok() && found->compiled.value()->exhausted()) {  // by answers before: this one begins afresh
    entries_.erase(found);
    return std::nullopt;
  }
  entries_.splice(entries_.begin(), entries_, found);
  Compiled compiled = found->compiled;
  if (!compiled.ok()) entries_.pop_front();
  return compiled;
}

std::shared_ptr<const grammar::Vocabulary> GrammarCache::vocabulary() {
  const std::lock_guard lock(building_);
  if (!vocabulary_) vocabulary_ = std::make_shared<const grammar::Vocabulary>(tokenizer_);
  return vocabulary_;
}

void GrammarCache::make_room() {
  int64_t bytes = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    if (entry->compiled.ok()) bytes += entry->compiled.value()->bytes();
    const bool keep = entry == entries_.begin() || bytes <= bytes_max_;
    entry = keep ? std::next(entry) : entries_.erase(entry);
  }
  if (entries_.size() > kEntriesMax) entries_.resize(kEntriesMax, entries_.back());
}

void GrammarCache::compile(const grammar::Source& source) {
  {
    const std::lock_guard lock(mutex_);
    if (std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.source == source; })) return;
  }
  std::vector<TokenId> ends;
  for (TokenId id = 0; id < tokenizer_.size(); ++id)
    if (tokenizer_.is_end_of_generation(id)) ends.push_back(id);
  Compiled compiled = grammar::Grammar::compile(source, vocabulary(), std::move(ends), {});
  const std::lock_guard lock(mutex_);
  entries_.push_front({source, std::move(compiled)});
  make_room();
}

}  // namespace pagoda::api
