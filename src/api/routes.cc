#include "api/routes.h"

#include <algorithm>

#include "api/json_text.h"

namespace pagoda::api {
namespace {

constexpr std::string_view kId = "{id}";

std::string_view fixed_part(const Route& route) {
  return route.path.ends_with(kId) ? route.path.substr(0, route.path.size() - kId.size()) : route.path;
}

bool takes(const Route& route, std::string_view path) {
  if (!route.path.ends_with(kId)) return route.path == path;
  const std::string_view fixed = fixed_part(route);
  return path.starts_with(fixed) && path.size() > fixed.size();
}

}  // namespace

const std::vector<Route>& all_routes() {
  static const std::vector<Route> routes = [] {
    std::vector<Route> all;
    for (const auto part : {openai_routes(), anthropic_routes(), ollama_routes()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return routes;
}

const Route* find_route(std::string_view path, std::string_view method, bool& path_known) {
  path_known = false;
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  for (const Route& route : all_routes()) {
    if (!takes(route, path)) continue;
    path_known = true;
    if (route.method == wanted) return &route;
  }
  return nullptr;
}

std::string_view id_of(const Route& route, std::string_view path) {
  return route.path.ends_with(kId) ? path.substr(fixed_part(route).size()) : std::string_view();
}

std::string methods_of(std::string_view path) {
  std::string methods;
  for (const Route& route : all_routes()) {
    if (!takes(route, path)) continue;
    if (!methods.empty()) methods += ", ";
    methods += route.method;
  }
  return methods;
}

Dialect dialect_of(std::string_view path) {
  for (const Route& route : all_routes())
    if (takes(route, path)) return route.dialect;
  return path.starts_with("/api/") ? Dialect::kOllama : Dialect::kOpenAI;
}

HttpResponse json_response(const Json& json) {
  HttpResponse response;
  response.body = dump(json);
  return response;
}

}  // namespace pagoda::api
