#pragma once
#include <cstdint>
#include <vector>

#include "core/result.h"
#include "model/config.h"
#include "model/keys.h"
#include "weights/gguf.h"

namespace pagoda::model {

/// The rotations of a file: global, then (if the family has one) local.
///
///   dims           values of a head that rotate; even
///   served_tokens  longest sequence that will be served: chooses between a file's long and short factors
///
/// Keys (`{arch}.rope.`): freq_base, freq_base_swa, scaling.type (none, linear, yarn, longrope; absent means linear),
/// scaling.factor or scale_linear, scaling.attn_factor, scaling.original_context_length, scaling.yarn_ext_factor,
/// yarn_beta_fast, yarn_beta_slow, yarn_log_multiplier. Tensors: rope_freqs.weight, or rope_factors_long.weight with
/// rope_factors_short.weight (F32, [dims/2]).
/// Errors: kUnsupported (scaling type, naming the known ones), kCorruptFile naming key or tensor, value and limit.
Result<std::vector<RopeConfig>> read_rope(const weights::GgufFile& file, const Keys& keys, const Family& family,
                                          int32_t dims, int32_t served_tokens);

}  // namespace pagoda::model
