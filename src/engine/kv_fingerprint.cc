#include "engine/kv_fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <thread>
#include <vector>

#include "engine/block_file.h"

namespace pagoda::engine {
namespace {

constexpr size_t kPieceBytes = size_t{4} << 20;

/// Hexadecimal floats: every bit counts.
std::string rope_text(const model::RopeConfig& rope) {
  std::string frequencies;
  for (const double f : rope.frequencies) frequencies += fmt::format("{:a} ", f);
  return fmt::format("{} frequencies, sha256 {}, magnitude {:a}", rope.frequencies.size(),
                     hex(sha256(std::as_bytes(std::span(frequencies))), 8), rope.magnitude);
}

}  // namespace

Digest digest_of_file(const weights::GgufFile& file) {
  std::vector<std::span<const std::byte>> pieces;
  for (const std::span<const std::byte> part : file.parts())
    for (size_t at = 0; at < part.size(); at += kPieceBytes)
      pieces.push_back(part.subspan(at, std::min(kPieceBytes, part.size() - at)));
  std::vector<Digest> digests(pieces.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < pieces.size(); i = next++) {
      digests[i] = sha256(pieces[i]);
      file.release(pieces[i]);
    }
  };
  std::vector<std::jthread> helpers;
  for (unsigned i = 1; i < std::clamp(std::thread::hardware_concurrency(), 1u, 8u); ++i) helpers.emplace_back(work);
  work();
  helpers.clear();
  return sha256(std::as_bytes(std::span(digests)));
}

std::string build_and_numbers() { return fmt::format("pagoda {}, numbers {}", PAGODA_VERSION, kKvNumbers); }

KvFingerprint kv_fingerprint(const weights::GgufFile& file, const model::ModelConfig& config,
                             const std::string& kv_types, int64_t block_bytes) {
  std::string text = fmt::format(
      "format {}\nbuild {}, numbers {}\nmodel {} ({})\nfile {} bytes, {}\nkv {}\nblock {} tokens, {} bytes, {} "
      "layers\n",
      kBlockFileVersion, PAGODA_VERSION, kKvNumbers, config.name, config.family->name, file.file_bytes(),
      hex(digest_of_file(file)), kv_types, kBlockTokens, block_bytes, config.layers.size());
  for (const model::RopeConfig& rope : config.rope) text += "rope " + rope_text(rope) + "\n";
  const Digest digest = sha256(std::as_bytes(std::span(text)));
  return {.digest = digest, .text = std::move(text), .block_bytes = block_bytes};
}

}  // namespace pagoda::engine
