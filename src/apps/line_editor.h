#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::apps {

/// The text of one line and where the cursor stands in it. Positions are bytes, always at a character's border.
class LineBuffer {
 public:
  void insert(std::string_view text);
  void erase_before();    // Backspace
  void erase_at();        // Delete
  void erase_to_end();    // Ctrl-K
  void erase_to_start();  // Ctrl-U
  void erase_word();      // Ctrl-W
  void left();
  void right();
  void home() { cursor_ = 0; }
  void end() { cursor_ = text_.size(); }
  void set(std::string text);  // cursor at its end

  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }

 private:
  size_t before(size_t position) const;
  size_t after(size_t position) const;

  std::string text_;
  size_t cursor_ = 0;
};

/// Reads lines from the terminal on standard input, with history and the usual keys. The terminal is raw only while a
/// line is being read. A line longer than the terminal is wide scrolls sideways.
class LineEditor {
 public:
  enum class Outcome { kLine, kEnd, kCtrlC };  // kEnd: Ctrl-D on an empty line

  Outcome read(std::string_view prompt, std::string& line);

 private:
  enum class Key { kNone, kEnter, kEnd, kInterrupt };
  Key handle(char byte);
  void handle_control(char byte);
  void handle_escape();
  void browse(int step);  // through the history, -1 = older
  void draw(std::string_view prompt) const;

  LineBuffer line_;
  std::string pending_;  // bytes of an unfinished character
  std::vector<std::string> history_;
  size_t browsing_ = 0;  // index into history_; its size = the new line
  std::string draft_;    // the new line while browsing
};

}  // namespace pagoda::apps
