#include "api/service.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "api/http_status.h"
#include "api/json_text.h"
#include "api/prepare.h"
#include "api/token_routes.h"

namespace pagoda::api {
namespace {

constexpr uint64_t kBodyBytesMax = 8u << 20;  // a prompt of a million tokens, spelled out
constexpr uint64_t kSmallBodyBytesMax = 64u << 10;
constexpr int64_t kLoopStalledUs = 60'000'000;  // a loop with work that has not turned for this long is dead

enum class Route {
  kHealth,
  kReady,
  kVersion,
  kMetrics,
  kLoad,
  kModels,
  kModel,
  kTokenizerInfo,
  kChat,
  kCompletions,
  kTokenize,
  kDetokenize,
  kResetPrefixCache,
};
struct RouteEntry {
  std::string_view path;
  std::string_view method;
  Route route;
};
constexpr std::array kRoutes = {
    RouteEntry{"/health", "GET", Route::kHealth},
    RouteEntry{"/ready", "GET", Route::kReady},
    RouteEntry{"/version", "GET", Route::kVersion},
    RouteEntry{"/metrics", "GET", Route::kMetrics},
    RouteEntry{"/load", "GET", Route::kLoad},
    RouteEntry{"/v1/models", "GET", Route::kModels},
    RouteEntry{"/tokenizer_info", "GET", Route::kTokenizerInfo},
    RouteEntry{"/v1/chat/completions", "POST", Route::kChat},
    RouteEntry{"/v1/completions", "POST", Route::kCompletions},
    RouteEntry{"/tokenize", "POST", Route::kTokenize},
    RouteEntry{"/detokenize", "POST", Route::kDetokenize},
    RouteEntry{"/reset_prefix_cache", "POST", Route::kResetPrefixCache},
};
constexpr std::string_view kModelPrefix = "/v1/models/";

const RouteEntry* find_route(std::string_view path) {
  static constexpr RouteEntry kOneModel{"/v1/models/{id}", "GET", Route::kModel};
  const auto found = std::find_if(kRoutes.begin(), kRoutes.end(), [&](const RouteEntry& r) { return r.path == path; });
  if (found != kRoutes.end()) return &*found;
  return path.starts_with(kModelPrefix) && path.size() > kModelPrefix.size() ? &kOneModel : nullptr;
}

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
  response.headers = {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                      {"Access-Control-Allow-Headers", "authorization, content-type, x-api-key, api-key, x-request-id"},
                      {"Access-Control-Max-Age", "86400"}};
  return response;
}

HttpResponse json_response(const Json& json) {
  HttpResponse response;
  response.body = dump(json);
  return response;
}

Json model_card(const ModelFacts& facts, const std::string& id) {
  Json card;
  card["id"] = id;
  card["object"] = "model";
  card["created"] = facts.created_unix_s;
  card["owned_by"] = "pagoda";
  card["root"] = facts.names.front();
  card["parent"] = nullptr;
  card["max_model_len"] = facts.max_model_len;
  card["permission"] = Json::array();
  return card;
}

HttpResponse models(const ModelFacts& facts) {
  Json list;
  list["object"] = "list";
  list["data"] = Json::array();
  for (const std::string& name : facts.names) list["data"].push_back(model_card(facts, name));
  return json_response(list);
}

HttpResponse one_model(const ModelFacts& facts, std::string_view id) {
  for (const std::string& name : facts.names) {
    if (name == id) return json_response(model_card(facts, name));
  }
  return error_response(Error{Code::kNotFound, "no such model; /v1/models lists what is served", "model"});
}

HttpResponse metrics_text(const metrics::ServingMetrics& metrics) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics.expose();
  return response;
}

HttpResponse loading() { return error_response(Error{Code::kUnavailable, "the model is still loading", ""}); }
HttpResponse shutting_down() { return error_response(Error{Code::kUnavailable, "the server is shutting down", ""}); }

