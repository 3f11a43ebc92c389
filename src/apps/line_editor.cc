#include "apps/line_editor.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/utf8.h"

namespace pagoda::apps {
namespace {

constexpr char kEscape = 27;
constexpr char kBackspace = 127;
constexpr int kEscapeWaitMs = 30;  // an arrow key sends its bytes at once, a person does not
constexpr size_t kHistoryMax = 1000;

constexpr char ctrl(char letter) { return static_cast<char>(letter & 0x1F); }

/// The terminal without echo, line buffering and signals, for as long as the object lives.
class RawMode {
 public:
  RawMode() {
    active_ = tcgetattr(STDIN_FILENO, &before_) == 0;
    if (!active_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL | BRKINT | INPCK | ISTRIP);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    active_ = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
  }
  ~RawMode() {
    if (active_) tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

 private:
  termios before_{};
  bool active_ = false;
};

enum class Input { kByte, kNothing, kClosed, kSignal };

/// One byte from the keyboard; kNothing after `wait_ms` (-1 = wait for ever).
Input read_byte(char& byte, int wait_ms = -1) {
  pollfd descriptor{STDIN_FILENO, POLLIN, 0};
  const int ready = poll(&descriptor, 1, wait_ms);
  if (ready == 0) return Input::kNothing;
  if (ready < 0) return errno == EINTR ? Input::kSignal : Input::kClosed;
  const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
  if (got < 0 && errno == EINTR) return Input::kSignal;
  return got == 1 ? Input::kByte : Input::kClosed;
}

void write_terminal(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(STDOUT_FILENO, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;  // the terminal is gone; the next read says so
    text.remove_prefix(static_cast<size_t>(put));
  }
}

int columns_of(std::string_view text) {
  int columns = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = utf8_step(text, i);
    columns += std::max(0, utf8proc_charwidth(static_cast<utf8proc_int32_t>(step.code_point)));
    i += static_cast<size_t>(step.bytes);
  }
  return columns;
}

int terminal_columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 10) return 80;
  return size.ws_col;
}

}  // namespace

size_t LineBuffer::before(size_t position) const {
  if (position == 0) return 0;
  --position;
  while (position > 0 && (text_[position] & 0xC0) == 0x80) --position;
  return position;
}

size_t LineBuffer::after(size_t position) const {
  if (position < text_.size()) ++position;
  while (position < text_.size() && (text_[position] & 0xC0) == 0x80) ++position;
  return position;
}

void LineBuffer::insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void LineBuffer::erase_before() {
  const size_t begin = before(cursor_);
  text_.erase(begin, cursor_ - begin);
  cursor_ = begin;
}

void LineBuffer::erase_at() { text_.erase(cursor_, after(cursor_) - cursor_); }

void LineBuffer::erase_to_end() { text_.erase(cursor_); }

void LineBuffer::erase_to_start() {
  text_.erase(0, cursor_);
  cursor_ = 0;
}

void LineBuffer::erase_word() {
  size_t begin = cursor_;
  while (begin > 0 && text_[begin - 1] == ' ') --begin;
  while (begin > 0 && text_[begin - 1] != ' ') --begin;
  text_.erase(begin, cursor_ - begin);
  cursor_ = begin;
}

void LineBuffer::left() { cursor_ = before(cursor_); }
void LineBuffer::right() { cursor_ = after(cursor_); }

void LineBuffer::set(std::string text) {
  text_ = std::move(text);
  cursor_ = text_.size();
}

void LineEditor::browse(int step) {
  if (step < 0 ? browsing_ == 0 : browsing_ == history_.size()) return;
  if (browsing_ == history_.size()) draft_ = line_.text();
  browsing_ = step < 0 ? browsing_ - 1 : browsing_ + 1;
  line_.set(browsing_ == history_.size() ? draft_ : history_[browsing_]);
}

