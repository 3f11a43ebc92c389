#pragma once
#include "api/json_field.h"

namespace pagoda::api {

/// Adds to a conversation what templates look for and clients leave out:
///   - a tool's result gets the `name` of the tool whose call has its `tool_call_id`;
///   - an assistant's `reasoning` is its `reasoning_content` too, and the other way round;
///   - with `short_ids`, ids of calls that are not nine letters and digits become such, the same id everywhere.
/// What is no object is left alone.
void complete_messages(Json& messages, bool short_ids);

}  // namespace pagoda::api
