#pragma once
#include <string>
#include <utility>
#include <variant>

#include "core/check.h"

namespace pagoda {

/// Why something could not be done. `api/http_status.cc` maps it to an HTTP status, in one place.
enum class Code {
  kInvalidRequest,  // the caller's input is wrong: field, value and limit are in the message
  kNotFound,        // no such model, file, route
  kUnauthorized,    // missing or wrong key
  kCorruptFile,     // a file contradicts its format or itself
  kUnsupported,     // well-formed, but nothing Pagoda can run
  kTooLarge,        // over a size limit that protects the process
  kNoCapacity,      // would fit, but not now
  kUnavailable,     // loading or draining
  kCancelled,       // the caller went away
  kDeadline,        // too late
  kIo,              // the operating system refused
  kInternal,        // ours: a bug or a library throw
};

struct Error {
  Code code;
  std::string message;        // one sentence with the numbers: "prompt has 9000 tokens, limit 8192"
  std::string param{};        // the request field or file key at fault, "" if none
  int32_t retry_after_s = 0;  // with kNoCapacity: when it may be worth another try; 0 = unknown
};

/// A T, or the reason there is none. value() looks, take() moves out; the wrong one aborts.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return v_.index() == 0; }
  const T& value() const {
    PAGODA_CHECK(ok());
    return std::get<0>(v_);
  }
  T& value() {
    PAGODA_CHECK(ok());
    return std::get<0>(v_);
  }
  T take() && {
    PAGODA_CHECK(ok());
    return std::get<0>(std::move(v_));
  }
  const Error& error() const {
    PAGODA_CHECK(!ok());
    return std::get<1>(v_);
  }

 private:
  std::variant<T, Error> v_;
};

/// Success carries nothing.
using Status = Result<std::monostate>;
inline Status ok_status() { return std::monostate{}; }

// PAGODA_TRY(auto x, f());  ->  x, or return f's Error from the calling function.
// PAGODA_TRY_STATUS(f());   ->  go on, or return f's Error.
#define PAGODA_CAT_(a, b) a##b
#define PAGODA_CAT(a, b) PAGODA_CAT_(a, b)
#define PAGODA_TRY_(tmp, decl, expr) \
  auto tmp = (expr);                 \
  if (!tmp.ok()) return tmp.error(); \
  decl = std::move(tmp).take()
#define PAGODA_TRY(decl, expr) PAGODA_TRY_(PAGODA_CAT(try_, __LINE__), decl, expr)
#define PAGODA_TRY_STATUS(expr)                                       \
  do {                                                                \
    if (auto status_ = (expr); !status_.ok()) return status_.error(); \
  } while (0)

}  // namespace pagoda
