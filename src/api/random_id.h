#pragma once
#include <string>
#include <string_view>

namespace pagoda::api {

/// A fresh id such as "chatcmpl-4f…": 24 hexadecimal digits.
std::string random_id(std::string_view prefix);

}  // namespace pagoda::api
