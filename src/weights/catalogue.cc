#include "weights/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/mapped_file.h"
#include "weights/gguf_parse.h"
#include "weights/split_name.h"

namespace pagoda::weights {
namespace {

namespace fs = std::filesystem;

// Levenshtein distance; a name is cut, so that a long argument costs nothing.
size_t distance(std::string_view a, std::string_view b) {
  constexpr size_t kCut = 64;
  a = a.substr(0, kCut);
  b = b.substr(0, kCut);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

Error unknown_model(const std::string& model) {
  std::vector<std::string> names, near;
  for (const CatalogueEntry& entry : catalogue()) {
    names.push_back(entry.name);
    const std::string family = entry.name.substr(0, entry.name.find(':'));
    const bool prefix = !model.empty() && entry.name.starts_with(model);
    if (prefix || model.starts_with(family) || distance(model, entry.name) <= 3) near.push_back(entry.name);
  }
  std::string message = fmt::format("no model '{}': neither in the catalogue ({}) nor a file or folder",
                                    printable(model), fmt::join(names, ", "));
  if (!near.empty()) message += fmt::format("; did you mean {}?", fmt::join(near, " or "));
  return Error{Code::kNotFound, message, "model"};
}

// The one model in a folder: later parts of split models do not count.
Result<std::string> model_in_folder(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    const std::string path = it->path().string();
    if (!path.ends_with(".gguf")) continue;
    const auto split = split_name(path);
    if (!split || split->part == 1) found.push_back(path);
  }
  if (failed) return Error{Code::kIo, fmt::format("cannot list the folder: {}", failed.message()), "model"};
  std::sort(found.begin(), found.end());
  if (found.size() == 1) return found[0];
  if (found.empty()) return Error{Code::kNotFound, "the folder holds no .gguf file", "model"};
  std::vector<std::string> names;
  for (const std::string& path : found) names.push_back(printable(file_name(path)));
  return Error{Code::kInvalidRequest,
               fmt::format("the folder holds {} models, name one: {}", found.size(), fmt::join(names, ", ")), "model"};
}

}  // namespace

const std::vector<CatalogueEntry>& catalogue() {
  static const std::vector<CatalogueEntry> kEntries = {
#include "weights/catalogue.inc"
  };
  return kEntries;
}

const CatalogueEntry* find_entry(std::string_view name) {
  for (const CatalogueEntry& entry : catalogue())
    if (entry.name == name) return &entry;
  return nullptr;
}

Result<std::string> models_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && cache[0] == '/') return std::string(cache) + "/pagoda/models";  // a relative one is void by the standard
  const char* home = std::getenv("HOME");
  if (!home || home[0] != '/') {
    const passwd* user = ::getpwuid(::getuid());
    home = user ? user->pw_dir : nullptr;
  }
  if (!home || home[0] != '/')
    return Error{Code::kIo, "no place for models: set XDG_CACHE_HOME or HOME to an absolute path"};
  return std::string(home) + "/.cache/pagoda/models";
}

bool is_complete(const CatalogueEntry& entry, const std::string& path) {
  std::error_code failed;
  const auto bytes = fs::file_size(path, failed);
  return !failed && bytes == static_cast<uintmax_t>(entry.bytes);
}

Result<std::string> resolve_model(const std::string& model) {
  if (const CatalogueEntry* entry = find_entry(model)) {
    PAGODA_TRY(const std::string folder, models_folder());
    std::string path = folder + "/" + entry->file;
    if (is_complete(*entry, path)) return path;
    return Error{Code::kNotFound, fmt::format("{} is not here yet, run: pagoda pull {}", model, model), "model"};
  }
  std::error_code failed;
  const fs::file_status status = fs::status(model, failed);
  if (fs::is_directory(status)) return model_in_folder(model);
  if (fs::is_regular_file(status)) return model;
  if (fs::exists(status))
    return Error{Code::kInvalidRequest, fmt::format("{} is no regular file", printable(file_name(model))), "model"};
  if (model.ends_with(".gguf") || model.find('/') != std::string::npos)
    return Error{Code::kNotFound, fmt::format("no such file: {}", printable(file_name(model))), "model"};
  return unknown_model(model);
}

}  // namespace pagoda::weights
