#include "weights/pull/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "core/mapped_file.h"

namespace pagoda::weights {

Result<std::string> sha256_of_file(const std::string& path, const std::atomic<bool>& stop,
                                   const std::function<void(int64_t)>& on_bytes) {
  constexpr size_t kPiece = size_t{16} << 20;
  PAGODA_TRY(const MappedFile file, MappedFile::open(path));
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  bool ok = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (size_t at = 0; ok && at < file.bytes().size(); at += kPiece) {
    if (stop.load()) return Error{Code::kCancelled, "interrupted"};
    const auto piece = file.bytes().subspan(at, std::min(kPiece, file.bytes().size() - at));
    ok = EVP_DigestUpdate(context.get(), piece.data(), piece.size()) == 1;
    file.release(piece);
    if (on_bytes) on_bytes(static_cast<int64_t>(at + piece.size()));
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned bytes = 0;
  if (!ok || EVP_DigestFinal_ex(context.get(), digest, &bytes) != 1)
    return Error{Code::kInternal, "libcrypto cannot compute SHA-256"};
  std::string hex;
  for (unsigned i = 0; i < bytes; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace pagoda::weights
