#pragma once
#include <string>
#include <string_view>

#include "core/result.h"
#include "kernels/attention/attention.h"

namespace pagoda::kernels {

/// "f16", "f32", "bf16", "int8", "fp8_e4m3", "fp8_e5m2", "int4"
const char* kv_type_name(KvType type);

/// "int8", or "int8-int4" where K and V differ.
std::string kv_types_name(KvTypes types);

/// Our names, vLLM's (auto, float16, bfloat16, float, fp8) and llama.cpp's (q8_0, q4_0, q4_1, iq4_nl: the type of ours
/// with as many bits). Error kInvalidRequest that lists what there is.
Result<KvType> parse_kv_type(std::string_view name);

}  // namespace pagoda::kernels