/// ESC [ A, ESC [ 3 ~, ESC O H ...: cursor keys; anything unknown is swallowed whole.
void LineEditor::handle_escape() {
  char byte = 0;
  if (read_byte(byte, kEscapeWaitMs) != Input::kByte || (byte != '[' && byte != 'O')) return;
  std::string parameters;
  while (read_byte(byte, kEscapeWaitMs) == Input::kByte && byte >= 0x20 && byte < 0x40) parameters += byte;
  switch (byte) {
    case 'A':
      return browse(-1);
    case 'B':
      return browse(1);
    case 'C':
      return line_.right();
    case 'D':
      return line_.left();
    case 'H':
      return line_.home();
    case 'F':
      return line_.end();
    case '~':
      if (parameters == "3") line_.erase_at();
      if (parameters == "1" || parameters == "7") line_.home();
      if (parameters == "4" || parameters == "8") line_.end();
      return;
    default:
      return;
  }
}

void LineEditor::handle_control(char byte) {
  switch (byte) {
    case kBackspace:
    case ctrl('H'):
      return line_.erase_before();
    case ctrl('A'):
      return line_.home();
    case ctrl('B'):
      return line_.left();
    case ctrl('D'):
      return line_.erase_at();
    case ctrl('E'):
      return line_.end();
    case ctrl('F'):
      return line_.right();
    case ctrl('K'):
      return line_.erase_to_end();
    case ctrl('L'):
      return write_terminal("\x1b[H\x1b[2J");
    case ctrl('N'):
      return browse(1);
    case ctrl('P'):
      return browse(-1);
    case ctrl('U'):
      return line_.erase_to_start();
    case ctrl('W'):
      return line_.erase_word();
    case '\t':
      return line_.insert("  ");
    case kEscape:
      return handle_escape();
    default:
      return;
  }
}

LineEditor::Key LineEditor::handle(char byte) {
  if (byte == '\r' || byte == '\n') return Key::kEnter;
  if (byte == ctrl('C')) return Key::kInterrupt;
  if (byte == ctrl('D') && line_.text().empty()) return Key::kEnd;
  const auto value = static_cast<unsigned char>(byte);
  if (value < 0x20 || byte == kBackspace) {
    pending_.clear();
    handle_control(byte);
    return Key::kNone;
  }
  pending_ += byte;  // a character enters whole
  const auto lead = static_cast<unsigned char>(pending_[0]);
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  if (pending_.size() >= length) {
    line_.insert(replace_invalid_utf8(pending_));
    pending_.clear();
  }
  return Key::kNone;
}

void LineEditor::draw(std::string_view prompt) const {
  const int room = std::max(8, terminal_columns() - columns_of(prompt) - 1);
  // What fits around the cursor: first to its left, then to its right. Costs a screen's width, however long the line.
  LineBuffer left = line_, right = line_;
  int columns = 0;
  const auto take = [&](size_t from, size_t to) {
    const int more = columns_of(std::string_view(line_.text()).substr(from, to - from));
    if (columns + more > room) return false;
    columns += more;
    return true;
  };
  size_t begin = line_.cursor(), end = line_.cursor();
  for (left.left(); begin > 0 && take(left.cursor(), begin); left.left()) begin = left.cursor();
  const int left_columns = columns;
  for (right.right(); end < line_.text().size() && take(end, right.cursor()); right.right()) end = right.cursor();
  std::string out = "\r" + std::string(prompt) + line_.text().substr(begin, end - begin) + "\x1b[K";
  if (columns > left_columns) out += "\x1b[" + std::to_string(columns - left_columns) + "D";
  write_terminal(out);
}

LineEditor::Outcome LineEditor::read(std::string_view prompt, std::string& line) {
  const RawMode raw;
  line_.set("");
  pending_.clear();
  draft_.clear();
  browsing_ = history_.size();
  for (;;) {
    draw(prompt);
    char byte = 0;
    if (const Input input = read_byte(byte); input != Input::kByte) {
      write_terminal("\r\n");
      return input == Input::kSignal ? Outcome::kCtrlC : Outcome::kEnd;
    }
    const Key key = handle(byte);
    if (key == Key::kNone) continue;
    write_terminal("\r\n");
    if (key == Key::kEnd) return Outcome::kEnd;
    if (key == Key::kInterrupt) return Outcome::kCtrlC;
    line = line_.text();
    if (!line.empty() && (history_.empty() || history_.back() != line)) history_.push_back(line);
    if (history_.size() > kHistoryMax) history_.erase(history_.begin());
    return Outcome::kLine;
  }
}

}  // namespace pagoda::apps
