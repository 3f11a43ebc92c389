#include "dialog/output_parser.h"

#include <algorithm>

#include "dialog/call_match.h"

namespace pagoda::dialog {
namespace {

constexpr size_t kNoiseBytesMax = 96;
constexpr std::string_view kSpace = " \t\r\n";

/// Bytes at the end of `text` that may be the beginning of `marker`.
size_t begun(std::string_view text, std::string_view marker) {
  for (size_t bytes = std::min(text.size(), marker.size() - 1); bytes > 0; --bytes) {
    if (marker.starts_with(text.substr(text.size() - bytes))) return bytes;
  }
  return 0;
}

size_t without_space_at_end(std::string_view text) { return text.find_last_not_of(kSpace) + 1; }

}  // namespace

OutputParser::OutputParser(const OutputFormat& format, const ToolSet& tools, Options options)
    : format_(format), tools_(tools), options_(options) {
  if (options.reasoning && options.begins_reasoning && !format.reasoning.open.empty()) {
    state_ = State::kReasoning;
    skip_space_ = true;
  }
}

void OutputParser::push(std::string_view text, Output& out) {
  buffer_ += text;
  run(out);
}

void OutputParser::finish(Output& out) {
  final_ = true;
  run(out);
}

void OutputParser::run(Output& out) {
  while (step(out)) {
  }
  buffer_.erase(0, at_);
  at_ = 0;
}

/// One step forward; false when more text is needed.
bool OutputParser::step(Output& out) {
  switch (state_) {
    case State::kContent:
      return step_content(out);
    case State::kReasoning:
      return step_reasoning(out);
    case State::kCall:
      return step_call(out);
    case State::kArguments:
      return step_arguments(out);
    case State::kTail:
      return step_tail();
    case State::kBetween:
      return step_between();
  }
  return false;
}

bool OutputParser::looks_for_reasoning() const {
  return options_.reasoning && !said_ && !format_.reasoning.open.empty();
}

void OutputParser::say(std::string_view text, Output& out) {
  if (text.empty()) return;
  out.content += text;
  said_ = true;
  at_start_ = false;
}

// --- content ---

/// Calls look(marker, kind) for each that counts at this place.
template <class Look>
void OutputParser::each_marker(Look look) const {
  if (looks_for_reasoning()) look(format_.reasoning.open, MarkerKind::kReasoning);
  if (looks_for_calls() && !format_.calls.open.empty()) look(format_.calls.open, MarkerKind::kCall);
  for (const Noise& noise : format_.noise) look(noise.begin, MarkerKind::kNoise);
}

/// The first marker in rest(); of two at one place the longer.
OutputParser::Found OutputParser::find_marker() const {
  Found best;
  each_marker([&](std::string_view marker, MarkerKind kind) {
    const size_t at = rest().find(marker);
    if (at < best.at || (at == best.at && at != std::string_view::npos && marker.size() > best.bytes))
      best = {at, marker.size(), kind};
  });
  return best;
}

/// What was found, and all that follows it so far, is the beginning of a longer marker: ">>>" of ">>>all".
bool OutputParser::may_grow(const Found& found) const {
  bool grows = false;
  each_marker([&](std::string_view marker, MarkerKind /*kind*/) {
    grows = grows || (marker.size() > rest().size() - found.at && marker.starts_with(rest().substr(found.at)));
  });
  return grows && !final_;
}

/// Where the part of `text` begins that may belong to a marker still to come, or is white space before one.
size_t OutputParser::held_from(std::string_view text) const {
  size_t held = 0;
  bool any = false;
  each_marker([&](std::string_view marker, MarkerKind /*kind*/) {
    held = std::max(held, begun(text, marker));
    any = true;
  });
  const size_t end = text.size() - held;
  return any ? without_space_at_end(text.substr(0, end)) : end;
}

/// The answer begins with a call that no marker announces.
bool OutputParser::begins_bare() {
  if (!at_start_ || !looks_for_calls() || !format_.calls.may_be_bare) return false;
  const size_t first = rest().find_first_not_of(kSpace);
  if (first == std::string_view::npos) return false;
  const char c = rest()[first];
  at_start_ = false;
  if (c != '[' && (c != '{' || format_.calls.syntax != CallSyntax::kJson)) return false;
  marker_bytes_ = first;
  state_ = State::kCall;
  return true;
}

bool OutputParser::step_content(Output& out) {
  if (skip_space_) {
    at_ += std::min(rest().find_first_not_of(kSpace), rest().size());
    if (rest().empty()) return false;
    skip_space_ = false;
  }
  if (rest().empty()) return false;
  if (begins_bare()) return true;
  const Found found = find_marker();
  if (found.at != std::string_view::npos && may_grow(found)) return false;
  if (found.at != std::string_view::npos) return enter(found, out);
  const size_t held = final_ ? rest().size() : held_from(rest());
  if (held == 0) return false;
  const std::string_view text = rest().substr(0, held);
  // White space in front is held by at_start_: it may stand before reasoning or a bare call.
  say(text, out);
  at_ += held;
  return true;
}

/// Says what stands before a marker and goes on behind it; false if the marker is not complete.
bool OutputParser::enter(const Found& found, Output& out) {
  const std::string_view before = rest().substr(0, found.at);
  if (found.kind == MarkerKind::kCall) {
    const size_t text = without_space_at_end(before);
    say(before.substr(0, text), out);
    at_ += text;
    marker_bytes_ = found.at - text + found.bytes;
    state_ = State::kCall;
    return true;
  }
  if (found.kind == MarkerKind::kReasoning) {
    if (without_space_at_end(before) > 0) {  // it comes after content: it is content
      say(rest().substr(0, found.at + found.bytes), out);
    } else {
      state_ = State::kReasoning;
      skip_space_ = true;
    }
    at_ += found.at + found.bytes;
    return true;
  }
  for (const Noise& noise : format_.noise) {
    if (!rest().substr(found.at).starts_with(noise.begin) || noise.begin.size() != found.bytes) continue;
    say(before, out);
    at_ += found.at;
    if (noise.end.empty()) {
      at_ += found.bytes;
      return true;
    }
    const size_t end = rest().find(noise.end);
    const size_t line = rest().find('\n');
    if (end != std::string_view::npos && end < kNoiseBytesMax && end < line) {
      at_ += end + noise.end.size();
      return true;
    }
    if (end == std::string_view::npos && line == std::string_view::npos && rest().size() < kNoiseBytesMax && !final_)
      return false;
    say(rest().substr(0, found.bytes), out);
    at_ += found.bytes;
    return true;
  }
  return false;
}

// --- reasoning ---

bool OutputParser::step_reasoning(Output& out) {
  if (skip_space_) {
    at_ += std::min(rest().find_first_not_of(kSpace), rest().size());
    if (rest().empty()) return false;
    skip_space_ = false;
  }
  const size_t close = rest().find(format_.reasoning.close);
  if (close != std::string_view::npos) {
    out.reasoning += rest().substr(0, without_space_at_end(rest().substr(0, close)));
    at_ += close + format_.reasoning.close.size();
    skip_space_ = true;
    state_ = State::kContent;
    return true;
  }
  size_t certain = rest().size();
  if (!final_) certain = without_space_at_end(rest().substr(0, certain - begun(rest(), format_.reasoning.close)));
  out.reasoning += rest().substr(0, certain);
  at_ += certain;
  return false;
}

// --- calls ---

/// What stands in front was no call: it is content, and what follows is read anew.
void OutputParser::no_call(Output& out) {
  const size_t bytes = std::max<size_t>(marker_bytes_, 1);
  say(rest().substr(0, bytes), out);
  at_ += std::min(bytes, rest().size());
  state_ = State::kContent;
}

bool OutputParser::step_call(Output& out) {
  std::string_view text = rest().substr(marker_bytes_);
  size_t skipped = marker_bytes_;
  const bool lists = format_.calls.syntax == CallSyntax::kJson || format_.calls.syntax == CallSyntax::kKeyedJson ||
                     format_.calls.syntax == CallSyntax::kPythonic;
  const size_t first = text.find_first_not_of(kSpace);
  if (lists && first != std::string_view::npos && text[first] == '[') {
    skipped += first + 1;
    text.remove_prefix(first + 1);
  }
  CallHead head;
  const Match match = match_call(format_.calls, tools_, text, head);
  if (match == Match::kMore && !final_) return false;
  if (match != Match::kYes) {
    no_call(out);
    return true;
  }
  out.calls.push_back({calls_++, true, std::move(head.id), std::move(head.name), std::move(head.arguments)});
  at_start_ = false;
  if (head.whole) {
    state_ = State::kBetween;
  } else {
    scanner_ = JsonScanner();
    for (const char c : text.substr(head.object_at, head.bytes - head.object_at)) scanner_.feed(c);
    arguments_depth_ = scanner_.depth();
    state_ = State::kArguments;
  }
  at_ += skipped + head.bytes;
  marker_bytes_ = 0;
  return true;
}

bool OutputParser::step_arguments(Output& out) {
  const std::string_view text = rest();
  size_t bytes = 0;
  bool ended = false, broken = false;
  while (bytes < text.size() && !ended && !broken) {
    broken = !scanner_.feed(text[bytes]);
    if (!broken) ++bytes;
    ended = !broken && scanner_.depth() == arguments_depth_;
  }
  if (bytes > 0) {
    const bool same = !out.calls.empty() && out.calls.back().index == calls_ - 1;  // one delta a push and call
    if (!same) out.calls.push_back({.index = calls_ - 1});
    out.calls.back().arguments += text.substr(0, bytes);
  }
  at_ += bytes;
  if (ended) state_ = scanner_.done() ? State::kBetween : State::kTail;
  if (broken) state_ = State::kContent;
  return ended || broken;
}

/// The members that follow the arguments in the call's object.
bool OutputParser::step_tail() {
  while (!rest().empty()) {
    if (!scanner_.feed(rest().front())) {
      state_ = State::kContent;
      return true;
    }
    ++at_;
    if (!scanner_.done()) continue;
    state_ = State::kBetween;
    return true;
  }
  return false;
}

/// After a call: its closing tag, another call, or the end of the block.
bool OutputParser::step_between() {
  const CallFormat& calls = format_.calls;
  const size_t first = std::min(rest().find_first_not_of(" \t\r\n,;]"), rest().size());
  const bool list_ended = rest().substr(0, first).find(']') != std::string_view::npos;
  const std::string_view text = rest().substr(first);
  if (text.empty()) {
    if (final_) at_ = buffer_.size();
    return false;
  }
  const auto leave = [&](size_t bytes) {
    at_ += bytes;
    state_ = State::kContent;
    skip_space_ = true;
    return true;
  };
  for (const std::string_view closing : {calls.call_close, calls.close}) {
    if (closing.empty()) continue;
    if (text.starts_with(closing)) {
      if (closing == calls.close || calls.close.empty()) return leave(first + closing.size());
      at_ += first + closing.size();
      return true;
    }
    if (closing.starts_with(text)) {
      if (final_) at_ = buffer_.size();
      return false;
    }
  }
  CallHead head;
  const Match next = list_ended ? Match::kNo : match_call(calls, tools_, text, head);
  if (next == Match::kMore && !final_) return false;
  if (next != Match::kYes) return leave(list_ended ? first : 0);
  at_ += first;
  marker_bytes_ = 0;
  state_ = State::kCall;
  return true;
}

}  // namespace pagoda::dialog
