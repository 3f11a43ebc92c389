#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/result.h"
#include "kernels/formats/tensor_type.h"

namespace pagoda::weights {

/// A GGUF metadata array; strings are views into the mapped file.
struct GgufArray {
  using Values = std::variant<std::vector<uint8_t>, std::vector<int8_t>, std::vector<uint16_t>, std::vector<int16_t>,
                              std::vector<uint32_t>, std::vector<int32_t>, std::vector<float>, std::vector<bool>,
                              std::vector<std::string_view>, std::vector<uint64_t>, std::vector<int64_t>,
                              std::vector<double>, std::vector<GgufArray>>;
  Values values;
};
using GgufValue = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool, std::string_view,
                               GgufArray, uint64_t, int64_t, double>;

/// One tensor of the file, its bytes proven to lie inside it.
struct GgufTensor {
  std::string name;
  kernels::TensorType type;
  std::vector<int64_t> dims;          // GGUF order: dims[0] is contiguous (the contraction dimension k); 1..4 of them
  std::span<const std::byte> data;    // dims' product in blocks of `type`

  int64_t elements() const;
  int32_t cols() const;               // dims[0]
  int32_t rows() const;               // product of the others
};

/// A GGUF model, version 2 or 3, one file or all its split parts, mapped read-only.
///
/// Every count, length, offset and size is checked against the file before it is used: opening a hostile file costs
/// neither memory nor a crash. Source: ggml's gguf.md (facts in the design notes, KERNELS 1.1).
class GgufFile {
 public:
  /// Opens `path`; the first part of a split model opens the other parts beside it.
  /// Errors: kNotFound (naming a missing part), kCorruptFile (naming key or tensor, value and limit), kUnsupported.
  static Result<std::unique_ptr<GgufFile>> open(const std::string& path);
  virtual ~GgufFile() = default;

  /// Null when absent.
  virtual const GgufValue* find(std::string_view key) const = 0;
  virtual const GgufTensor* find_tensor(std::string_view name) const = 0;
  virtual const std::vector<GgufTensor>& tensors() const = 0;
  virtual std::vector<std::string_view> keys() const = 0;     // in file order
  virtual uint32_t version() const = 0;
  virtual int64_t file_bytes() const = 0;                     // all parts
  /// The bytes of each part as they lie in the file: what identifies the model.
  virtual std::vector<std::span<const std::byte>> parts() const = 0;
  /// The whole pages in `part` of a tensor's data are not needed for now (after repacking): they stop counting as this
  /// process's memory, and reading them again costs a page fault. Any thread may call it.
  virtual void release(std::span<const std::byte> part) const = 0;
  /// The same for the whole file, metadata included.
  virtual void release_all() const = 0;

  // Typed access: kCorruptFile naming the key if it is missing or of another type. Any integer type is accepted
  // where its value fits; get_f64 accepts integers too.
  Result<int64_t> get_int(std::string_view key) const;
  Result<double> get_f64(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  // The same with a default for a missing key; a wrong type is still an error.
  Result<int64_t> get_int_or(std::string_view key, int64_t fallback) const;
  Result<double> get_f64_or(std::string_view key, double fallback) const;
  Result<std::string_view> get_string_or(std::string_view key, std::string_view fallback) const;
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  /// A scalar (repeated `n` times) or an array of exactly n integers.
  Result<std::vector<int64_t>> get_int_list(std::string_view key, int64_t n) const;
};

}  // namespace pagoda::weights
