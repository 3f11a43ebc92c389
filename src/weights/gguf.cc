#include "weights/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/mapped_file.h"
#include "weights/gguf_parse.h"
#include "weights/split_name.h"

namespace pagoda::weights {
namespace {

constexpr int64_t kListMax = 65536;  // layers, heads: what get_int_list may be asked for

Error wrong_type(std::string_view key, std::string_view want) {
  return Error{Code::kCorruptFile, fmt::format("key {} is of the wrong type, must be {}", printable(key), want),
               std::string(key)};
}

Error missing(std::string_view key) {
  return Error{Code::kCorruptFile, fmt::format("key {} is missing", printable(key)), std::string(key)};
}

// The integer in `value`; nothing if it is no integer or above 2^63 - 1.
std::optional<int64_t> as_int(const GgufValue& value) {
  return std::visit(
      [](const auto& v) -> std::optional<int64_t> {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          if constexpr (std::is_same_v<T, uint64_t>)
            if (v > uint64_t{std::numeric_limits<int64_t>::max()}) return std::nullopt;
          return static_cast<int64_t>(v);
        } else {
          return std::nullopt;
        }
      },
      value);
}

Error in_file(const std::string& path, Error error) {
  error.message = fmt::format("{}: {}", file_name(path), error.message);
  return error;
}

class MappedGguf final : public GgufFile {
 public:
  // Adds the next part; the first one's metadata is the model's.
  Status add(const std::string& path) {
    PAGODA_TRY(MappedFile map, MappedFile::open(path));
    auto parsed = parse_gguf(map.bytes());
    if (!parsed.ok()) return in_file(path, parsed.error());
    GgufPart part = std::move(parsed).take();
    if (maps_.empty()) {
      version_ = part.version;
      metadata_ = std::move(part.metadata);
    } else {
      split_metadata_ = std::move(part.metadata);
    }
    maps_.push_back(std::move(map));
    tensors_.insert(tensors_.end(), std::make_move_iterator(part.tensors.begin()),
                    std::make_move_iterator(part.tensors.end()));
    return ok_status();
  }

  // Opens the other parts if the first says that there are any.
  Status add_other_parts(const std::string& path) {
    PAGODA_TRY(const int64_t parts, get_int_or("split.count", 1));
    PAGODA_TRY(const int64_t number, get_int_or("split.no", 0));
    if (parts <= 1) return ok_status();
    const std::optional<SplitName> name = split_name(path);
    if (!name || name->parts != parts || name->part != number + 1)
      return Error{Code::kCorruptFile,
                   fmt::format("{}: split.count is {} and split.no is {}, so the name must end in {}", file_name(path),
                               parts, number, part_path("", number + 1, parts))};
    if (number != 0)
      return Error{Code::kUnsupported, fmt::format("{} is part {} of {}: open {} instead", file_name(path), number + 1,
                                                   parts, file_name(part_path(name->stem, 1, parts)))};
    for (int64_t part = 2; part <= parts; ++part) {
      const std::string next = part_path(name->stem, part, parts);
      Status added = add(next);
      if (!added.ok() && added.error().code == Code::kNotFound)
        return Error{Code::kNotFound, fmt::format("part {} of {} is missing: {}", part, parts, file_name(next))};
      PAGODA_TRY_STATUS(std::move(added));
      PAGODA_TRY_STATUS(check_part(next, part, parts));
    }
    return check_total();
  }

  // Names to positions, once all parts are there.
  Status index() {
    for (size_t i = 0; i < metadata_.size(); ++i) key_index_.emplace_back(metadata_[i].first, i);
    for (size_t i = 0; i < tensors_.size(); ++i) tensor_index_.emplace_back(tensors_[i].name, i);
    std::sort(key_index_.begin(), key_index_.end());
    std::sort(tensor_index_.begin(), tensor_index_.end());
    const auto twin = std::adjacent_find(tensor_index_.begin(), tensor_index_.end(),
                                         [](const auto& a, const auto& b) { return a.first == b.first; });
    if (twin != tensor_index_.end())
      return Error{Code::kCorruptFile, fmt::format("tensor {} occurs in two parts", printable(twin->first))};
    return ok_status();
  }

  const GgufValue* find(std::string_view key) const override {
    if (key_index_.empty()) {  // while the parts are being opened
      for (const auto& [name, value] : metadata_)
        if (name == key) return &value;
      return nullptr;
    }
    const size_t at = position(key_index_, key);
    return at == kNowhere ? nullptr : &metadata_[at].second;
  }
  const GgufTensor* find_tensor(std::string_view name) const override {
    const size_t at = position(tensor_index_, name);
    return at == kNowhere ? nullptr : &tensors_[at];
  }
  const std::vector<GgufTensor>& tensors() const override { return tensors_; }
  std::vector<std::string_view> keys() const override {
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : metadata_) keys.push_back(key);
    return keys;
  }
  uint32_t version() const override { return version_; }
  int64_t file_bytes() const override {
    int64_t bytes = 0;
    for (const MappedFile& map : maps_) bytes += static_cast<int64_t>(map.bytes().size());
    return bytes;
  }
  std::vector<std::span<const std::byte>> parts() const override {
    std::vector<std::span<const std::byte>> all;
    for (const MappedFile& map : maps_) all.push_back(map.bytes());
    return all;
  }
  void release(std::span<const std::byte> part) const override {
    for (const MappedFile& map : maps_) {
      const std::span<const std::byte> all = map.bytes();
      if (part.data() >= all.data() && part.data() < all.data() + all.size()) map.release(part);
    }
  }
  void release_all() const override {
    for (const MappedFile& map : maps_) map.release(map.bytes());
  }