Reply reply_of(Result<PreparedGeneration> prepared) {
  if (!prepared.ok()) return error_response(prepared.error());
  return std::move(prepared).take();
}
Reply reply_of(Result<Json> json) {
  if (!json.ok()) return error_response(json.error());
  return json_response(json.value());
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
  const RouteEntry* entry = find_route(head.path);
  const bool open = options_.api_keys.empty() || (entry != nullptr && entry->route == Route::kHealth);
  if (!open && !key_of(head)) {
    return error_response(Error{Code::kUnauthorized, "missing or wrong API key", ""});
  }
  if (entry == nullptr) return error_response(Error{Code::kNotFound, "no such route", ""});
  if (head.method != entry->method && !(head.method == "HEAD" && entry->method == "GET")) {
    HttpResponse refusal =
        error_response(405, Error{Code::kInvalidRequest, fmt::format("use {} here", entry->method), ""});
    refusal.headers.emplace_back("Allow", std::string(entry->method) + ", OPTIONS");
    return refusal;
  }
  if (entry->route == Route::kHealth || entry->route == Route::kReady) return std::nullopt;
  if (backend() == nullptr) return loading();
  if (draining() && entry->method == "POST") return shutting_down();
  return std::nullopt;
}

uint64_t Service::body_limit(const HttpRequest& head) {
  return head.method == "POST" ? kBodyBytesMax : kSmallBodyBytesMax;
}

bool Service::is_cheap(const HttpRequest& head) { return head.method != "POST"; }

HttpResponse Service::health() const {
  const auto now = backend();
  if (now == nullptr) return loading();
  const scheduler::Scheduler::Load load = now->scheduler->load();
  const bool idle = load.running == 0 && load.waiting == 0;
  if (!idle && now->clock->now_us() - load.last_step_us > kLoopStalledUs) {
    return error_response(Error{Code::kUnavailable, "the serving loop has stopped turning", ""});
  }
  return json_response(Json{{"status", "ok"}});
}

HttpResponse Service::ready() const {
  if (draining()) return shutting_down();
  return health();
}

HttpResponse Service::load() const {
  const scheduler::Scheduler::Load load = backend()->scheduler->load();
  Json json;
  json["server_load"] = load.running + load.waiting;
  json["running"] = load.running;
  json["waiting"] = load.waiting;
  json["waiting_tokens"] = load.waiting_tokens;
  return json_response(json);
}

Reply Service::chat(const HttpRequest& request, const Backend& backend) {
  Result<ChatRequest> parsed = parse_chat_request(request.body, backend.facts);
  if (!parsed.ok()) return error_response(parsed.error());
  Result<PreparedGeneration> prepared = prepare_chat(std::move(parsed).take(), backend, draw_seed());
  if (prepared.ok()) set_account(request, prepared.value().requests);
  return reply_of(std::move(prepared));
}

Reply Service::completions(const HttpRequest& request, const Backend& backend) {
  Result<CompletionRequest> parsed = parse_completion_request(request.body, backend.facts);
  if (!parsed.ok()) return error_response(parsed.error());
  Result<PreparedGeneration> prepared = prepare_completion(std::move(parsed).take(), backend, draw_seed());
  if (prepared.ok()) set_account(request, prepared.value().requests);
  return reply_of(std::move(prepared));
}

Reply Service::handle(const HttpRequest& request) {
  if (auto refusal = refuse_early(request)) return *std::move(refusal);
  const Route route = find_route(request.path)->route;
  if (route == Route::kHealth) return health();
  if (route == Route::kReady) return ready();
  const auto now = backend();
  switch (route) {
    case Route::kVersion:
      return json_response(Json{{"version", PAGODA_VERSION}});
    case Route::kMetrics:
      return metrics_text(*now->metrics);
    case Route::kLoad:
      return load();
    case Route::kModels:
      return models(now->facts);
    case Route::kModel:
      return one_model(now->facts, std::string_view(request.path).substr(kModelPrefix.size()));
    case Route::kTokenizerInfo:
      return json_response(tokenizer_info(*now));
    case Route::kChat:
      return chat(request, *now);
    case Route::kCompletions:
      return completions(request, *now);
    case Route::kTokenize:
      return reply_of(tokenize(request.body, *now));
    case Route::kDetokenize:
      return reply_of(detokenize(request.body, *now));
    case Route::kResetPrefixCache:
      now->scheduler->reset_prefix_cache();  // its body says nothing we could heed
      return json_response(Json{{"success", true}});
    case Route::kHealth:
    case Route::kReady:
      break;
  }
  return error_response(Error{Code::kNotFound, "no such route", ""});
}

std::string random_id(std::string_view prefix) {
  static thread_local std::random_device entropy;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, entropy(), entropy(), entropy());
}

}  // namespace pagoda::api
