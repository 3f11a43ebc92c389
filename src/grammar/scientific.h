#pragma once
#include <string_view>

#include "grammar/values.h"

namespace pagoda::grammar {

/// Numbers under a constraint are read as digits and a point; those written with an exponent, as programs write very
/// large and very small ones, are looked at as a whole: -d.ddde+ddd, one digit before the point.
enum class ScientificAnswer : uint8_t { kNo, kBegins, kRight };

/// What `text` is: the whole of a right number, the beginning of one, or neither. `plain_live`: the same text also
/// begins a right number without exponent, so that nothing is lost if no exponent fits.
ScientificAnswer judge_scientific(const Scalar& scalar, std::string_view text, bool plain_live);

}  // namespace pagoda::grammar
