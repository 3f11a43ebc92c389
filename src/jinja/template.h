#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "jinja/value.h"

namespace pagoda::jinja {

/// Bounds on what a template may cost; exceeding one is an error that names it.
struct Budget {
  int64_t steps_max = 5'000'000;  // evaluated nodes and produced elements
  int64_t output_bytes_max = 16 << 20;
  int64_t memory_bytes_max = 48 << 20;  // live strings and containers made while rendering, the output among them
  int32_t depth_max = 200;              // nesting of expressions, blocks and macro calls
};

/// Jinja's kinds of undefined: what may be done with a name that has no value.
enum class Undefined : uint8_t {
  kDefault,    // prints nothing, is empty and false; anything else fails
  kStrict,     // any use fails but `is defined` and `default`
  kChainable,  // attributes and items of it are undefined too
  kDebug,      // prints itself
};

/// Jinja's environment switches; the defaults are those of chat templates (transformers' environment).
struct Environment {
  bool trim_blocks = true;
  bool lstrip_blocks = true;
  bool keep_trailing_newline = false;
  bool json_html_escape = false;  // plain jinja2's tojson escapes < > & '; chat templates' does not
  bool loop_controls = true;      // break, continue
  bool strict_undefined = false;  // short for undefined = kStrict
  bool chat_globals = true;       // raise_exception, strftime_now
  bool autoescape = false;        // print HTML-escaped
  Undefined undefined = Undefined::kDefault;
  std::string newline_sequence = "\n";
  std::string block_start = "{%", block_end = "%}";
  std::string variable_start = "{{", variable_end = "}}";
  std::string comment_start = "{#", comment_end = "#}";
  std::string line_statement_prefix{};  // "" for none
  std::string line_comment_prefix{};

  /// jinja2.Environment() as Python makes it without arguments.
  static Environment plain();
};

/// A run of output. `from_input` bytes came out of the context (what users wrote), the rest from the template itself.
struct Span {
  std::string text;
  bool from_input;
};

struct Rendered {
  std::vector<Span> spans;  // in order, neighbours of one origin merged
  std::string text() const;
};

/// A parsed template; immutable, share it between threads freely. Recursion is bounded by Budget::depth_max, so a small
/// stack suffices. Source: the Jinja 3.1 template documentation, restricted to what chat templates use.
class Template {
 public:
  /// Error kInvalidRequest with "line N: ..." for a syntax error or an unknown filter, test or tag. As in Jinja, an
  /// unknown filter or test under an `if` fails only when it is reached.
  static Result<std::unique_ptr<Template>> parse(std::string_view source, Environment environment = {},
                                                 Budget budget = {});
  virtual ~Template() = default;

  /// Renders with `context` (a dict) as globals. `today_unix_s` feeds strftime_now (UTC).
  /// Errors: kInvalidRequest with the message of raise_exception, a type error, or the exceeded budget.
  virtual Result<Rendered> render(const Value& context, int64_t today_unix_s) const = 0;
};

}  // namespace pagoda::jinja
