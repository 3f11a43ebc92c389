#include "kernels/formats/codebook.h"
#include "kernels/matmul/x86_avx2_block256.h"

// The codebook formats: codes of 2 to 4 bits are looked up in a register. IQ2 and IQ3_XXS as two planes of four bits
// (Planes); the others, at most 15, as one plane plus 16: sixteen products of 15 and 127 fit an int16 lane.
namespace pagoda::kernels {
namespace {

template <class Bits>
struct Codes {
  using Tile = TileCodes<Bits>;
  static constexpr int kFlush = 8, kScales = 2, kMins = 0;
  static constexpr int32_t kDirectTokens = 4, kPanelTokens = 12;

  template <class V>
  [[gnu::always_inline]] static auto scale(const Tile& tile, int p, int h, V v) {
    return v.widen_i8(tile.pair[p].scale[h]);
  }
};

template <Codebook book, class Bits>
struct TwoPlanes : Codes<Bits> {
  static constexpr int kPlanes = 2, kOffset = 8;
  static constexpr Planes kPlanesOf = split_values(kCodebookValues[static_cast<int>(book)]);

  template <class V>
  [[gnu::always_inline]] static void dword(const TileCodes<Bits>& tile, int p, int h, int n, V v,
                                           typename V::Int (&w)[2]) {
    const auto codes = dword_of(tile.pair[p].half[h], n, v);
    w[0] = v.look_up(kPlanesOf.upper, codes);
    w[1] = v.look_up(kPlanesOf.lower, codes);
  }
};

struct Raised {
  alignas(16) uint8_t value[16];

  explicit constexpr Raised(const int8_t (&values)[16]) : value{} {
    for (int i = 0; i < 16; ++i) value[i] = static_cast<uint8_t>(values[i] + 16);
  }
};

template <Codebook book, class Bits>
struct OnePlane : Codes<Bits> {
  static constexpr int kPlanes = 1, kOffset = 16;
  static constexpr Raised kRaised{kCodebookValues[static_cast<int>(book)]};

  template <class V>
  [[gnu::always_inline]] static void dword(const TileCodes<Bits>& tile, int p, int h, int n, V v,
                                           typename V::Int (&w)[1]) {
    w[0] = v.look_up(kRaised.value, dword_of(tile.pair[p].half[h], n, v));
  }
};

}  // namespace

void matmul_codes_avx2(const PackedMatrix& w, const ActView& x, Range groups, Mat<float> y) {
  switch (codebook_of(w.type)) {
    case Codebook::kIq2:
      return run_matmul<Block256<TwoPlanes<Codebook::kIq2, Bits3>>>(w, x, groups, y);
    case Codebook::kIq3Xxs:
      return run_matmul<Block256<TwoPlanes<Codebook::kIq3Xxs, Bits4>>>(w, x, groups, y);
    case Codebook::kIq3S:
      return run_matmul<Block256Panels<OnePlane<Codebook::kIq3S, Bits4>>>(w, x, groups, y);
    case Codebook::kIq1:
      return run_matmul<Block256Panels<OnePlane<Codebook::kIq1, Bits3>>>(w, x, groups, y);
    case Codebook::kTernary:
      return run_matmul<Block256Panels<OnePlane<Codebook::kTernary, Bits2>>>(w, x, groups, y);
    case Codebook::kNone:
      PAGODA_CHECK(false);
  }
}

}  // namespace pagoda::kernels
