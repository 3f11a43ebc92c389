#pragma once
#include <string_view>

#include "core/result.h"
#include "weights/gguf.h"

namespace pagoda::weights {

/// True for the families Pagoda can run: gemma, gemma2, gemma3, granite (dense), llama (mistral, smollm among them), phi3
/// (phi-4 too), qwen2, qwen3. model::find_family() knows the same ones.
bool known_architecture(std::string_view architecture);

/// Judges the keys Pagoda knows, whatever the architecture: general.architecture must be there, known keys must have
/// their type and a value in range, the vocabulary must agree with itself. Absent keys are fine here: a vocabulary-only
/// file is a valid file. Errors: kCorruptFile naming key, value and limit.
Status check_metadata(const GgufFile& file);

}  // namespace pagoda::weights
