#pragma once
#include <memory>
#include <string_view>

#include "core/result.h"
#include "grammar/automaton.h"

namespace pagoda::grammar {

/// White space between the parts of JSON text.
struct JsonLayout {
  /// Bytes of it in one place; 0 = none anywhere, and then also none after a comma or a colon.
  int32_t blanks_max = 128;
  /// As a program would write it: between parts nothing, one blank, or a line end and an indentation; nothing around
  /// the whole; escapes only where a character needs one. For texts to be generated: a model that may ramble does.
  bool tidy = false;
};

/// The automaton of the JSON texts whose value satisfies `schema`. Members come in any order, strings with any escapes,
/// white space where JSON allows it; numbers under a constraint have no exponent. Errors: see Schema::parse; kTooLarge
/// when the budget is exceeded. A schema that nothing satisfies is no error: then start() is kDead.
Result<std::unique_ptr<Automaton>> compile_json_schema(std::string_view schema, const JsonLayout& layout,
                                                       const Limits& limits);

}  // namespace pagoda::grammar
