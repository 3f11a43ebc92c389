#pragma once
#include <cstring>

#include "kernels/matmul/layout.h"

// Shared by layout.cc and its halves layout_block32.h and layout_block256.h alone.
namespace pagoda::kernels {
namespace {

uint32_t load_u32(const uint8_t* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

uint16_t load_u16(const uint8_t* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

void store_u32(uint8_t* p, uint32_t v) { std::memcpy(p, &v, sizeof v); }
void store_u16(uint8_t* p, uint16_t v) { std::memcpy(p, &v, sizeof v); }

constexpr uint32_t kLowNibbles = 0x0f0f0f0fu;

}  // namespace
}  // namespace pagoda::kernels
