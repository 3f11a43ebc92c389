#include "apps/loaded_model.h"

#include <fmt/format.h>

#include <fstream>

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

constexpr size_t kTemplateBytesMax = size_t{1} << 20;

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

Result<std::string> read_chat_template(const std::string& argument) {
  std::string text = argument;
  if (std::ifstream file(argument, std::ios::binary); file) {
    text.resize(kTemplateBytesMax + 1);
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
  } else if (argument.find('{') == std::string::npos) {
    return Error{Code::kNotFound, "--chat-template is neither a readable file nor a template", "--chat-template"};
  }
  if (text.empty()) return Error{Code::kInvalidRequest, "--chat-template is empty", "--chat-template"};
  if (text.size() > kTemplateBytesMax)
    return Error{Code::kTooLarge, fmt::format("--chat-template is above its limit of {} bytes", kTemplateBytesMax),
                 "--chat-template"};
  return text;
}

}  // namespace pagoda::apps
