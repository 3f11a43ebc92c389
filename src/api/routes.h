#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "api/backend.h"
#include "api/dialect.h"
#include "api/http_message.h"
#include "core/result.h"

namespace pagoda::api {

/// What a route's handler sees. `seed` is fresh if the route generates, else 0.
struct RouteCall {
  const HttpRequest& request;
  const Backend& backend;
  uint64_t seed = 0;
  /// Of a route whose path ends in "{id}": what stands there.
  std::string_view id{};
};

/// A path with a method. Errors of the handler are told in the route's dialect.
struct Route {
  std::string_view path;  // "/v1/models/{id}" takes every path that begins so, and ends in more
  std::string_view method;
  Dialect dialect;
  Result<Reply> (*handle)(const RouteCall& call);
  bool generates = false;    // draws a seed
  bool always_open = false;  // answers without a key and while no model is loaded: the service itself does
};

// The routes of each dialect, in files of their own.
std::span<const Route> openai_routes();
std::span<const Route> anthropic_routes();
std::span<const Route> ollama_routes();

/// All of them, in the order of the table in routes.cc.
const std::vector<Route>& all_routes();

/// The route of a path and method. `path_known`: some method has it. HEAD is GET without its body.
const Route* find_route(std::string_view path, std::string_view method, bool& path_known);
/// What a path's {id} stands for; "" if the route has none.
std::string_view id_of(const Route& route, std::string_view path);
/// "GET, POST": what the path takes.
std::string methods_of(std::string_view path);
/// The dialect that a path belongs to, known or not: how its refusals look.
Dialect dialect_of(std::string_view path);

HttpResponse json_response(const Json& json);

}  // namespace pagoda::api
