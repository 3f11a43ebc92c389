#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dialog/format.h"
#include "dialog/json_scanner.h"
#include "dialog/tool_set.h"

namespace pagoda::dialog {

/// News of one tool call. The first of a call brings its name (and the id, if the model writes ids); the pieces of
/// `arguments` of one index joined are the call's arguments, JSON text as the model wrote it.
struct CallDelta {
  int32_t index = 0;
  bool begins = false;
  std::string id{};
  std::string name{};
  std::string arguments{};
};

/// What a piece of an answer turned out to be.
struct Output {
  std::string reasoning{};
  std::string content{};
  std::vector<CallDelta> calls{};

  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};

/// Takes an answer apart while it is written. Joined by kind, what comes out is the same wherever the text is cut.
///
///   - Text is held back only while it may become a marker, the head of a call, or white space before either.
///   - Nothing is lost: what looked like a call and is none, or names a tool that the request does not offer, comes
///     back as content. Only markers, the white space next to them and a call's members other than name and arguments
///     are left out. Arguments go out as soon as the call's head is certain; if they stop being JSON on the way, what
///     follows is content, and if the answer ends inside them they end there.
///   - Reasoning can begin only before any content: an answer that speaks of <think> keeps it.
class OutputParser {
 public:
  struct Options {
    bool reasoning = true;          // take reasoning apart; else it is content with its markers
    bool begins_reasoning = false;  // the prompt has opened it: see opens_reasoning()
  };

  /// `format` and `tools` must outlive the parser. An empty set of tools: calls are not looked for.
  OutputParser(const OutputFormat& format, const ToolSet& tools, Options options);

  /// Appends text of the answer; what became certain is added to `out`.
  void push(std::string_view text, Output& out);
  /// The answer is over: what is held comes out.
  void finish(Output& out);

  /// Calls so far.
  int32_t calls() const { return calls_; }

 private:
  enum class State { kContent, kReasoning, kCall, kArguments, kTail, kBetween };
  enum class MarkerKind { kReasoning, kCall, kNoise };
  struct Found {
    size_t at = std::string_view::npos;
    size_t bytes = 0;
    MarkerKind kind = MarkerKind::kNoise;
  };

  std::string_view rest() const { return std::string_view(buffer_).substr(at_); }
  void run(Output& out);
  bool step(Output& out);
  bool step_content(Output& out);
  bool step_reasoning(Output& out);
  bool step_call(Output& out);
  bool step_arguments(Output& out);
  bool step_tail();
  bool step_between();

  bool begins_bare();
  Found find_marker() const;
  bool may_grow(const Found& found) const;
  template <class Look>
  void each_marker(Look look) const;
  bool enter(const Found& found, Output& out);
  size_t held_from(std::string_view text) const;
  bool looks_for_reasoning() const;
  bool looks_for_calls() const { return !tools_.empty() && format_.calls.syntax != CallSyntax::kNone; }
  void say(std::string_view text, Output& out);
  void no_call(Output& out);

  const OutputFormat& format_;
  const ToolSet& tools_;
  const Options options_;
  State state_ = State::kContent;
  std::string buffer_{};  // unread text begins at at_
  size_t at_ = 0;
  bool final_ = false;       // no more text comes
  bool skip_space_ = false;  // white space after a marker
  bool at_start_ = true;     // nothing but white space and reasoning so far
  bool said_ = false;        // content went out
  size_t marker_bytes_ = 0;  // kCall: of the white space and the marker in front of rest()
  JsonScanner scanner_{};    // kArguments, kTail
  size_t arguments_depth_ = 0;
  int32_t calls_ = 0;
};

}  // namespace pagoda::dialog
