#include "core/ids.h"
#include "kernels/formats/codebook.h"
#include "kernels/matmul/matmul.h"

namespace pagoda::kernels {
namespace {

constexpr int32_t kSuperBlock = 256;
constexpr int64_t kAlign = 64;

/// Byte offsets of the parts of an int8 view.
struct Parts {
  int64_t q16, d, m, sums, lane_sums, total;
};

Parts parts_of(ActFormat format, int32_t rows, int32_t cols) {
  const int64_t padded = round_up(int64_t{cols}, kSuperBlock);
  const bool block256 = format == ActFormat::kInt8Block256;
  const int64_t blocks32 = rows * (padded / 32);
  Parts p{};
  p.q16 = round_up(rows * padded, kAlign);
  p.d = p.q16 + (block256 ? 0 : round_up(rows * padded * int64_t{sizeof(int16_t)}, kAlign));
  p.m = p.d + round_up((block256 ? rows * (padded / 256) : blocks32) * int64_t{sizeof(float)}, kAlign);
  p.sums = p.m + (block256 ? round_up(blocks32 * int64_t{sizeof(int16_t)}, kAlign) : 0);
  p.lane_sums = p.sums + round_up(blocks32 * (block256 ? 2 : 4), kAlign);
  p.total = p.lane_sums + round_up(blocks32 * (block256 ? 4 : 2) * int64_t{sizeof(int16_t)}, kAlign);
  return p;
}

}  // namespace

ActFormat act_format(TensorType weight) {
  switch (weight) {
    case TensorType::kQ4_K:
    case TensorType::kQ5_K:
    case TensorType::kQ6_K:
    case TensorType::kQ2_K:
    case TensorType::kQ3_K:
    case TensorType::kIQ4_XS:
      return ActFormat::kInt8Block256;
    case TensorType::kQ4_0:
    case TensorType::kQ4_1:
    case TensorType::kQ5_0:
    case TensorType::kQ5_1:
    case TensorType::kIQ4_NL:
    case TensorType::kMXFP4:
    case TensorType::kQ8_0:
      return ActFormat::kInt8Block32;
    default:
      return codebook_of(weight) == Codebook::kNone ? ActFormat::kF32 : ActFormat::kInt8Block256;
  }
}

int64_t act_bytes(ActFormat format, int32_t rows, int32_t cols) {
  return format == ActFormat::kF32 ? 0 : parts_of(format, rows, cols).total;
}

ActView act_view(ActFormat format, int32_t rows, int32_t cols, std::byte* storage) {
  PAGODA_DCHECK(format != ActFormat::kF32);
  const Parts p = parts_of(format, rows, cols);
  ActView view{};
  view.format = format;
  view.rows = rows;
  view.cols = cols;
  view.cols_padded = static_cast<int32_t>(round_up(int64_t{cols}, kSuperBlock));
  view.q = reinterpret_cast<int8_t*>(storage);
  view.d = reinterpret_cast<float*>(storage + p.d);
  view.lane_sums = reinterpret_cast<int16_t*>(storage + p.lane_sums);
  if (format == ActFormat::kInt8Block256) {
    view.m = reinterpret_cast<int16_t*>(storage + p.m);
    view.sums = reinterpret_cast<int16_t*>(storage + p.sums);
  } else {
    view.q16 = reinterpret_cast<int16_t*>(storage + p.q16);
    view.sums_f32 = reinterpret_cast<float*>(storage + p.sums);
  }
  return view;
}

ActView act_view_f32(Mat<const float> x) {
  ActView view{};
  view.format = ActFormat::kF32;
  view.rows = x.rows;
  view.cols = x.cols;
  view.cols_padded = x.cols;
  view.f32 = x.data;
  view.f32_stride = x.row_stride;
  return view;
}

}  // namespace pagoda::kernels
