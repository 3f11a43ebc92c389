#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/ids.h"
#include "core/result.h"
#include "grammar/automaton.h"
#include "grammar/json_automaton.h"
#include "grammar/vocabulary.h"

namespace pagoda::grammar {

/// What an answer must look like.
struct Source {
  enum class Kind : uint8_t { kJsonSchema, kRegex, kGbnf, kChoice };
  Kind kind = Kind::kJsonSchema;
  std::string text{};                  // kChoice: unused
  std::vector<std::string> choices{};  // kChoice
  JsonLayout layout{};                 // kJsonSchema
  friend bool operator==(const Source&, const Source&);
};

/// Errors: kInvalidRequest, kUnsupported or kTooLarge; `param` is the place in the source: a JSON pointer, "line 1,
/// column 2" or "offset 3". A language without any text is an error here too unless `empty_allowed`.
Result<std::unique_ptr<Automaton>> compile(const Source& source, const Limits& limits, bool empty_allowed = false);

/// Which tokens may come next: bit i of word i / 64.
struct Mask {
  std::vector<uint64_t> words{};
  int32_t allowed = 0;  // bits set
  bool allows(TokenId id) const {
    return (words[static_cast<size_t>(id) / 64] >> (static_cast<size_t>(id) % 64) & 1u) != 0;
  }
};

/// A compiled grammar over one vocabulary, shared by all requests that use it: a state's mask is worked out once.
/// Thread-safe.
class Grammar {
 public:
  /// `end_tokens`: ids that end an answer; a mask has them where the text so far is complete.
  static Result<std::shared_ptr<Grammar>> compile(const Source& source, std::shared_ptr<const Vocabulary> vocabulary,
                                                  std::vector<TokenId> end_tokens, const Limits& limits);

  StateId start();
  /// The state after the token, or kDead if it is not allowed there. End tokens leave the state as it is.
  StateId advance(StateId state, TokenId token);
  StateId advance_bytes(StateId state, std::string_view bytes);
  bool accepting(StateId state);
  /// Null when the grammar outgrew its budget: the sequence cannot go on.
  std::shared_ptr<const Mask> mask(StateId state);
  /// The bytes that must come next, whatever is chosen; ends where there is a choice (also that of ending). Not more
  /// than `bytes_max`.
  std::string forced(StateId state, size_t bytes_max);
  bool exhausted();
  /// Of the automaton and what was worked out so far; about.
  int64_t bytes();
  const Vocabulary& vocabulary() const { return *vocabulary_; }

 private:
  Grammar(std::unique_ptr<Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary,
          std::vector<TokenId> end_tokens);
  struct Inside {                 // below one node of the vocabulary, while inside a string
    std::vector<TokenId> tokens;  // that stay inside
    std::vector<std::pair<int32_t, std::string>>
        left;  // nodes at which the string ends, with the bytes that lead there
  };
  const Inside& inside(int32_t inside, int32_t node);
  void walk(StateId state, int32_t node, Mask& mask);
  void add_inside(StateId state, int32_t node, int32_t inside_id, Mask& mask);
  void allow(Mask& mask, int32_t node) const;

  std::mutex mutex_;
  std::unique_ptr<Automaton> automaton_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<TokenId> end_tokens_;
  std::unordered_map<StateId, std::shared_ptr<const Mask>> masks_;
  int64_t mask_bytes_ = 0;
  std::unordered_map<int64_t, Inside> insides_;
  int64_t inside_bytes_ = 0;
};

/// Where one sequence is in its grammar. One thread.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Grammar> grammar) : grammar_(std::move(grammar)), states_{grammar_->start()} {}

  std::shared_ptr<const Mask> mask() { return grammar_->mask(states_.back()); }
  /// False (and nothing taken) where the mask lacks the token.
  bool accept(TokenId token);
  /// Takes back the last `tokens`.
  void rollback(size_t tokens);
  size_t taken() const { return states_.size() - 1; }
  bool complete() { return grammar_->accepting(states_.back()); }
  std::string forced(size_t bytes_max) { return grammar_->forced(states_.back(), bytes_max); }
  Grammar& grammar() { return *grammar_; }

 private:
  std::shared_ptr<Grammar> grammar_;
  std::vector<StateId> states_;  // after 0, 1, ... tokens
};

}  // namespace pagoda::grammar
