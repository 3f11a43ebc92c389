#include "core/utf8.h"

namespace pagoda {

Utf8Step utf8_step(std::string_view text, size_t pos) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[pos + i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  // The second byte's range depends on the lead byte: that is what excludes over-long forms and surrogates.
  int32_t length = 0;
  unsigned low = 0x80, high = 0xBF, value = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2, value = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3, value = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4, value = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {0xFFFD, 1, false};
  }
  for (int32_t i = 1; i < length; ++i) {
    if (pos + static_cast<size_t>(i) >= text.size()) return {0xFFFD, i, false};
    const unsigned next = byte(static_cast<size_t>(i));
    if (next < low || next > high) return {0xFFFD, i, false};
    value = value << 6 | (next & 0x3F);
    low = 0x80, high = 0xBF;
  }
  return {value, length, true};
}

size_t find_invalid_utf8(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Step step = utf8_step(text, pos);
    if (!step.valid) return pos;
    pos += static_cast<size_t>(step.bytes);
  }
  return std::string_view::npos;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Step step = utf8_step(text, pos);
    if (step.valid) {
      out.append(text.substr(pos, static_cast<size_t>(step.bytes)));
    } else {
      out.append("\xEF\xBF\xBD");
    }
    pos += static_cast<size_t>(step.bytes);
  }
  return out;
}

int64_t count_code_points(std::string_view text) {
  int64_t count = 0;
  for (size_t pos = 0; pos < text.size(); ++count) pos += static_cast<size_t>(utf8_step(text, pos).bytes);
  return count;
}

}  // namespace pagoda
