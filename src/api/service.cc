#include "api/service.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "api/routes.h"

namespace pagoda::api {
namespace {

constexpr uint64_t kBodyBytesMax = 8u << 20;  // a prompt of a million tokens, spelled out
constexpr uint64_t kSmallBodyBytesMax = 64u << 10;
constexpr int64_t kLoopStalledUs = 60'000'000;  // a loop with work that has not turned for this long is dead

bool same_secret(const std::string& a, const std::string& b) {
  // Digests have one length, so the comparison tells neither the key's length nor where the first difference is.
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest_a, digest_b;
  SHA256(reinterpret_cast<const unsigned char*>(a.data()), a.size(), digest_a.data());
  SHA256(reinterpret_cast<const unsigned char*>(b.data()), b.size(), digest_b.data());
  return CRYPTO_memcmp(digest_a.data(), digest_b.data(), digest_a.size()) == 0;
}

HttpResponse preflight() {
  HttpResponse response;
  response.status = 204;
  response.headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
                      {"Access-Control-Allow-Headers",
                       "authorization, content-type, x-api-key, api-key, x-request-id, anthropic-version"},
                      {"Access-Control-Max-Age", "86400"}};
  return response;
}

HttpResponse loading(Dialect dialect) {
  return error_response(dialect, Error{Code::kUnavailable, "the model is still loading", ""});
}
HttpResponse shutting_down(Dialect dialect) {
  return error_response(dialect, Error{Code::kUnavailable, "the server is shutting down", ""});
}

}  // namespace

Service::Service(Options options) : options_(std::move(options)) {
  std::random_device entropy;
  std::seed_seq fresh{entropy(), entropy(), entropy(), entropy()};
  if (options_.seed) {
    random_.seed(*options_.seed);
  } else {
    random_.seed(fresh);
  }
}

void Service::set_backend(std::shared_ptr<const Backend> backend) {
  const std::lock_guard lock(mutex_);
  backend_ = std::move(backend);
}

std::shared_ptr<const Backend> Service::backend() const {
  const std::lock_guard lock(mutex_);
  return backend_;
}

void Service::begin_drain() {
  draining_.store(true, std::memory_order_relaxed);
  if (const auto now = backend()) now->scheduler->begin_drain();
}

uint64_t Service::draw_seed() {
  const std::lock_guard lock(mutex_);
  return random_() >> 11;  // 53 bits: every JSON reader keeps them, so the reported seed can be sent back
}

std::optional<size_t> Service::key_of(const HttpRequest& head) const {
  constexpr std::string_view kBearer = "bearer ";
  std::string bearer = head.authorization.substr(0, kBearer.size());
  std::transform(bearer.begin(), bearer.end(), bearer.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string& from_bearer = bearer == kBearer ? head.authorization.substr(kBearer.size()) : std::string();
  std::optional<size_t> found;
  for (size_t i = 0; i < options_.api_keys.size(); ++i)  // all of them: the time tells nothing
    for (const std::string& given : {from_bearer, head.x_api_key, head.api_key})
      if (same_secret(given, options_.api_keys[i])) found = i;
  return found;
}

void Service::set_account(const HttpRequest& head, std::vector<scheduler::Request>& requests) const {
  if (options_.api_keys.size() < 2) return;  // they carry their `user`
  const std::optional<size_t> key = key_of(head);
  if (!key) return;
  for (scheduler::Request& request : requests) request.account = options_.api_keys[*key];
}

std::optional<HttpResponse> Service::refuse_early(const HttpRequest& head) const {
  if (head.method == "OPTIONS") return preflight();
  bool path_known = false;
  const Route* route = find_route(head.path, head.method, path_known);
  const Dialect dialect = dialect_of(head.path);
  const bool open = options_.api_keys.empty() || (route != nullptr && route->always_open);
  if (!open && !key_of(head))
    return error_response(dialect, Error{Code::kUnauthorized, "missing or wrong API key", ""});
  if (!path_known) return error_response(dialect, Error{Code::kNotFound, "no such route", ""});
  if (route == nullptr) {
    const std::string methods = methods_of(head.path);
    HttpResponse refusal =
        error_response(dialect, 405, Error{Code::kInvalidRequest, fmt::format("use {} here", methods), ""});
    refusal.headers.emplace_back("Allow", methods + ", OPTIONS");
    return refusal;
  }
  if (route->handle == nullptr) return std::nullopt;
  if (backend() == nullptr) return loading(dialect);
  if (draining() && route->method == "POST") return shutting_down(dialect);
  return std::nullopt;
}

uint64_t Service::body_limit(const HttpRequest& head) {
  return head.method == "POST" ? kBodyBytesMax : kSmallBodyBytesMax;
}

bool Service::is_cheap(const HttpRequest& head) { return head.method != "POST"; }

HttpResponse Service::health() const {
  const auto now = backend();
  if (now == nullptr) return loading(Dialect::kOpenAI);
  const scheduler::Scheduler::Load load = now->scheduler->load();
  const bool idle = load.running == 0 && load.waiting == 0;
  if (!idle && now->clock->now_us() - load.last_step_us > kLoopStalledUs) {
    return error_response(Error{Code::kUnavailable, "the serving loop has stopped turning", ""});
  }
  return json_response(Json{{"status", "ok"}});
}

HttpResponse Service::ready() const {
  if (draining()) return shutting_down(Dialect::kOpenAI);
  return health();
}

Reply Service::answer(const Route& route, const HttpRequest& request) {
  const auto now = backend();
  const RouteCall call{request, *now, route.generates ? draw_seed() : 0, id_of(route, request.path)};
  Result<Reply> reply = route.handle(call);
  if (!reply.ok()) return error_response(route.dialect, reply.error());
  if (auto* prepared = std::get_if<PreparedGeneration>(&reply.value())) set_account(request, prepared->requests);
  return std::move(reply).take();
}

Reply Service::handle(const HttpRequest& request) {
  if (auto refusal = refuse_early(request)) return *std::move(refusal);
  bool path_known = false;
  const Route& route = *find_route(request.path, request.method, path_known);
  if (route.handle != nullptr) return answer(route, request);
  return route.path == "/health" ? health() : ready();
}

}  // namespace pagoda::api
