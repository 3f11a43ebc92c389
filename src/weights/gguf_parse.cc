#include "weights/gguf_parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

namespace pagoda::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read as they lie");

constexpr uint64_t kKeysMax = 65536;
constexpr uint64_t kKeyBytesMax = 65535;
constexpr uint64_t kTensorsMax = uint64_t{1} << 20;
constexpr uint64_t kTensorNameBytesMax = 64;
constexpr uint32_t kDimsMax = 4;
constexpr int64_t kDimMax = std::numeric_limits<int32_t>::max();
constexpr int64_t kElementsMax = int64_t{1} << 56;  // times eight bytes still fits 63 bits
constexpr uint32_t kAlignmentMin = 8, kAlignmentMax = 65536, kAlignmentDefault = 32;
constexpr int kArrayDepthMax = 8;
constexpr uint64_t kKeyEntryBytesMin = 8 + 1 + 4 + 1;         // length, key, type, value
constexpr uint64_t kTensorEntryBytesMin = 8 + 1 + 4 + 4 + 8;  // length, name, n_dims, type, offset
constexpr const char* kAlignmentKey = "general.alignment";

// Value types of GGUF, in the order of GgufValue's alternatives.
constexpr const char* kTypeNames[] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                      "bool",  "string", "array",  "uint64", "int64",  "float64"};
constexpr uint32_t kBool = 7, kString = 8, kArray = 9, kTypes = 13;
static_assert(std::variant_size_v<GgufValue> == kTypes);

template <class... Args>
Error corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return Error{Code::kCorruptFile, fmt::format(format, std::forward<Args>(args)...)};
}

