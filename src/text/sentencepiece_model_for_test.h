#pragma once
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

#include "text/vocab.h"

namespace pagoda::text {

/// Just enough protobuf to turn a sentencepiece .model (ModelProto) into a VocabSpec. Tests only; throws on surprises.
class ModelProtoReader {
 public:
  explicit ModelProtoReader(std::string_view bytes) : rest_(bytes) {}
  bool more() const { return !rest_.empty(); }

  struct Field {
    uint64_t number;
    uint64_t value = 0;  // varint or fixed32
    std::string_view bytes{};
  };
  Field next() {
    const uint64_t key = varint();
    Field field{key >> 3};
    switch (key & 7) {
      case 0:
        field.value = varint();
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        std::memcpy(&field.value, take(4).data(), 4);
        break;
      default:
        throw std::runtime_error("unexpected wire type");
    }
    return field;
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t byte = static_cast<uint8_t>(take(1)[0]);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view take(size_t n) {
    if (n > rest_.size()) throw std::runtime_error("truncated");
    const std::string_view part = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return part;
  }
  std::string_view rest_;
};

inline void read_piece(std::string_view bytes, VocabSpec& spec) {
  std::string piece;
  float score = 0;
  TokenType type = TokenType::kNormal;
  for (ModelProtoReader reader(bytes); reader.more();) {
    const auto field = reader.next();
    if (field.number == 1) piece = field.bytes;
    if (field.number == 2) std::memcpy(&score, &field.value, 4);
    if (field.number == 3) type = static_cast<TokenType>(field.value);
  }
  if (type == TokenType::kUserDefined)  // as GGUF converters write them
    for (size_t at; (at = piece.find("\u2581")) != std::string::npos;) piece.replace(at, 3, " ");
  spec.tokens.push_back(piece);
  spec.scores.push_back(score);
  spec.types.push_back(type);
}

inline VocabSpec read_sentencepiece_model(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  VocabSpec spec;
  spec.model = "t5";
  spec.remove_extra_whitespaces = true;
  spec.unknown = 0;
  for (ModelProtoReader reader(bytes); reader.more();) {
    const auto field = reader.next();
    if (field.number == 1) read_piece(field.bytes, spec);
    for (ModelProtoReader trainer(field.number == 2 ? field.bytes : std::string_view()); trainer.more();) {
      const auto f = trainer.next();
      if (f.number == 3) spec.model = f.value == 2 ? "llama" : "t5";
    }
    for (ModelProtoReader normalizer(field.number == 3 ? field.bytes : std::string_view()); normalizer.more();) {
      const auto f = normalizer.next();
      if (f.number == 2) spec.precompiled_charsmap = f.bytes;
      if (f.number == 3) spec.add_space_prefix = f.value != 0;
      if (f.number == 4) spec.remove_extra_whitespaces = f.value != 0;
      if (f.number == 5) spec.escape_whitespaces = f.value != 0;
    }
  }
  return spec;
}

}  // namespace pagoda::text
