#include "apps/loaded_model.h"

#include <fmt/format.h>
#include <malloc.h>

#include <fstream>
#include <future>

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

/// The file and its template; no tokenizer yet.
Result<LoadedModel> open_file(const std::string& model) {
  PAGODA_TRY(const std::string path, weights::resolve_model(model));
  LoadedModel loaded;
  loaded.name = name_of(model, path);
  PAGODA_TRY(loaded.file, weights::GgufFile::open(path));
  PAGODA_TRY(const std::string_view chat_template, loaded.file->get_string_or("tokenizer.chat_template", ""));
  loaded.chat_template = chat_template;
  return loaded;
}

Result<std::unique_ptr<text::Tokenizer>> make_tokenizer(const weights::GgufFile& file) {
  PAGODA_TRY(text::VocabSpec vocab, weights::read_vocab(file));
  return text::Tokenizer::create(std::move(vocab));
}

}  // namespace

Result<LoadedModel> open_model(const std::string& model) {
  PAGODA_TRY(LoadedModel loaded, open_file(model));
  PAGODA_TRY(loaded.tokenizer, make_tokenizer(*loaded.file));
  return loaded;
}

Result<LoadedModel> load_model(const std::string& model, const engine::EngineOptions& options) {
  PAGODA_TRY(LoadedModel loaded, open_file(model));
  // Indexing a vocabulary of 150,000 tokens takes one thread half as long as packing a small model takes all of them.
  auto tokenizer = std::async(std::launch::async, [&file = *loaded.file] { return make_tokenizer(file); });
  Result<std::unique_ptr<engine::CpuEngine>> engine = engine::CpuEngine::load(*loaded.file, options);
  PAGODA_TRY(loaded.tokenizer, tokenizer.get());
  PAGODA_TRY(loaded.engine, std::move(engine));
  const int32_t rows = loaded.engine->info().vocab_size;
  if (loaded.tokenizer->size() != rows)
    return Error{Code::kCorruptFile, fmt::format("the vocabulary has {} tokens, tensor token_embd.weight {} rows",
                                                 loaded.tokenizer->size(), rows)};
  // What only loading needed: the file's pages, and the merges and names that the heap still holds.
  loaded.file->release_all();
  malloc_trim(0);
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
