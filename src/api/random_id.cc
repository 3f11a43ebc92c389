#include "api/random_id.h"

#include <fmt/format.h>

#include <random>

namespace pagoda::api {

std::string random_id(std::string_view prefix) {
  static thread_local std::random_device entropy;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, entropy(), entropy(), entropy());
}

}  // namespace pagoda::api
