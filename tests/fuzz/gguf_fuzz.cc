// layer: weights
#include <cstdint>
#include <span>

#include "core/check.h"
#include "weights/gguf_parse.h"

// Any bytes: an error or a part whose tensors lie inside the bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pagoda::weights;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto parsed = parse_gguf(bytes);
  if (!parsed.ok()) {
    PAGODA_CHECK(!parsed.error().message.empty());
    return 0;
  }
  for (const GgufTensor& tensor : parsed.value().tensors) {
    const auto offset = static_cast<size_t>(tensor.data.data() - bytes.data());
    PAGODA_CHECK(offset <= size && tensor.data.size() <= size - offset);
    PAGODA_CHECK(static_cast<int64_t>(tensor.data.size()) ==
                 pagoda::kernels::row_bytes(tensor.type, tensor.cols()) * tensor.rows());
  }
  return 0;
}
