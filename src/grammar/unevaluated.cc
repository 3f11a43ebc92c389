#include "grammar/schema_reader.h"
#include "grammar/value_cases.h"

namespace pagoda::grammar {

Status rewrite_unevaluated(Schema& schema) {
  for (NodeId id = 0; id < schema.size(); ++id) {
    const SchemaNode& node = schema.node(id);
    if (node.unevaluated_properties != kNoNode && node.unevaluated_properties != kTrueNode)
      return schema_error(node.path + "/unevaluatedProperties", "unevaluatedProperties cannot be checked",
                          Code::kUnsupported);
    if (node.unevaluated_items != kNoNode && node.unevaluated_items != kTrueNode)
      return schema_error(node.path + "/unevaluatedItems", "unevaluatedItems cannot be checked", Code::kUnsupported);
  }
  return ok_status();
}

}  // namespace pagoda::grammar
