#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "engine/kv_fingerprint.h"

namespace pagoda::engine {

/// Why a prompt's next block would not come from a folder.
enum class DiskExit : uint8_t {
  kComplete,      // everything but the last token would: it is computed for its logits
  kPartialBlock,  // what is left fills no block
  kNewText,       // nobody computed this, or long ago
  kSalt,          // its first tokens are there under another salt or adapter
  kOtherModel,    // it is there for other weights, KV types or numbers
  kEvicted,       // it was there, and made room
  kDamaged,       // it is there, but not as it was written
  kUnreadable,    // the system refuses to give it
};
/// "complete", "partial_block", "new_text", "salt", "other_fingerprint", "evicted", "damaged", "unreadable"
const char* exit_name(DiskExit exit);

struct DiskExplanation {
  int32_t tokens = 0;  // of the prompt that would come from the folder, and so where it leaves
  DiskExit why = DiskExit::kNewText;
  std::vector<std::string> ours{}, theirs{};  // kOtherModel: lines of the fingerprints that differ
};

/// How far the folder would serve a prompt. Reads and checks every block of it, and changes nothing, not even what is
/// longest unused.
Result<DiskExplanation> explain_on_disk(const std::string& folder, const KvFingerprint& fingerprint,
                                        const std::string& salt, std::span<const TokenId> prompt);

}  // namespace pagoda::engine
