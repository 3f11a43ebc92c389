#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::dialog {

/// How one call is written.
enum class CallSyntax {
  kNone,        // this template knows no calls
  kJson,        // {"name": NAME, "arguments": {...}}, alone or several in an array
  kKeyedJson,   // {NAME: {...}}
  kNamedJson,   // call_open NAME name_end {...} call_close
  kParameters,  // call_open NAME "> then argument_open KEY "> VALUE argument_close ... call_close
  kPairs,       // NAME <arg_key>KEY</arg_key><arg_value>VALUE</arg_value> ...
  kPythonic,    // [NAME(key=value, ...), ...]
  kGemma,       // call:NAME{key:value, ...}, strings between <|"|>
};

/// How a model writes tool calls. Literals are exact; white space between them is the model's choice.
struct CallFormat {
  std::string_view name{};
  CallSyntax syntax = CallSyntax::kNone;
  std::string_view open{}, close{};  // around one or several calls; close "" = the next text that is no call ends them
  std::string_view call_open{}, name_end{}, call_close{};
  std::string_view argument_open{}, argument_close{};
  bool may_be_bare = false;  // an answer that begins with the call itself, without `open`, is one too
};

/// How a model marks its reasoning.
struct ReasoningFormat {
  std::string_view open{}, close{};  // "" = it does not
};

/// Text that is neither: headers of channels and the like. From `begin` to `end`, at most 96 bytes on one line; `end`
/// "" = `begin` alone.
struct Noise {
  std::string_view begin{}, end{};
};

/// What a chat template says about the answers of its model. Views of static tables: copy freely.
struct OutputFormat {
  CallFormat calls{};
  ReasoningFormat reasoning{};
  std::vector<Noise> noise{};
  bool short_call_ids = false;  // the template refuses ids that are not 9 letters and digits

  /// Every literal above: a control token among them must reach the parser as text.
  std::vector<std::string_view> markers() const;
};

/// Reads the format off a template's source. The tables in format.cc, most telling literal first, cover the templates
/// of cases/templates and their relatives; a template that shows none of these literals gets Hermes' tags, which many
/// models were trained on, and no reasoning.
OutputFormat read_format(std::string_view template_source);

/// The text with which an answer calls the tool `name`, up to its first argument (of JSON the "{" stands already); with
/// `name` "" up to the name.
std::string begin_call(const CallFormat& format, std::string_view name);

/// The prompt left the model inside its reasoning, "...<think>\n": what follows is reasoning from the first character.
bool opens_reasoning(const OutputFormat& format, std::string_view prompt);

}  // namespace pagoda::dialog
