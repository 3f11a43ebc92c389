#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::weights {

/// Writes GGUF files for tests, wrong ones too: counts, types and offsets are the test's to choose.
class GgufBuilder {
 public:
  template <class T>
  static std::string raw(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  static std::string text(std::string_view value) { return raw<uint64_t>(value.size()) + std::string(value); }

  /// `value` as it lies in the file, behind the type.
  GgufBuilder& key(std::string_view name, uint32_t type, const std::string& value) {
    keys_ += text(name) + raw(type) + value;
    ++key_count;
    return *this;
  }
  GgufBuilder& u32(std::string_view name, uint32_t value) { return key(name, 4, raw(value)); }
  GgufBuilder& string(std::string_view name, std::string_view value) { return key(name, 8, text(value)); }
  GgufBuilder& strings(std::string_view name, const std::vector<std::string>& values) {
    std::string all = raw<uint32_t>(8) + raw<uint64_t>(values.size());
    for (const std::string& value : values) all += text(value);
    return key(name, 9, all);
  }
  template <class T>
  GgufBuilder& numbers(std::string_view name, uint32_t type, const std::vector<T>& values) {
    std::string all = raw(type) + raw<uint64_t>(values.size());
    for (const T value : values) all += raw(value);
    return key(name, 9, all);
  }
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    tensors_ += text(name) + raw<uint32_t>(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) tensors_ += raw(dim);
    tensors_ += raw(type) + raw(offset);
    ++tensor_count;
    return *this;
  }

  /// The file with `data_bytes` bytes of tensor data behind the padding.
  std::string build(size_t data_bytes = 0, size_t alignment = 32) const {
    std::string file = "GGUF" + raw(version) + raw(tensor_count) + raw(key_count) + keys_ + tensors_;
    if (data_bytes > 0) file.resize((file.size() + alignment - 1) / alignment * alignment + data_bytes);
    return file;
  }

  uint32_t version = 3;
  uint64_t tensor_count = 0, key_count = 0;

 private:
  std::string keys_, tensors_;
};

/// A builder that already names its architecture.
inline GgufBuilder model_of(std::string_view architecture) {
  GgufBuilder builder;
  builder.string("general.architecture", architecture);
  return builder;
}

}  // namespace pagoda::weights
