#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "weights/gguf.h"

namespace pagoda::weights {

/// What one GGUF file says, as views into its bytes.
struct GgufPart {
  uint32_t version = 0;
  std::vector<std::pair<std::string_view, GgufValue>> metadata;  // in file order, keys unique
  std::vector<GgufTensor> tensors;                               // in file order, names unique, data disjoint
};

/// Judges the container alone, whatever the keys mean (gguf_check.h does that). `bytes` must outlive the result.
///
/// Limits that protect the process: 65,536 keys of 1..65,535 printable ASCII bytes, arrays nested 8 deep, 2^20 tensors
/// of 1..4 dimensions below 2^31, alignment a power of two in [8, 65536]. Memory is at most a small multiple of the
/// bytes read. Errors: kCorruptFile, kUnsupported (version, byte order, tensor type), with key or tensor, value and
/// limit.
Result<GgufPart> parse_gguf(std::span<const std::byte> bytes);

/// `text` for a message: cut at 64 bytes, anything but printable ASCII escaped.
std::string printable(std::string_view text);

}  // namespace pagoda::weights
