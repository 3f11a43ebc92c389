#include "kernels/attention/kv_type.h"

#include <fmt/format.h>

namespace pagoda::kernels {
namespace {

struct Named {
  std::string_view name;
  KvType type;
};
constexpr Named kNames[] = {
    {"f16", KvType::kF16},          {"f32", KvType::kF32},          {"bf16", KvType::kBf16},   {"int8", KvType::kInt8},
    {"fp8_e4m3", KvType::kFp8E4m3}, {"fp8_e5m2", KvType::kFp8E5m2}, {"int4", KvType::kInt4},   {"auto", KvType::kF16},
    {"float16", KvType::kF16},      {"half", KvType::kF16},         {"float32", KvType::kF32}, {"float", KvType::kF32},
    {"bfloat16", KvType::kBf16},    {"fp8", KvType::kFp8E4m3},      {"q8_0", KvType::kInt8},   {"q4_0", KvType::kInt4},
    {"q4_1", KvType::kInt4},        {"iq4_nl", KvType::kInt4},
};

}  // namespace

const char* kv_type_name(KvType type) {
  for (const Named& named : kNames)
    if (named.type == type) return named.name.data();
  return "";
}

std::string kv_types_name(KvTypes types) {
  if (types.k == types.v) return kv_type_name(types.k);
  return fmt::format("{}-{}", kv_type_name(types.k), kv_type_name(types.v));
}

Result<KvType> parse_kv_type(std::string_view name) {
  for (const Named& named : kNames)
    if (named.name == name) return named.type;
  return Error{
      Code::kInvalidRequest,
      fmt::format("KV type is '{}', there are: auto (= f16), f16, bf16, f32, int8 (or q8_0), fp8 (= fp8_e4m3), "
                  "fp8_e5m2, int4 (or q4_0)",
                  name)};
}

}  // namespace pagoda::kernels
