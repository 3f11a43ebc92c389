#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "weights/gguf.h"

namespace pagoda::apps {

/// SHA-256 of a model file's bytes (of a split one, of its parts after one another), as sha256sum and the hubs print
/// it.
///
/// A thread that takes what nobody else wants of the CPUs computes it beside serving; who needs it sooner helps. Costs
/// 0.6 s of one core a GB with SHA instructions.
class ModelDigest {
 public:
  /// `file` must outlive the object. `in_background`: begin now.
  ModelDigest(const weights::GgufFile& file, bool in_background);
  ~ModelDigest();
  ModelDigest(const ModelDigest&) = delete;
  ModelDigest& operator=(const ModelDigest&) = delete;

  // Any thread.
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  /// Returns when it is known. "" only if the system's library refuses, or while the object is going.
  std::string get();

 private:
  struct Progress;
  bool advance();  // by one piece; false when there is none left

  const weights::GgufFile& file_;
  std::mutex mutex_;
  std::unique_ptr<Progress> progress_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> going_{false};
  std::thread thread_{};
};

}  // namespace pagoda::apps
