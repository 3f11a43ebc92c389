#pragma once
#include "core/result.h"
#include "text/vocab.h"
#include "weights/gguf.h"

namespace pagoda::weights {

/// Reads `tokenizer.ggml.*`. Works on vocabulary-only files. Errors: kCorruptFile naming the key.
Result<text::VocabSpec> read_vocab(const GgufFile& file);

}  // namespace pagoda::weights
