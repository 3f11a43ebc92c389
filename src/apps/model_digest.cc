#include "apps/model_digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <sched.h>

#include <algorithm>
#include <span>
#include <vector>

namespace pagoda::apps {
namespace {

// Small: a thread of the lowest priority may hold the mutex for one of them while somebody waits.
constexpr size_t kPieceBytes = size_t{256} << 10;

}  // namespace

struct ModelDigest::Progress {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
  std::vector<std::span<const std::byte>> parts{};
  size_t part = 0;
  size_t at = 0;  // in it
  bool ok = false;
  std::string hex{};
};

ModelDigest::ModelDigest(const weights::GgufFile& file, bool in_background)
    : file_(file), progress_(std::make_unique<Progress>()) {
  progress_->parts = file.parts();
  progress_->ok = progress_->context && EVP_DigestInit_ex(progress_->context.get(), EVP_sha256(), nullptr) == 1;
  if (!in_background) return;
  thread_ = std::thread([this] {
    const sched_param none{};
    sched_setscheduler(0, SCHED_IDLE, &none);  // if the system refuses, it costs a moment of a core
    while (!going_.load(std::memory_order_relaxed) && advance()) {
    }
  });
}

ModelDigest::~ModelDigest() {
  going_ = true;
  if (thread_.joinable()) thread_.join();
}

std::string ModelDigest::get() {
  while (!ready() && !going_.load(std::memory_order_relaxed) && advance()) {
  }
  const std::lock_guard lock(mutex_);
  return progress_->hex;
}

bool ModelDigest::advance() {
  const std::lock_guard lock(mutex_);
  Progress& p = *progress_;
  if (ready()) return false;
  while (p.part < p.parts.size() && p.at == p.parts[p.part].size()) ++p.part, p.at = 0;
  if (p.part < p.parts.size() && p.ok) {
    const std::span<const std::byte> rest = p.parts[p.part].subspan(p.at);
    const std::span<const std::byte> piece = rest.first(std::min(rest.size(), kPieceBytes));
    p.ok = EVP_DigestUpdate(p.context.get(), piece.data(), piece.size()) == 1;
    file_.release(piece);
    p.at += piece.size();
    return true;
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  if (p.ok && EVP_DigestFinal_ex(p.context.get(), digest, &bytes) == 1)
    for (unsigned int i = 0; i < bytes; ++i) p.hex += fmt::format("{:02x}", digest[i]);
  ready_.store(true, std::memory_order_release);
  return false;
}

}  // namespace pagoda::apps
