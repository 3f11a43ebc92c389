#pragma once
#include <cstddef>
#include <cstdint>

#include "core/isa.h"
#include "core/tensor_view.h"
#include "kernels/formats/tensor_type.h"

namespace pagoda::kernels {

/// How a matmul wants its activations; follows from the weight's type alone, never from phase, batch or ISA.
///
///   kF32           f32 as they are                                    weights F32, F16, BF16
///   kInt8Block32   int8 with one f32 scale per 32 values              32-block formats (Q4_0 Q4_1 Q5_0 Q5_1 Q8_0
///                                                                     IQ4_NL MXFP4)
///   kInt8Block256  int8 with f32 d per 256 and an integer m in 1..8   256-block formats (Q2_K ... Q6_K IQ1 IQ2 IQ3
///   IQ4_XS TQ)
///                  per 32: m = clamp(ceil(8 amax32 / amax256), 1, 8), d = amax256 / 1016,
///                  q = clamp(rne(x / (d m)), -127, 127); rule and accuracy: golden/README
enum class ActFormat : uint8_t { kF32, kInt8Block32, kInt8Block256 };

ActFormat act_format(TensorType weight);

/// Activations of T rows in one format, borrowed from a workspace. K is padded with zeros to Kp = round_up(K, 256).
///
/// Inside a 64-block p of kInt8Block256 the values are interleaved by pairs: dword i (0..15) of q holds elements
/// 64p + {2i, 2i+1, 32+2i, 32+2i+1}, so the two int16 lanes of a byte dot product belong to the two 32-blocks and one
/// vector holds both their scales. kInt8Block32 keeps the natural order.
struct ActView {
  ActFormat format;
  int32_t rows;         // T
  int32_t cols;         // K
  int32_t cols_padded;  // Kp
  const float* f32;     // kF32: [T, K], rows f32_stride apart
  int64_t f32_stride;
  int8_t* q;        // int8 formats: [T, Kp]
  int16_t* q16;     // kInt8Block32: [T, Kp] the same values, for weights of eight bits
  float* d;         // [T, Kp/32] or [T, Kp/256]; NaN where the block holds a NaN or an infinity
  int16_t* m;       // kInt8Block256: [T, Kp/32] in 1..8
  int16_t* sums;    // kInt8Block256: [T, Kp/32] m times the sum of q
  float* sums_f32;  // kInt8Block32: [T, Kp/32] sum of q
  // Corrections for weights stored with an offset, as int16 lanes see them (even lane: bytes 0, 1 of a dword; odd: 2,
  // 3):
  int16_t* lane_sums;  // kInt8Block32: [T, Kp/32, 2] 16 times the sum of a lane
                       // kInt8Block256: [T, Kp/64, 4, 2] 32 times the sum of a lane over four dwords
};

/// Bytes of workspace for act_view(); 0 for kF32.
int64_t act_bytes(ActFormat format, int32_t rows, int32_t cols);
/// Lays a view over `storage` (64-byte aligned, act_bytes long).
ActView act_view(ActFormat format, int32_t rows, int32_t cols, std::byte* storage);
/// kF32: the rows themselves.
ActView act_view_f32(Mat<const float> x);

/// Quantizes rows [rows.begin, rows.end) of x [T, K] into `out` (int8 formats). Each row depends on itself alone.
/// Padding is written too. A NaN or an infinity makes d NaN, and so every product with that row: never a plausible
/// number.
using QuantizeActFn = void (*)(Mat<const float> x, Range rows, ActView out);

/// A weight matrix W [N, K] repacked for `matmul`: rows interleaved so that a SIMD lane is an output row. The layout
/// (row group, order in memory) is the choice of the Ops that packed it; only the same Ops may read it.
struct PackedMatrix {
  TensorType type;
  int32_t rows;           // N
  int32_t cols;           // K
  const std::byte* data;  // packed_bytes(type, N, K), 64-byte aligned
};

/// Everything about one weight matrix's arithmetic. Numbers contract (DESIGN, Numerics): y[t,n] is one f32 fma chain
/// over k-blocks in ascending order, the int8 dot product inside a block exact, integer sums converted to f32 once a
/// block: the same bits for any T, any row range, any thread count, any ISA. Bound and order: matmul/portable.cc.
struct MatmulOps {
  int32_t row_grain;  // row ranges must begin and end at multiples of this (or end at N)

  /// Bytes of the packed form. K must be a multiple of the type's block_elements.
  int64_t (*packed_bytes)(TensorType type, int32_t rows, int32_t cols);

  /// Packs W's rows [range) from `src` (the file's rows, row_bytes each, any alignment) into `dst` (the whole matrix).
  /// Threads may pack disjoint ranges at once, and should pack what they will read.
  void (*pack)(TensorType type, const std::byte* src, int32_t rows, int32_t cols, Range range, std::byte* dst);

  /// y[t, n] = sum_k x[t,k] W[n,k] for n in `range`, all t. `x.format` must be act_format(w.type).
  /// y is [T, N] with y.row_stride >= N; columns outside the range are left alone.
  void (*matmul)(const PackedMatrix& w, const ActView& x, Range range, Mat<float> y);

  /// One row of W in f32, exactly as dequantize_row gives it (embedding look-up in a tied head).
  void (*unpack_row)(const PackedMatrix& w, int32_t row, float* dst);
};

MatmulOps select_matmul(uint32_t have);
QuantizeActFn select_quantize_act(uint32_t have);

}  // namespace pagoda::kernels
