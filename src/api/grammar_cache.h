#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "grammar/grammar.h"
#include "text/tokenizer.h"

namespace pagoda::api {

/// The grammars that requests named lately, compiled over one model's vocabulary. Thread-safe.
class GrammarCache {
 public:
  /// `tokenizer` outlives it. `bytes_max`: what the automata of the kept grammars may hold together; the least recently
  /// used ones go first, requests that still use them keep them.
  GrammarCache(const text::Tokenizer& tokenizer, int64_t bytes_max) : tokenizer_(tokenizer), bytes_max_(bytes_max) {}

  using Compiled = Result<std::shared_ptr<grammar::Grammar>>;
  /// Absent: nobody has compiled it yet, or it is forgotten. A refusal is given once: it may have been the time's
  /// fault.
  std::optional<Compiled> find(const grammar::Source& source);
  /// Compiles and keeps the outcome for find(): up to the limits' time and bytes. On a thread nobody waits for.
  void compile(const grammar::Source& source);

 private:
  struct Entry {
    grammar::Source source;
    Compiled compiled;
  };
  std::shared_ptr<const grammar::Vocabulary> vocabulary();
  void make_room();

  const text::Tokenizer& tokenizer_;
  const int64_t bytes_max_;
  std::mutex building_;  // the vocabulary, once
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // last used first
};

}  // namespace pagoda::api
