#pragma once
#include <memory>
#include <string>

#include "core/result.h"
#include "engine/cpu_engine.h"
#include "text/tokenizer.h"
#include "weights/gguf.h"

namespace pagoda::apps {

/// A model as the verbs use it. `file` outlives `engine`, which may read embedding rows from its pages.
struct LoadedModel {
  std::string name;  // what the user called it: a catalogue name, or the file's name without ".gguf"
  std::unique_ptr<weights::GgufFile> file;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::string chat_template;                  // tokenizer.chat_template, "" if the file has none
  std::unique_ptr<engine::CpuEngine> engine;  // null after open_model()
};

/// File, vocabulary and template without weights: all that tokenize, detokenize and template need.
///
///   model   a catalogue name (already pulled), a path to a .gguf, or a folder that holds one
///
/// Errors: those of the catalogue, GgufFile::open, read_vocab and Tokenizer::create.
Result<LoadedModel> open_model(const std::string& model);

/// open_model() and the engine: packs the weights and sizes the KV pool. Refuses a vocabulary whose size is not the
/// model's. Errors: also those of CpuEngine::load.
Result<LoadedModel> load_model(const std::string& model, const engine::EngineOptions& options);

/// A chat template of the user's: the content of a file, or the argument itself if it holds a '{' and names no file.
/// Errors: kNotFound (neither), kInvalidRequest (empty), kTooLarge (above 1 MiB).
Result<std::string> read_chat_template(const std::string& argument);

}  // namespace pagoda::apps