 private:
  using Index = std::vector<std::pair<std::string_view, size_t>>;  // sorted by name
  static constexpr size_t kNowhere = static_cast<size_t>(-1);

  static size_t position(const Index& index, std::string_view name) {
    const auto found = std::lower_bound(index.begin(), index.end(), name,
                                        [](const auto& entry, std::string_view n) { return entry.first < n; });
    return found == index.end() || found->first != name ? kNowhere : found->second;
  }

  std::optional<int64_t> split_int(std::string_view key) const {
    for (const auto& [name, value] : split_metadata_)
      if (name == key) return as_int(value);
    return std::nullopt;
  }

  Status check_part(const std::string& path, int64_t part, int64_t parts) const {
    if (split_int("split.no") == part - 1 && split_int("split.count") == parts) return ok_status();
    return Error{Code::kCorruptFile,
                 fmt::format("{}: split.no must be {} and split.count {}", file_name(path), part - 1, parts)};
  }

  Status check_total() const {
    const auto count = static_cast<int64_t>(tensors_.size());
    PAGODA_TRY(const int64_t total, get_int_or("split.tensors.count", count));
    if (total != count)
      return Error{Code::kCorruptFile, fmt::format("split.tensors.count is {}, the parts hold {}", total, count)};
    return ok_status();
  }

  std::vector<MappedFile> maps_;
  std::vector<std::pair<std::string_view, GgufValue>> metadata_;
  std::vector<std::pair<std::string_view, GgufValue>> split_metadata_;  // of the part added last
  std::vector<GgufTensor> tensors_;
  Index key_index_, tensor_index_;
  uint32_t version_ = 0;
};

}  // namespace

int64_t GgufTensor::elements() const {
  int64_t n = 1;
  for (const int64_t dim : dims) n *= dim;
  return n;
}

int32_t GgufTensor::cols() const { return static_cast<int32_t>(dims[0]); }

int32_t GgufTensor::rows() const { return static_cast<int32_t>(elements() / dims[0]); }

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path) {
  auto file = std::make_unique<MappedGguf>();
  PAGODA_TRY_STATUS(file->add(path));
  PAGODA_TRY_STATUS(file->add_other_parts(path));
  PAGODA_TRY_STATUS(file->index());
  return std::unique_ptr<GgufFile>(std::move(file));
}

Result<int64_t> GgufFile::get_int(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return missing(key);
  const std::optional<int64_t> number = as_int(*value);
  if (!number) return wrong_type(key, "an integer below 2^63");
  return *number;
}

Result<double> GgufFile::get_f64(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return missing(key);
  if (const auto* f = std::get_if<float>(value)) return double{*f};
  if (const auto* d = std::get_if<double>(value)) return *d;
  if (const std::optional<int64_t> number = as_int(*value)) return static_cast<double>(*number);
  return wrong_type(key, "a number");
}

Result<std::string_view> GgufFile::get_string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return missing(key);
  const auto* text = std::get_if<std::string_view>(value);
  if (!text) return wrong_type(key, "a string");
  return *text;
}

Result<bool> GgufFile::get_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return missing(key);
  const auto* flag = std::get_if<bool>(value);
  if (!flag) return wrong_type(key, "a bool");
  return *flag;
}

Result<int64_t> GgufFile::get_int_or(std::string_view key, int64_t fallback) const {
  if (!find(key)) return fallback;
  return get_int(key);
}

Result<double> GgufFile::get_f64_or(std::string_view key, double fallback) const {
  if (!find(key)) return fallback;
  return get_f64(key);
}

Result<std::string_view> GgufFile::get_string_or(std::string_view key, std::string_view fallback) const {
  if (!find(key)) return fallback;
  return get_string(key);
}

Result<bool> GgufFile::get_bool_or(std::string_view key, bool fallback) const {
  if (!find(key)) return fallback;
  return get_bool(key);
}

Result<std::vector<int64_t>> GgufFile::get_int_list(std::string_view key, int64_t n) const {
  const GgufValue* value = find(key);
  if (!value) return missing(key);
  if (n < 0 || n > kListMax)
    return Error{Code::kCorruptFile, fmt::format("key {} is wanted {} times, limit {}", printable(key), n, kListMax)};
  if (const std::optional<int64_t> number = as_int(*value))
    return std::vector<int64_t>(static_cast<size_t>(n), *number);
  const auto* array = std::get_if<GgufArray>(value);
  if (!array) return wrong_type(key, "an integer or an array of integers");
  return std::visit(
      [&](const auto& values) -> Result<std::vector<int64_t>> {
        using T = typename std::decay_t<decltype(values)>::value_type;
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, uint64_t>) {  // bools count as 0 and 1
          if (static_cast<int64_t>(values.size()) != n)
            return Error{Code::kCorruptFile,
                         fmt::format("key {} has {} elements, must be {}", printable(key), values.size(), n),
                         std::string(key)};
          return std::vector<int64_t>(values.begin(), values.end());
        } else {
          return wrong_type(key, "an integer or an array of integers");
        }
      },
      array->values);
}

}  // namespace pagoda::weights
