#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace pagoda {

/// Commits large fresh memory in pages of the size that is quick to get, and makes them huge afterwards.
///
/// A virtual machine may have to fetch each page from its host first: memory that lay free for a while was given back.
/// A huge page then takes 7 ms instead of 0.2, while small pages come from the scraps that are never given back. So
/// commit() watches what pages cost and goes over to small ones where huge ones are dear; a thread in the background
/// turns those into huge ones later, at an eighth of one CPU.
/// Cost while pages are small: reading weights is a sixth slower (decode of qwen2.5-coder:1.5b, 2 x Zen 3).
class FreshPages {
 public:
  /// CPU microseconds for 2 MiB: what makes huge pages dear, and small ones no cheaper than those.
  struct Limits {
    int64_t huge_us = 1500;
    int64_t small_us = 4000;
  };

  /// `memory`: whole huge pages (a HugeBuffer's), none touched yet. It must outlive this object, and stay where it is.
  explicit FreshPages(std::span<std::byte> memory);
  FreshPages(std::span<std::byte> memory, Limits limits);
  ~FreshPages();  // ends the background thread, in the middle of its work if need be: within one page
  FreshPages(const FreshPages&) = delete;
  FreshPages& operator=(const FreshPages&) = delete;

  /// Commits `part` of the memory, about 2 MiB of it at a time, before it is first written. Zeroes; what was committed
  /// before keeps its content. Any thread.
  void commit(std::span<std::byte> part);

  /// Every part is committed: starts the background thread after `delay_ms` if there are small pages. Call once.
  void settle_later(int64_t delay_ms);

  /// Returns when all pages are huge or the kernel refuses, without pauses from now on: for who measures. Any thread,
  /// after settle_later().
  void settle_now();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pagoda
