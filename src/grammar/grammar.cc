#include "grammar/grammar.h"

#include <algorithm>
#include <bit>

#include "core/check.h"
#include "grammar/rules.h"

namespace pagoda::grammar {
namespace {

constexpr int64_t kMaskBytesMax = int64_t{32} << 20;    // of one grammar; then all are forgotten
constexpr int64_t kInsideBytesMax = int64_t{32} << 20;  // likewise
constexpr int32_t kInsideNodesMin = 48;                 // smaller parts of the vocabulary are walked each time

Result<std::unique_ptr<Automaton>> compile_one_rule(PatternPtr pattern, const Limits& limits) {
  return compile_rules({Rule{"the expression", std::move(pattern), "offset 0"}}, 0, limits);
}

Result<std::unique_ptr<Automaton>> compile_gbnf(std::string_view text, const Limits& limits) {
  PAGODA_TRY(const std::vector<Rule> rules, parse_gbnf(text));
  const auto root = std::find_if(rules.begin(), rules.end(), [](const Rule& rule) { return rule.name == "root"; });
  if (root == rules.end())
    return Error{Code::kInvalidRequest, "grammar: no rule has the name root at line 1, column 1", "line 1, column 1"};
  return compile_rules(rules, static_cast<int32_t>(root - rules.begin()), limits);
}

Result<std::unique_ptr<Automaton>> compile_source(const Source& source, const Limits& limits) {
  switch (source.kind) {
    case Source::Kind::kJsonSchema:
      return compile_json_schema(source.text, source.layout, limits);
    case Source::Kind::kGbnf:
      return compile_gbnf(source.text, limits);
    case Source::Kind::kRegex: {
      PAGODA_TRY(PatternPtr pattern, parse_whole_regex(source.text));
      return compile_one_rule(std::move(pattern), limits);
    }
    case Source::Kind::kChoice:
      break;
  }
  std::vector<PatternPtr> choices;
  for (const std::string& choice : source.choices) choices.push_back(make_literal(choice));
  if (choices.empty()) return Error{Code::kInvalidRequest, "choice: at least one text is needed", "/"};
  return compile_one_rule(make_alt(std::move(choices)), limits);
}

}  // namespace

bool operator==(const Source& a, const Source& b) {
  return a.kind == b.kind && a.text == b.text && a.choices == b.choices && a.layout.blanks_max == b.layout.blanks_max &&
         a.layout.tidy == b.layout.tidy;
}

Result<std::unique_ptr<Automaton>> compile(const Source& source, const Limits& limits, bool empty_allowed) {
  PAGODA_TRY(std::unique_ptr<Automaton> automaton, compile_source(source, limits));
  const StateId start = automaton->start();
  if (automaton->exhausted()) return Error{Code::kTooLarge, "the grammar's automaton outgrows its budget", "/"};
  if (start == kDead && !empty_allowed) return Error{Code::kInvalidRequest, "no text satisfies the grammar", "/"};
  return automaton;
}

Grammar::Grammar(std::unique_ptr<Automaton> automaton, std::shared_ptr<const Vocabulary> vocabulary,
                 std::vector<TokenId> end_tokens)
    : automaton_(std::move(automaton)), vocabulary_(std::move(vocabulary)), end_tokens_(std::move(end_tokens)) {}

Result<std::shared_ptr<Grammar>> Grammar::compile(const Source& source, std::shared_ptr<const Vocabulary> vocabulary,
                                                  std::vector<TokenId> end_tokens, const Limits& limits) {
  PAGODA_TRY(std::unique_ptr<Automaton> automaton, grammar::compile(source, limits));
  return std::shared_ptr<Grammar>(new Grammar(std::move(automaton), std::move(vocabulary), std::move(end_tokens)));
}

StateId Grammar::start() {
  const std::lock_guard lock(mutex_);
  return automaton_->start();
}

bool Grammar::accepting(StateId state) {
  const std::lock_guard lock(mutex_);
  return state >= 0 && automaton_->accepting(state);
}

bool Grammar::exhausted() {
  const std::lock_guard lock(mutex_);
  return automaton_->exhausted();
}

int64_t Grammar::bytes() {
  const std::lock_guard lock(mutex_);
  return automaton_->budget().bytes_spent() + mask_bytes_ + inside_bytes_;
}

StateId Grammar::advance_bytes(StateId state, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  for (const char c : bytes) {
    if (state < 0) return kDead;
    state = automaton_->step(state, static_cast<uint8_t>(c));
  }
  return state;
}

StateId Grammar::advance(StateId state, TokenId token) {
  if (token < 0 || token >= vocabulary_->size()) return kDead;
  if (std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end())
    return accepting(state) ? state : kDead;
  const std::string& bytes = vocabulary_->bytes(token);
  return bytes.empty() ? kDead : advance_bytes(state, bytes);
}

void Grammar::allow(Mask& mask, int32_t node) const {
  for (const TokenId id : vocabulary_->tokens(vocabulary_->nodes()[static_cast<size_t>(node)]))
    mask.words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<size_t>(id) % 64);
}