/// Reads forward through the bytes; nothing is taken that is not there.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

  /// False when fewer bytes are left than `out` needs.
  template <class T>
  bool read(T& out) {
    if (left() < sizeof(T)) return false;
    std::memcpy(&out, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  /// A length and so many bytes; false when the file ends before. `length` tells the caller which.
  bool read_string(std::string_view& out, uint64_t& length) {
    if (!read(length) || length > left()) return false;
    out = {reinterpret_cast<const char*>(bytes_.data() + at_), static_cast<size_t>(length)};
    at_ += static_cast<size_t>(length);
    return true;
  }

  const std::byte* take(uint64_t count) {
    const std::byte* start = bytes_.data() + at_;
    at_ += static_cast<size_t>(count);
    return start;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

Error truncated(const Cursor& in, std::string_view what) {
  return corrupt("truncated: {} at byte {} lies past the end, {} bytes are left", what, in.at(), in.left());
}

class Parser {
 public:
  explicit Parser(std::span<const std::byte> bytes) : bytes_(bytes), in_(bytes) {}

  Result<GgufPart> parse() {
    PAGODA_TRY_STATUS(header());
    PAGODA_TRY_STATUS(metadata());
    PAGODA_TRY_STATUS(alignment());
    PAGODA_TRY_STATUS(tensors());
    PAGODA_TRY_STATUS(place_tensors());
    return std::move(part_);
  }

 private:
  Status header() {
    char magic[4] = {};
    if (!in_.read(magic)) return truncated(in_, "the magic GGUF");
    if (std::memcmp(magic, "FUGG", 4) == 0)
      return Error{Code::kUnsupported, "byte order: the file is big-endian, only little-endian is read"};
    if (std::memcmp(magic, "GGUF", 4) != 0)
      return corrupt("no GGUF file: the magic is '{}', must be 'GGUF'", printable({magic, 4}));
    if (!in_.read(part_.version)) return truncated(in_, "the version");
    if (part_.version != 0 && (part_.version & 0xffffu) == 0)
      return Error{Code::kUnsupported, fmt::format("byte order: version reads as {:#x}, the file is big-endian, only "
                                                   "little-endian is read",
                                                   part_.version)};
    if (part_.version < 2 || part_.version > 3)
      return Error{Code::kUnsupported, fmt::format("GGUF version is {}, supported are 2 and 3", part_.version)};
    if (!in_.read(tensor_count_)) return truncated(in_, "the tensor count");
    if (!in_.read(key_count_)) return truncated(in_, "the key count");
    const uint64_t tensors_max = std::min(kTensorsMax, in_.left() / kTensorEntryBytesMin);
    if (tensor_count_ > tensors_max)
      return corrupt("tensor count is {}, limit {} in a file of {} bytes", tensor_count_, tensors_max, bytes_.size());
    const uint64_t keys_max = std::min(kKeysMax, in_.left() / kKeyEntryBytesMin);
    if (key_count_ > keys_max)
      return corrupt("key count is {}, limit {} in a file of {} bytes", key_count_, keys_max, bytes_.size());
    return ok_status();
  }

  Status metadata() {
    part_.metadata.reserve(static_cast<size_t>(key_count_));
    for (uint64_t i = 0; i < key_count_; ++i) {
      PAGODA_TRY(const std::string_view key, read_key(i));
      uint32_t type = 0;
      if (!in_.read(type)) return truncated(in_, fmt::format("the type of key {}", printable(key)));
      PAGODA_TRY(GgufValue value, read_value(key, type));
      part_.metadata.emplace_back(key, std::move(value));
    }
    std::vector<std::string_view> keys;
    keys.reserve(part_.metadata.size());
    for (const auto& [key, value] : part_.metadata) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    const auto twin = std::adjacent_find(keys.begin(), keys.end());
    if (twin != keys.end()) return corrupt("key {} occurs twice", printable(*twin));
    return ok_status();
  }

  Result<std::string_view> read_key(uint64_t index) {
    std::string_view key;
    uint64_t length = 0;
    if (!in_.read_string(key, length))
      return corrupt("truncated: key {} has length {}, {} bytes are left", index, length, in_.left());
    if (length == 0 || length > kKeyBytesMax)
      return corrupt("key {} has length {}, must be in [1, {}]", index, length, kKeyBytesMax);
    for (const char c : key)
      if (c <= ' ' || c > '~') return corrupt("key {} is '{}', must be printable ASCII", index, printable(key));
    return key;
  }

  template <class T>
  Result<GgufValue> read_scalar(std::string_view key) {
    T value;
    if (!in_.read(value)) return truncated(in_, fmt::format("the value of key {}", printable(key)));
    return GgufValue(std::in_place_type<T>, value);
  }

  Result<GgufValue> read_value(std::string_view key, uint32_t type) {
    switch (type) {
      case 0:
        return read_scalar<uint8_t>(key);
      case 1:
        return read_scalar<int8_t>(key);
      case 2:
        return read_scalar<uint16_t>(key);
      case 3:
        return read_scalar<int16_t>(key);
      case 4:
        return read_scalar<uint32_t>(key);
      case 5:
        return read_scalar<int32_t>(key);
      case 6:
        return read_scalar<float>(key);
      case kBool: {
        uint8_t byte = 0;
        if (!in_.read(byte)) return truncated(in_, fmt::format("the value of key {}", printable(key)));
        if (byte > 1) return corrupt("key {} is a bool of value {}, must be 0 or 1", printable(key), byte);
        return GgufValue(byte == 1);
      }
      case kString: {
        std::string_view text;
        uint64_t length = 0;
        if (!in_.read_string(text, length))
          return corrupt("truncated: key {} is a string of length {}, {} bytes are left", printable(key), length,
                         in_.left());
        return GgufValue(text);
      }
      case kArray: {
        PAGODA_TRY(GgufArray array, read_array(key, 1));
        return GgufValue(std::move(array));
      }
      case 10:
        return read_scalar<uint64_t>(key);
      case 11:
        return read_scalar<int64_t>(key);
      case 12:
        return read_scalar<double>(key);
      default:
        return corrupt("key {} has value type {}, must be below {}", printable(key), type, kTypes);
    }
  }

  // Copies n fixed-size numbers; bools are checked.
  template <class T>
  Result<GgufArray> read_numbers(std::string_view key, uint64_t n) {
    constexpr uint64_t kBytes = std::is_same_v<T, bool> ? 1 : sizeof(T);
    if (n > in_.left() / kBytes) return array_too_long(key, n, kBytes);
    const std::byte* source = in_.take(n * kBytes);
    std::vector<T> values(static_cast<size_t>(n));
    if constexpr (std::is_same_v<T, bool>) {
      for (size_t i = 0; i < values.size(); ++i) {
        const auto byte = static_cast<uint8_t>(source[i]);
        if (byte > 1) return corrupt("key {}[{}] is a bool of value {}, must be 0 or 1", printable(key), i, byte);
        values[i] = byte == 1;
      }
    } else if (n > 0) {
      std::memcpy(values.data(), source, static_cast<size_t>(n) * sizeof(T));
    }
    return GgufArray{std::move(values)};
  }

  Result<GgufArray> read_strings(std::string_view key, uint64_t n) {
    if (n > in_.left() / sizeof(uint64_t)) return array_too_long(key, n, sizeof(uint64_t));
    std::vector<std::string_view> strings(static_cast<size_t>(n));
    for (size_t i = 0; i < strings.size(); ++i) {
      uint64_t length = 0;
      if (!in_.read_string(strings[i], length))
        return corrupt("truncated: key {}[{}] is a string of length {}, {} bytes are left", printable(key), i, length,
                       in_.left());
    }
    return GgufArray{std::move(strings)};
  }

  Result<GgufArray> read_arrays(std::string_view key, uint64_t n, int depth) {
    constexpr uint64_t kHead = sizeof(uint32_t) + sizeof(uint64_t);
    if (n > in_.left() / kHead) return array_too_long(key, n, kHead);
    if (depth == kArrayDepthMax) return corrupt("key {} nests arrays deeper than {}", printable(key), kArrayDepthMax);
    std::vector<GgufArray> arrays;
    arrays.reserve(static_cast<size_t>(n));
    for (uint64_t i = 0; i < n; ++i) {
      PAGODA_TRY(GgufArray array, read_array(key, depth + 1));
      arrays.push_back(std::move(array));
    }
    return GgufArray{std::move(arrays)};
  }

  Result<GgufArray> read_array(std::string_view key, int depth) {
    uint32_t type = 0;
    uint64_t n = 0;
    if (!in_.read(type) || !in_.read(n)) return truncated(in_, fmt::format("the array head of key {}", printable(key)));
    switch (type) {
      case 0:
        return read_numbers<uint8_t>(key, n);
      case 1:
        return read_numbers<int8_t>(key, n);
      case 2:
        return read_numbers<uint16_t>(key, n);
      case 3:
        return read_numbers<int16_t>(key, n);
      case 4:
        return read_numbers<uint32_t>(key, n);
      case 5:
        return read_numbers<int32_t>(key, n);
      case 6:
        return read_numbers<float>(key, n);
      case kBool:
        return read_numbers<bool>(key, n);
      case kString:
        return read_strings(key, n);
      case kArray:
        return read_arrays(key, n, depth);
      case 10:
        return read_numbers<uint64_t>(key, n);
      case 11:
        return read_numbers<int64_t>(key, n);
      case 12:
        return read_numbers<double>(key, n);
      default:
        return corrupt("key {} is an array of type {}, must be below {}", printable(key), type, kTypes);
    }
  }

  Error array_too_long(std::string_view key, uint64_t n, uint64_t element_bytes) const {
    return corrupt("truncated: key {} is an array of {} elements of at least {} bytes, {} bytes are left",
                   printable(key), n, element_bytes, in_.left());
  }

  Status alignment() {
    for (const auto& [key, value] : part_.metadata) {
      if (key != kAlignmentKey) continue;
      const auto* number = std::get_if<uint32_t>(&value);
      if (!number) return corrupt("key {} is of type {}, must be uint32", kAlignmentKey, kTypeNames[value.index()]);
      if (!std::has_single_bit(*number) || *number < kAlignmentMin || *number > kAlignmentMax)
        return corrupt("key {} is {}, must be a power of two in [{}, {}]", kAlignmentKey, *number, kAlignmentMin,
                       kAlignmentMax);
      alignment_ = *number;
    }
    return ok_status();
  }

  Status tensors() {
    part_.tensors.reserve(static_cast<size_t>(tensor_count_));
    offsets_.reserve(static_cast<size_t>(tensor_count_));
    for (uint64_t i = 0; i < tensor_count_; ++i) {
      PAGODA_TRY(GgufTensor tensor, read_tensor(i));
      part_.tensors.push_back(std::move(tensor));
    }
    std::vector<std::string_view> names;
    names.reserve(part_.tensors.size());
    for (const GgufTensor& tensor : part_.tensors) names.push_back(tensor.name);
    std::sort(names.begin(), names.end());
    const auto twin = std::adjacent_find(names.begin(), names.end());
    if (twin != names.end()) return corrupt("tensor {} occurs twice", printable(*twin));
    return ok_status();
  }

  // Everything but `data`, whose offset goes to offsets_.
  Result<GgufTensor> read_tensor(uint64_t index) {
    std::string_view name;
    uint64_t length = 0;
    if (!in_.read_string(name, length))
      return corrupt("truncated: tensor {} has a name of length {}, {} bytes are left", index, length, in_.left());
    if (length == 0 || length > kTensorNameBytesMax || name.find('\0') != name.npos)
      return corrupt("tensor {} has the name '{}' of length {}, must be in [1, {}] without NUL", index, printable(name),
                     length, kTensorNameBytesMax);
    GgufTensor tensor{.name = std::string(name), .type = {}, .dims = {}, .data = {}};
    uint32_t dims = 0, type = 0;
    if (!in_.read(dims)) return truncated(in_, fmt::format("the dimension count of tensor {}", printable(name)));
    if (dims > kDimsMax) return corrupt("tensor {} has {} dimensions, limit {}", printable(name), dims, kDimsMax);
    for (uint32_t d = 0; d < dims; ++d) {
      int64_t size = 0;
      if (!in_.read(size)) return truncated(in_, fmt::format("the dimensions of tensor {}", printable(name)));
      if (size < 1 || size > kDimMax)
        return corrupt("tensor {} has dimension {} of size {}, must be in [1, {}]", printable(name), d,
                       static_cast<uint64_t>(size), kDimMax);
      tensor.dims.push_back(size);
    }
    if (dims == 0) tensor.dims.push_back(1);  // a scalar
    uint64_t offset = 0;
    if (!in_.read(type) || !in_.read(offset))
      return truncated(in_, fmt::format("the type and offset of tensor {}", printable(name)));
    tensor.type = static_cast<kernels::TensorType>(type);
    PAGODA_TRY_STATUS(check_shape(tensor));
    if (offset % alignment_ != 0)
      return corrupt("tensor {} has offset {}, must be a multiple of the alignment {}", printable(name), offset,
                     alignment_);
    offsets_.push_back(offset);
    return tensor;
  }

  // Known type, whole blocks, and sizes whose products fit.
  Status check_shape(const GgufTensor& tensor) const {
    const kernels::TypeTraits* traits = kernels::type_traits(tensor.type);
    if (!traits)
      return Error{Code::kUnsupported, fmt::format("tensor {} has type {}, which is none Pagoda knows",
                                                   printable(tensor.name), static_cast<uint32_t>(tensor.type))};
    if (tensor.dims[0] % traits->block_elements != 0)
      return corrupt("tensor {} has rows of {} elements, must be a multiple of {} for type {}", printable(tensor.name),
                     tensor.dims[0], traits->block_elements, traits->name);
    int64_t rows = 1;
    for (size_t d = 1; d < tensor.dims.size(); ++d) {
      rows *= tensor.dims[d];  // both below 2^31
      if (rows > kDimMax) return corrupt("tensor {} has more than {} rows", printable(tensor.name), kDimMax);
    }
    if (rows * tensor.dims[0] > kElementsMax)
      return corrupt("tensor {} has {} elements, limit {}", printable(tensor.name), rows * tensor.dims[0],
                     kElementsMax);
    return ok_status();
  }

  Status place_tensors() {
    if (part_.tensors.empty()) return ok_status();
    const uint64_t data_start = (uint64_t{in_.at()} + alignment_ - 1) / alignment_ * alignment_;
    const uint64_t data_bytes = data_start < bytes_.size() ? bytes_.size() - data_start : 0;
    for (size_t i = 0; i < part_.tensors.size(); ++i) {
      GgufTensor& tensor = part_.tensors[i];
      const auto row_bytes = static_cast<uint64_t>(kernels::row_bytes(tensor.type, tensor.dims[0]));
      const uint64_t bytes = row_bytes * static_cast<uint64_t>(tensor.rows());
      if (offsets_[i] > data_bytes || bytes > data_bytes - offsets_[i])
        return corrupt("tensor {} needs {} bytes at offset {}, the data section has {}", printable(tensor.name), bytes,
                       offsets_[i], data_bytes);
      tensor.data = bytes_.subspan(static_cast<size_t>(data_start + offsets_[i]), static_cast<size_t>(bytes));
    }
    return check_disjoint();
  }

  Status check_disjoint() const {
    std::vector<const GgufTensor*> order;
    order.reserve(part_.tensors.size());
    for (const GgufTensor& tensor : part_.tensors) order.push_back(&tensor);
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->data.data() < b->data.data(); });
    for (size_t i = 1; i < order.size(); ++i)
      if (order[i]->data.data() < order[i - 1]->data.data() + order[i - 1]->data.size())
        return corrupt("tensors {} and {} overlap in the file", printable(order[i - 1]->name),
                       printable(order[i]->name));
    return ok_status();
  }

  std::span<const std::byte> bytes_;
  Cursor in_;
  GgufPart part_;
  uint64_t tensor_count_ = 0, key_count_ = 0;
  uint32_t alignment_ = kAlignmentDefault;
  std::vector<uint64_t> offsets_;  // [tensors], from the start of the data section
};

}  // namespace

std::string printable(std::string_view text) {
  constexpr size_t kShown = 64;
  std::string out;
  for (const char c : text.substr(0, kShown)) {
    if (c >= ' ' && c <= '~')
      out += c;
    else
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  if (text.size() > kShown) out += "...";
  return out;
}

Result<GgufPart> parse_gguf(std::span<const std::byte> bytes) { return Parser(bytes).parse(); }

}  // namespace pagoda::weights
