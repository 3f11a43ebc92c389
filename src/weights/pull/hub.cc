#include <curl/curl.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "weights/pull/append_file.h"
#include "weights/pull/sources.h"

namespace pagoda::weights {
namespace {

constexpr long kConnectSecondsMax = 5, kSilentSecondsMax = 30, kRedirectsMax = 5;

/// One GET, as libcurl's callbacks see it.
struct Transfer {
  AppendFile& file;
  int64_t expected_bytes;
  const TransferControl& control;
  CURL* curl;
  bool begun = false;            // the first bytes of the body have come
  Status failure = ok_status();  // why a callback stopped the transfer
};

std::string url_of(const HubFile& source) {
  const char* endpoint = std::getenv("HF_ENDPOINT");
  std::string base = endpoint && *endpoint ? endpoint : "https://huggingface.co";
  while (base.ends_with('/')) base.pop_back();
  return fmt::format("{}/{}/resolve/main/{}", base, source.repository, source.file);
}

// Does the size announced complete what is here?
Status check_announced_size(const Transfer& t) {
  curl_off_t announced = -1;
  curl_easy_getinfo(t.curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
  if (announced >= 0 && t.file.bytes() + announced != t.expected_bytes)
    return Error{Code::kCorruptFile, fmt::format("the file there has {} bytes, must have {}",
                                                 t.file.bytes() + announced, t.expected_bytes)};
  return ok_status();
}

size_t on_body(char* data, size_t size, size_t count, void* user) {
  auto& t = *static_cast<Transfer*>(user);
  if (!std::exchange(t.begun, true)) t.failure = check_announced_size(t);
  if (t.failure.ok() && t.file.bytes() + static_cast<int64_t>(size * count) > t.expected_bytes)
    t.failure = Error{Code::kCorruptFile, fmt::format("the file there is longer than {} bytes", t.expected_bytes)};
  if (t.failure.ok()) t.failure = t.file.append({reinterpret_cast<const std::byte*>(data), size * count});
  return t.failure.ok() ? size * count : 0;
}

int on_tick(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& t = *static_cast<Transfer*>(user);
  if (t.control.on_bytes) t.control.on_bytes(t.file.bytes());
  return t.control.stop.load() ? 1 : 0;
}

Error transfer_error(CURLcode code, long status) {
  if (status == 401 || status == 403) return Error{Code::kUnauthorized, fmt::format("status {}: set HF_TOKEN", status)};
  if (status == 404) return Error{Code::kNotFound, "status 404: no such file"};
  if (status >= 400) return Error{Code::kIo, fmt::format("status {}", status)};
  return Error{Code::kIo, curl_easy_strerror(code)};
}

void configure(CURL* c, const std::string& url, Transfer& transfer) {
  curl_easy_setopt(c, CURLOPT_URL, url.c_str());
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(c, CURLOPT_MAXREDIRS, kRedirectsMax);
  curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, kConnectSecondsMax);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, kSilentSecondsMax);
  curl_easy_setopt(c, CURLOPT_USERAGENT, "pagoda/" PAGODA_VERSION);
  curl_easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(transfer.file.bytes()));
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, &on_body);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, &on_tick);
  curl_easy_setopt(c, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  if (const char* token = std::getenv("HF_TOKEN"); token && *token) {
    curl_easy_setopt(c, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, token);  // libcurl drops it when redirected to another host
  }
}

}  // namespace

Status fetch_hub_file(const HubFile& source, int64_t bytes, const std::string& path, const TransferControl& control) {
  PAGODA_TRY(AppendFile file, AppendFile::open(path));
  if (file.bytes() > bytes) PAGODA_TRY_STATUS(file.truncate(0));
  if (file.bytes() == bytes) return ok_status();

  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), &curl_easy_cleanup);
  if (!curl) return Error{Code::kIo, "libcurl could not start"};
  Transfer transfer{.file = file, .expected_bytes = bytes, .control = control, .curl = curl.get()};
  configure(curl.get(), url_of(source), transfer);
  CURLcode code = curl_easy_perform(curl.get());
  if (code == CURLE_RANGE_ERROR) {  // a server without ranges: from the start
    PAGODA_TRY_STATUS(file.truncate(0));
    curl_easy_setopt(curl.get(), CURLOPT_RESUME_FROM_LARGE, curl_off_t{0});
    code = curl_easy_perform(curl.get());
  }
  if (control.stop.load()) return Error{Code::kCancelled, "interrupted"};
  PAGODA_TRY_STATUS(std::move(transfer.failure));
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (code != CURLE_OK) return transfer_error(code, status);
  if (file.bytes() != bytes)
    return Error{Code::kIo, fmt::format("the transfer ended at {} of {} bytes", file.bytes(), bytes)};
  return file.sync();
}

}  // namespace pagoda::weights
