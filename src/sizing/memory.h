#pragma once
#include <cstdint>
#include <span>

#include "sizing/roofline.h"

namespace pagoda::sizing {

/// What a served model keeps in memory, in bytes. The parts add up to the resident set once every part was used,
/// but for the mapped file.
struct MemoryPlan {
  int64_t weights;  // packed
  int64_t kv_pool;
  int64_t swap;        // host memory for blocks of preempted sequences
  int64_t scratch;     // activations and logits of the largest step
  int64_t vocabulary;  // tokens, merges and their indices, see vocabulary_bytes()
  int64_t process;     // code, heap, stacks: see process_bytes()
  // Rows of an untied embedding are read from the mapped file: as many pages as tokens were seen, at most this. The
  // kernel takes them back when memory is short, so they are not in peak().
  int64_t mapped_embedding = 0;

  int64_t peak() const { return weights + kv_pool + swap + scratch + vocabulary + process; }
};

/// The tokenizer's tables: a token is its text and a place in two hash tables, a merge a place in one.
///   100 tokens + 85 merges
/// Measured as resident memory beyond weights of 49k, 152k and 262k tokens (with and without merges): within 4 MB.
int64_t vocabulary_bytes(int64_t tokens, int64_t merges);

/// Whatever else a server is: 14.5 MB of code and libraries that were touched, 2.5 MB of heap (connections, parsers,
/// metrics, the prefix tree's first nodes), 128 KiB of each thread's stack and arena, and what a block costs in
/// bookkeeping (a node of the prefix tree: 16 tokens, links, place in the hash table).
///   17 MB + 128 KiB threads + 256 blocks
int64_t process_bytes(int32_t threads, int32_t blocks);

/// Bytes that one more token of context adds, sum over layers of kv_token_bytes(), if the model had a KV head for every
/// query head (MHA), as it is (GQA: Ainslie et al. 2023, arXiv:2305.13245), or one a layer (MQA: Shazeer 2019,
/// arXiv:1911.02150).
struct KvBytesPerToken {
  int64_t mha, gqa, mqa;
};
KvBytesPerToken kv_bytes_per_token(std::span<const AttentionShape> layers, const KvNumbers& k, const KvNumbers& v);

}  // namespace pagoda::sizing
