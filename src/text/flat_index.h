#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/ids.h"

namespace pagoda::text {

/// 64 bits of `bytes`, eight at a time. Not for adversarial keys: tables that use it hold model data only, and lookups
/// by user text cannot make them longer.
inline uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kMul = 0x9E3779B97F4A7C15u;
  uint64_t h = bytes.size() * kMul;
  const char* p = bytes.data();
  size_t n = bytes.size();
  const auto mix = [&h](uint64_t word) {
    h = (h ^ word) * kMul;
    h ^= h >> 32;
  };
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    mix(word);
  }
  if (n > 0) {
    uint64_t word = 0;
    std::memcpy(&word, p, n);
    mix(word);
  }
  return h ^ h >> 29;
}

inline uint64_t hash_u64(uint64_t key) {
  key *= 0x9E3779B97F4A7C15u;
  key ^= key >> 32;
  key *= 0xD6E8FEB86659FD93u;
  return key ^ key >> 32;
}

/// Byte strings of an arena -> id, open addressing at load <= 1/2, one cache line a lookup in the usual case.
/// `TextOf` maps an id to its bytes.
class StringIndex {
 public:
  explicit StringIndex(size_t expected)
      : slots_(std::bit_ceil(std::max<size_t>(expected, 1) * 2)), mask_(slots_.size() - 1) {}

  /// The first id added for a text stays.
  template <class TextOf>
  void add(std::string_view text, TokenId id, const TextOf& text_of) {
    PAGODA_CHECK(used_ * 2 < slots_.size());
    Slot& slot = slots_[probe(text, text_of)];
    if (slot.id != kNoToken) return;
    slot = {static_cast<uint32_t>(hash_bytes(text) >> 32), id};
    ++used_;
  }

  template <class TextOf>
  TokenId find(std::string_view text, const TextOf& text_of) const {
    return slots_[probe(text, text_of)].id;
  }

 private:
  struct Slot {
    uint32_t tag = 0;
    TokenId id = kNoToken;
  };

  template <class TextOf>
  size_t probe(std::string_view text, const TextOf& text_of) const {
    const uint64_t hash = hash_bytes(text);
    const uint32_t tag = static_cast<uint32_t>(hash >> 32);
    size_t at = hash & mask_;
    while (slots_[at].id != kNoToken && (slots_[at].tag != tag || text_of(slots_[at].id) != text))
      at = (at + 1) & mask_;
    return at;
  }

  std::vector<Slot> slots_;
  size_t mask_;
  size_t used_ = 0;
};

/// uint64 key -> V, open addressing at load <= 1/2. Key ~0 is reserved.
template <class V>
class U64Map {
 public:
  explicit U64Map(size_t expected)
      : slots_(std::bit_ceil(std::max<size_t>(expected, 1) * 2)), mask_(slots_.size() - 1) {}

  /// Inserts unless the key is there already.
  void add(uint64_t key, V value) {
    PAGODA_CHECK(used_ * 2 < slots_.size());
    Slot& slot = slots_[probe(key)];
    if (slot.key != kFree) return;
    slot = {key, value};
    ++used_;
  }

  const V* find(uint64_t key) const {
    const Slot& slot = slots_[probe(key)];
    return slot.key == kFree ? nullptr : &slot.value;
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Slot {
    uint64_t key = kFree;
    V value{};
  };

  size_t probe(uint64_t key) const {
    size_t at = hash_u64(key) & mask_;
    while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & mask_;
    return at;
  }

  std::vector<Slot> slots_;
  size_t mask_;
  size_t used_ = 0;
};

}  // namespace pagoda::text
