#pragma once
#include <cstdint>
#include <string>

#include "engine/kv_path.h"
#include "model/config.h"
#include "weights/gguf.h"

namespace pagoda::engine {

/// Which arithmetic writes K and V. A change that alters one bit of a KV block must raise it: KvBlocks.* in
/// kv_fingerprint_test.cc hold the digests of some and fail otherwise.
inline constexpr int32_t kKvNumbers = 1;

/// What "the same bytes" are relative to: "pagoda 0.1.0, numbers 1".
std::string build_and_numbers();

/// A model and its numbers, as far as they shape the bytes of a KV block. ISA, threads, chunks and batches do not.
struct KvFingerprint {
  Digest digest;
  std::string text;     // a line a fact; `digest` is its SHA-256
  int64_t block_bytes;  // of one block over all layers
};

/// Reads the whole file: a second for 1.5 GB on two cores.
///
///   config       as the engine runs it: rope factors may depend on the served length
///   kv_types     K and V as --kv-cache-dtype calls them
///   block_bytes  kv_block_bytes() of both
KvFingerprint kv_fingerprint(const weights::GgufFile& file, const model::ModelConfig& config,
                             const std::string& kv_types, int64_t block_bytes);

/// SHA-256 of the SHA-256 of each piece of 4 MiB, computed on several threads..
Digest digest_of_file(const weights::GgufFile& file);

}  // namespace pagoda::engine
