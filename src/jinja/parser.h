#pragma once
#include <memory>
#include <string_view>

#include "core/result.h"
#include "jinja/ast.h"
#include "jinja/template.h"

namespace pagoda::jinja {

/// Source -> syntax tree. Errors: kInvalidRequest "line N: ...": syntax, unknown tags, unknown filters and tests
/// outside an `if`, and nesting deeper than `depth_max`.
Result<std::unique_ptr<Program>> parse_program(std::string_view source, const Environment& environment,
                                               int32_t depth_max);

}  // namespace pagoda::jinja
