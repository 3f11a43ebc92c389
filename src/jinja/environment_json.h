#pragma once
#include <nlohmann/json_fwd.hpp>

#include "core/result.h"
#include "jinja/template.h"

namespace pagoda::jinja {

/// Jinja's environment from an object of jinja2.Environment's keyword arguments, on top of Environment::plain():
/// trim_blocks, lstrip_blocks, keep_trailing_newline, newline_sequence, autoescape, undefined (a class name), the
/// delimiters, and line_statement_prefix and line_comment_prefix. Other keys are ignored. Errors: kInvalidRequest for a
/// wrong type, an empty delimiter, an unknown newline sequence.
Result<Environment> environment_from_json(const nlohmann::ordered_json& json);

}  // namespace pagoda::jinja
