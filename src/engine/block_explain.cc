#include "engine/block_explain.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "engine/block_file.h"
#include "engine/block_folder.h"

namespace pagoda::engine {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> lines_without(const std::string& text, const std::string& other) {
  std::vector<std::string> lines = lines_of(text);
  const std::vector<std::string> known = lines_of(other);
  std::erase_if(lines, [&](const std::string& line) { return std::ranges::find(known, line) != known.end(); });
  return lines;
}

/// Some first block holds these tokens, but nobody else may have it.
bool under_another_salt(const BlockSpace& space, const BlockName& wanted) {
  return std::any_of(space.blocks.begin(), space.blocks.end(), [&wanted](const StoredBlock& block) {
    const BlockFileCheck check = inspect_block_file(block.path);
    return check.info && check.info->name.index == 0 && check.info->name.tokens == wanted.tokens &&
           check.info->name.space != wanted.space;
  });
}

/// The same prompt up to there, for another model.
const BlockSpace* elsewhere(const std::vector<BlockSpace>& spaces, const KvFingerprint& ours, const std::string& salt,
                            std::span<const TokenId> tokens) {
  for (const BlockSpace& space : spaces) {
    const Digest theirs = sha256(std::as_bytes(std::span(space.about)));
    if (space.about.empty() || theirs == ours.digest) continue;
    std::vector<BlockName> names;
    extend_names(space_digest(theirs, "", salt), tokens, names);
    const std::string path = space.folder + "/" + block_file_name(names.back());
    if (inspect_block_file(path).fault != BlockFault::kAbsent) return &space;
  }
  return nullptr;
}

DiskExit exit_after(BlockFault fault) {
  return fault == BlockFault::kUnreadable ? DiskExit::kUnreadable : DiskExit::kDamaged;
}

void explain_absence(const std::string& folder, const KvFingerprint& fingerprint, const std::string& salt,
                     std::span<const TokenId> up_to_block, const BlockName& wanted, DiskExplanation& found) {
  const std::string own = space_folder(folder, fingerprint.digest);
  if (was_evicted(own, hex(wanted.path, 20))) {
    found.why = DiskExit::kEvicted;
    return;
  }
  const auto spaces = scan_block_folder(folder);
  if (!spaces.ok()) return;
  if (const BlockSpace* other = elsewhere(spaces.value(), fingerprint, salt, up_to_block)) {
    found.why = DiskExit::kOtherModel;
    found.ours = lines_without(fingerprint.text, other->about);
    found.theirs = lines_without(other->about, fingerprint.text);
    return;
  }
  if (wanted.index > 0) return;
  for (const BlockSpace& space : spaces.value())
    if (space.folder == own && under_another_salt(space, wanted)) found.why = DiskExit::kSalt;
}

}  // namespace

const char* exit_name(DiskExit exit) {
  constexpr std::array<const char*, 8> kNames{"complete",          "partial_block", "new_text", "salt",
                                              "other_fingerprint", "evicted",       "damaged",  "unreadable"};
  return kNames.at(static_cast<size_t>(exit));
}

Result<DiskExplanation> explain_on_disk(const std::string& folder, const KvFingerprint& fingerprint,
                                        const std::string& salt, std::span<const TokenId> prompt) {
  if (prompt.empty()) return Error{Code::kInvalidRequest, "the prompt has 0 tokens"};
  const auto reusable = prompt.first(prompt.size() - 1);
  std::vector<BlockName> names;
  extend_names(space_digest(fingerprint.digest, "", salt), reusable, names);
  DiskExplanation found;
  for (const BlockName& name : names) {
    const std::string path = space_folder(folder, fingerprint.digest) + "/" + block_file_name(name);
    const BlockFileCheck check = verify_block_file(path, fingerprint.digest);
    if (check.fault == BlockFault::kAbsent) {
      explain_absence(folder, fingerprint, salt, reusable.first(static_cast<size_t>(name.index + 1) * kBlockTokens),
                      name, found);
      return found;
    }
    if (check.fault != BlockFault::kNone || check.info->name != name) {
      found.why = exit_after(check.fault);
      return found;
    }
    found.tokens += kBlockTokens;
  }
  found.why = found.tokens == std::ssize(reusable) ? DiskExit::kComplete : DiskExit::kPartialBlock;
  return found;
}

}  // namespace pagoda::engine