// What the tokens below `node` do inside a string, whatever lies around it.
const Grammar::Inside& Grammar::inside(int32_t inside, int32_t node) {
  const int64_t key = static_cast<int64_t>(inside) << 32 | node;
  if (const auto known = insides_.find(key); known != insides_.end()) return known->second;
  if (inside_bytes_ > kInsideBytesMax) {
    insides_.clear();
    inside_bytes_ = 0;
  }
  const auto& nodes = vocabulary_->nodes();
  const auto root = nodes[static_cast<size_t>(node)];
  Inside out;
  std::vector<int32_t> states(static_cast<size_t>(vocabulary_->longest_token()) + 1);  // by depth
  states[root.depth] = inside;
  std::string path;
  for (int32_t at = node + 1; at < root.end;) {
    const Vocabulary::Node& here = nodes[static_cast<size_t>(at)];
    const int32_t next = automaton_->step_inside(states[here.depth - size_t{1}], here.byte);
    path.resize(here.depth - root.depth - size_t{1});
    path += static_cast<char>(here.byte);
    if (next == kLeft) out.left.emplace_back(at, path);
    if (next < 0) {
      at = here.end;
      continue;
    }
    states[here.depth] = next;
    const auto ids = vocabulary_->tokens(here);
    out.tokens.insert(out.tokens.end(), ids.begin(), ids.end());
    ++at;
  }
  inside_bytes_ += static_cast<int64_t>((out.tokens.size() + 12 * out.left.size()) * sizeof(int32_t)) + 100;
  return insides_.insert_or_assign(key, std::move(out)).first->second;
}

void Grammar::add_inside(StateId state, int32_t node, int32_t inside_id, Mask& mask) {
  const Inside& known = inside(inside_id, node);
  for (const TokenId id : known.tokens)
    mask.words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<size_t>(id) % 64);
  const auto left = known.left;  // a copy: what follows may forget it
  for (const auto& [end, bytes] : left) {
    StateId next = state;
    for (const char c : bytes) next = automaton_->step(next, static_cast<uint8_t>(c));
    if (next < 0) continue;
    allow(mask, end);
    walk(next, end, mask);
  }
}

// Allows the tokens below `node`, to which `state` belongs.
void Grammar::walk(StateId state, int32_t node, Mask& mask) {
  const auto& nodes = vocabulary_->nodes();
  const Vocabulary::Node root = nodes[static_cast<size_t>(node)];
  const auto shared = [&](StateId s, int32_t at, int32_t end) {
    return end - at > kInsideNodesMin ? automaton_->inside(s) : kDead;
  };
  if (const int32_t id = shared(state, node, root.end); id >= 0) return add_inside(state, node, id, mask);
  std::vector<StateId> states(static_cast<size_t>(vocabulary_->longest_token()) + 1);
  states[root.depth] = state;
  for (int32_t at = node + 1; at < root.end;) {
    const Vocabulary::Node& here = nodes[static_cast<size_t>(at)];
    const StateId next = automaton_->step(states[here.depth - size_t{1}], here.byte);
    if (next < 0) {
      at = here.end;
      continue;
    }
    allow(mask, at);
    if (const int32_t id = shared(next, at, here.end); id >= 0) {
      add_inside(next, at, id, mask);
      at = here.end;
      continue;
    }
    states[here.depth] = next;
    ++at;
  }
}

std::shared_ptr<const Mask> Grammar::mask(StateId state) {
  const std::lock_guard lock(mutex_);
  if (const auto known = masks_.find(state); known != masks_.end()) return known->second;
  auto mask = std::make_shared<Mask>();
  mask->words.assign(static_cast<size_t>(vocabulary_->size() + 63) / 64, 0);
  if (state >= 0) {
    walk(state, Vocabulary::kRoot, *mask);
    if (automaton_->accepting(state))
      for (const TokenId id : end_tokens_)
        mask->words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (static_cast<size_t>(id) % 64);
  }
  if (automaton_->exhausted()) return nullptr;
  for (const uint64_t word : mask->words) mask->allowed += std::popcount(word);
  const auto bytes = static_cast<int64_t>(mask->words.size() * sizeof(uint64_t));
  if ((mask_bytes_ += bytes) > kMaskBytesMax) {
    masks_.clear();
    mask_bytes_ = bytes;
  }
  masks_.emplace(state, mask);
  return mask;
}

std::string Grammar::forced(StateId state, size_t bytes_max) {
  const std::lock_guard lock(mutex_);
  std::string out;
  while (state >= 0 && out.size() < bytes_max && !automaton_->accepting(state)) {
    int32_t only = -1;
    StateId next = kDead;
    for (int32_t byte = 0; byte < 256; ++byte) {
      const StateId to = automaton_->step(state, static_cast<uint8_t>(byte));
      if (to < 0) continue;
      if (only >= 0) return out;
      only = byte;
      next = to;
    }
    if (only < 0) return out;
    out += static_cast<char>(only);
    state = next;
  }
  return out;
}

bool Matcher::accept(TokenId token) {
  const StateId next = grammar_->advance(states_.back(), token);
  if (next < 0) return false;
  states_.push_back(next);
  return true;
}

void Matcher::rollback(size_t tokens) {
  PAGODA_CHECK(tokens < states_.size());
  states_.resize(states_.size() - tokens);
}

}  // namespace pagoda::grammar
