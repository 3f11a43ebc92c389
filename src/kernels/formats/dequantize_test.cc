#include "kernels/formats/dequantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/formats/tensor_type.h"

namespace pagoda::kernels {
namespace {

constexpr int kBlocks = 64;
constexpr uint16_t kScales[] = {0x3C00, 0xBC00, 0x0000, 0x8000, 0x0001, 0x83FF, 0x0400,
                                0x7BFF, 0x211F, 0xA9D3, 0x1555, 0x2E66, 0x0203};

struct Format {
  TensorType type;
  std::vector<int> scale_offsets;  // of the f16 fields in a block
  bool clear_exponent_bit = false;
};

const std::vector<Format> kFormats = {
    {TensorType::kF32, {}, true}, {TensorType::kF16, {}, true},   {TensorType::kBF16, {}, true},
    {TensorType::kQ4_0, {0}},     {TensorType::kQ4_1, {0, 2}},    {TensorType::kQ5_0, {0}},
    {TensorType::kQ5_1, {0, 2}},  {TensorType::kQ8_0, {0}},       {TensorType::kQ2_K, {80, 82}},
    {TensorType::kQ3_K, {108}},   {TensorType::kQ4_K, {0, 2}},    {TensorType::kQ5_K, {0, 2}},
    {TensorType::kQ6_K, {208}},   {TensorType::kIQ4_NL, {0}},     {TensorType::kIQ4_XS, {0}},
    {TensorType::kMXFP4, {}},     {TensorType::kIQ2_XXS, {0}},    {TensorType::kIQ2_XS, {0}},
    {TensorType::kIQ2_S, {0}},    {TensorType::kIQ3_XXS, {0}},    {TensorType::kIQ3_S, {0}},
    {TensorType::kIQ1_S, {0}},    {TensorType::kIQ1_M, {}, true}, {TensorType::kTQ1_0, {52}},
    {TensorType::kTQ2_0, {64}},
};

// The bytes tools/make_format_golden.py gave to the oracle.
std::vector<std::byte> oracle_blocks(const Format& format) {
  const TypeTraits& traits = *type_traits(format.type);
  const size_t count = traits.block_elements > 1 ? kBlocks : kBlocks * 32, size = traits.block_bytes;
  std::vector<std::byte> data(count * size);
  uint32_t x = 2026 + static_cast<uint32_t>(format.type);
  for (std::byte& byte : data) {
    x = 1664525u * x + 1013904223u;
    byte = static_cast<std::byte>(x >> 24);
  }
  size_t turn = 0;
  for (size_t block = 0; block < count; ++block) {
    for (int offset : format.scale_offsets) {
      const uint16_t scale = kScales[turn++ % std::size(kScales)];
      data[block * size + offset] = static_cast<std::byte>(scale & 255);
      data[block * size + offset + 1] = static_cast<std::byte>(scale >> 8);
    }
    if (format.clear_exponent_bit) data[block * size + size - 1] &= std::byte{0xBF};
  }
  return data;
}

std::string fnv1a(const void* data, size_t bytes) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001B3u;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

// Goal: every weight type gives the oracle's f32 bits, special scales (zero, negative, subnormal, largest) included.
// Method: the oracle's input is drawn again (first hash), dequantized here, and the values' hash compared.
TEST(Dequantize, EqualsTheOracleBitForBit) {
  std::ifstream in(PAGODA_SOURCE_DIR "/tests/golden/formats.json");
  ASSERT_TRUE(in) << "tests/golden/formats.json is missing";
  const auto golden = nlohmann::json::parse(in).at("types");
  ASSERT_EQ(golden.size(), kFormats.size());
  for (const Format& format : kFormats) {
    const TypeTraits& traits = *type_traits(format.type);
    const auto& want = golden.at(traits.name);
    const std::vector<std::byte> data = oracle_blocks(format);
    ASSERT_EQ(fnv1a(data.data(), data.size()), want.at("blocks_fnv1a64")) << traits.name;
    const int64_t elements = static_cast<int64_t>(data.size()) / traits.block_bytes * traits.block_elements;
    ASSERT_EQ(elements, want.at("elements")) << traits.name;
    std::vector<float> values(elements);
    dequantize_row(format.type, data.data(), elements, values.data());
    EXPECT_EQ(fnv1a(values.data(), values.size() * sizeof(float)), want.at("values_fnv1a64")) << traits.name;
  }
}

// Goal: `src` may lie at any address. Method: the same blocks one byte further on.
TEST(Dequantize, TakesAnyAlignment) {
  for (const Format& format : kFormats) {
    const TypeTraits& traits = *type_traits(format.type);
    const std::vector<std::byte> data = oracle_blocks(format);
    std::vector<std::byte> shifted(data.size() + 1);
    std::copy(data.begin(), data.end(), shifted.begin() + 1);
    const int64_t elements = static_cast<int64_t>(data.size()) / traits.block_bytes * traits.block_elements;
    std::vector<float> want(elements), got(elements);
    dequantize_row(format.type, data.data(), elements, want.data());
    dequantize_row(format.type, shifted.data() + 1, elements, got.data());
    EXPECT_EQ(0, std::memcmp(want.data(), got.data(), elements * sizeof(float))) << traits.name;
  }
}

// Goal: sizes are those of the format table; unknown ids are null, not a crash.
TEST(TensorTypes, KnowTheirSizes) {
  EXPECT_EQ(row_bytes(TensorType::kQ4_K, 512), 288);
  EXPECT_EQ(row_bytes(TensorType::kQ6_K, 256), 210);
  EXPECT_EQ(row_bytes(TensorType::kF32, 3), 12);
  EXPECT_EQ(row_bytes(TensorType::kQ8_0, 0), 0);
  EXPECT_FALSE(type_traits(TensorType::kQ8_K)->dequantizable);
  for (uint32_t id : {4u, 5u, 38u, 41u, 255u, 0xffffffffu})
    EXPECT_EQ(type_traits(static_cast<TensorType>(id)), nullptr) << id;
}

}  // namespace
}  // namespace pagoda::kernels
