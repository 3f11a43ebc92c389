#include "apps/loaded_model.h"

#include <fmt/format.h>

#include "core/mapped_file.h"
#include "weights/catalogue.h"
#include "weights/gguf_vocab.h"

namespace pagoda::apps {
namespace {

/// A catalogue name as it is; of a path its last component without ".gguf".
std::string name_of(const std::string& model, const std::string& path) {
  if (weights::find_entry(model) != nullptr) return model;
  std::string name = file_name(path);
  if (name.ends_with(".gguf")) name.resize(name.size() - std::string_view(".gguf").size());
  return name;
}

}  // namespace

Result<LoadedModel> open_model(const std::string& model) {
  PAGODA_TRY(const std::string path, weights::resolve_model(model));
  LoadedModel loaded;
  loaded.name = name_of(model, path);
  PAGODA_TRY(loaded.file, weights::GgufFile::open(path));
  PAGODA_TRY(text::VocabSpec vocab, weights::read_vocab(*loaded.file));
  PAGODA_TRY(loaded.tokenizer, text::Tokenizer::create(std::move(vocab)));
  PAGODA_TRY(const std::string_view chat_template, loaded.file->get_string_or("tokenizer.chat_template", ""));
  loaded.chat_template = chat_template;
  return loaded;
}

Result<LoadedModel> load_model(const std::string& model, const engine::EngineOptions& options) {
  PAGODA_TRY(LoadedModel loaded, open_model(model));
  PAGODA_TRY(loaded.engine, engine::CpuEngine::load(*loaded.file, options));
  const int32_t rows = loaded.engine->info().vocab_size;
  if (loaded.tokenizer->size() != rows)
    return Error{Code::kCorruptFile, fmt::format("the vocabulary has {} tokens, tensor token_embd.weight {} rows",
                                                 loaded.tokenizer->size(), rows)};
  return loaded;
}

}  // namespace pagoda::apps
