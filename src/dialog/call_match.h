#pragma once
#include <string>

#include "dialog/cursor.h"
#include "dialog/format.h"
#include "dialog/tool_set.h"

namespace pagoda::dialog {

/// The beginning of a call, or a whole one.
struct CallHead {
  std::string name{};
  std::string id{};         // the model's own, "" if it wrote none
  bool whole = false;       // else a JSON object of arguments begins at `bytes`
  std::string arguments{};  // JSON text, if `whole`
  size_t bytes = 0;         // of the text that are read
  size_t object_at = 0;     // where the JSON object that holds the arguments begins; `bytes` if nothing holds them
};

/// Reads one call at the front of `text` (white space first is skipped). kMore: what follows may make it one. A call of
/// a tool that `tools` does not have is none.
Match match_call(const CallFormat& format, const ToolSet& tools, std::string_view text, CallHead& head);

}  // namespace pagoda::dialog
