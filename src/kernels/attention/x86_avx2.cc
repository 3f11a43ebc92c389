// Built with -mavx2 -mfma -mf16c: everything but the exported kernels stays internal, and no std template comes in.
#include "kernels/attention/kernels.h"
#include "kernels/attention/x86_avx2_loops.h"

namespace pagoda::kernels {
namespace {

// ---- chunks and tiles ----

/// The inner loops for the types of K and V as they are read: what is expanded is read as f32.
struct Loops {
  void (*scores)(const Group& g, const Blocks& blocks, int32_t head_dim);
  void (*values)(const Group& g, const Blocks& blocks, bool prefetch, Range tokens, int32_t head_dim);
};

Loops loops_of(KvType k, KvType v) {
  Loops loops{scores_of<F32>, weighted_values<F32>};
#define PAGODA_LOOPS(kv_type, type)                         \
  if (k == KvType::kv_type) loops.scores = scores_of<type>; \
  if (v == KvType::kv_type) loops.values = weighted_values<type>;
  PAGODA_LOOPS(kF16, F16)
  PAGODA_LOOPS(kBf16, Bf16)
  PAGODA_LOOPS(kInt8, Int8)
  PAGODA_LOOPS(kFp8E4m3, E4m3)
  PAGODA_LOOPS(kFp8E5m2, E5m2)
#undef PAGODA_LOOPS
  return loops;
}

/// Pairs [0, n) of a tile: row-major over rows, then heads.
struct Tile {
  const KvLayer& kv;
  const AttentionArgs& args;
  AttentionScratch scratch;
  int32_t first_pair;  // of the whole call
  int32_t pairs;
  Loops loops;
  MaxSum total[kTilePairs];
  uint32_t expanded_k, expanded_v;  // blocks of the chunk that are in the scratch, a bit each

  int32_t heads() const { return args.head_end - args.head_begin; }
  int32_t row(int32_t pair) const { return (first_pair + pair) / heads(); }
  int32_t head(int32_t pair) const { return args.head_begin + (first_pair + pair) % heads(); }
  Range seen(int32_t pair) const { return visible(args.position + row(pair), args.window); }
};

/// Pairs of a tile are cut into groups of nearly equal size: 7 heads are 4 + 3, not 6 + 1.
int32_t groups_of(const Tile& tile) { return div_ceil(tile.pairs, kPairGroup); }
int32_t group_begin(const Tile& tile, int32_t group) { return tile.pairs * group / groups_of(tile); }

float* queries_of(const Tile& tile, int32_t group) {
  return tile.scratch.q + int64_t{group} * kPairGroup * tile.kv.head_dim;
}

/// Queries times the score scale, laid out for one group's inner loop.
void scale_queries(const Tile& tile, int32_t group) {
  const float scale = query_scale(tile.args);
  const int32_t head_dim = tile.kv.head_dim, begin = group_begin(tile, group), end = group_begin(tile, group + 1);
  for (int32_t i = begin; i < end; ++i) {
    const float* q = tile.args.q + tile.row(i) * tile.args.q_stride + int64_t{tile.head(i)} * head_dim;
    float* scaled = queries_of(tile, group) + (i - begin);
    for (int32_t d = 0; d < head_dim; ++d) scaled[d * kPairGroup] = q[d] * scale;
  }
}

void merge_chunk(Tile& tile, int32_t pair, MaxSum part, const float* chunk) {
  const MergeWeights w = merge_max_sum(tile.total[pair], part);
  const __m256 merged_weight = _mm256_set1_ps(w.merged), chunk_weight = _mm256_set1_ps(w.chunk);
  float* merged = tile.scratch.merged + int64_t{pair} * tile.kv.head_dim;
  for (int32_t d = 0; d < tile.kv.head_dim; d += 8) {
    const __m256 added = _mm256_mul_ps(_mm256_loadu_ps(chunk + d), chunk_weight);
    _mm256_storeu_ps(merged + d, _mm256_fmadd_ps(_mm256_loadu_ps(merged + d), merged_weight, added));
  }
}

Blocks blocks_of(const Tile& tile, int32_t chunk, Range tokens) {
  Blocks blocks;
  blocks.first = tokens.begin / kBlockTokens;
  blocks.count = div_ceil(tokens.end, kBlockTokens) - blocks.first;
  const BlockId* table = tile.args.block_table + chunk * kBlocksAChunk + blocks.first;
  for (int32_t b = 0; b < blocks.count; ++b) {
    blocks.data[b] = k_of(tile.kv, table[b], tile.args.kv_head);
    blocks.data[blocks.count + b] = v_of(tile.kv, table[b], tile.args.kv_head);
  }
  const int32_t written =
      div_ceil(tile.seen(tile.pairs - 1).end, kBlockTokens) - (chunk * kBlocksAChunk + blocks.first);
  for (int32_t b = 0; b < kAhead; ++b)  // past the last block there is nothing to prefetch but what is there already
    blocks.data[2 * blocks.count + b] = blocks.count + b < written
                                            ? k_of(tile.kv, table[blocks.count + b], tile.args.kv_head)
                                            : blocks.data[blocks.count];
  return blocks;
}

/// Calls f with pieces of `stored` whose K and V are f32 copies. Of blocks that no group of this tile has met yet,
/// expand(block of the chunk, index in `stored`, copy) makes them first.
template <class Expand, class F>
void with_copies(const Tile& tile, const Blocks& stored, uint32_t& done, float* copies, const Expand& expand,
                 const F& f) {
  const int32_t span = groups_of(tile) == 1 ? kFewBlocks : kBlocksAChunk, floats = tile.kv.head_dim * kBlockTokens;
  for (int32_t begin = 0; begin < stored.count; begin += span) {
    Blocks part;
    part.first = stored.first + begin;
    part.count = begin + span < stored.count ? span : stored.count - begin;
    for (int32_t i = 0; i < part.count; ++i) {
      const int32_t block = part.first + i;
      float* copy = copies + block % span * floats;
      if ((done >> block & 1) == 0) expand(block, begin + i, copy);
      done |= 1u << block;
      part.data[i] = part.data[part.count + i] = reinterpret_cast<const std::byte*>(copy);
    }
    for (int32_t i = 0; i < kAhead; ++i) part.data[2 * part.count + i] = part.data[part.count - 1];
    f(part);
  }
}

void score_chunk(Tile& tile, const Group& g, const Blocks& blocks, int32_t chunk) {
  if (!expands_k(tile.kv)) return tile.loops.scores(g, blocks, tile.kv.head_dim);
  with_copies(
      tile, blocks, tile.expanded_k, tile.scratch.k,
      [&](int32_t block, int32_t i, float* copy) {
        expand_k_avx2(tile.kv, tile.args.kv_head, chunk * kBlocksAChunk + block, blocks.k()[i], blocks.k()[i + kAhead],
                      copy);
      },
      [&](const Blocks& part) { tile.loops.scores(g, part, tile.kv.head_dim); });
}

void add_chunk(Tile& tile, const Group& g, const Blocks& blocks, bool prefetch, Range tokens) {
  if (!expands_v(tile.kv)) return tile.loops.values(g, blocks, prefetch, tokens, tile.kv.head_dim);
  with_copies(
      tile, blocks, tile.expanded_v, tile.scratch.v,
      [&](int32_t, int32_t i, float* copy) { expand_v_avx2(tile.kv, blocks.v()[i], blocks.v()[i + kAhead], copy); },
      [&](const Blocks& part) {
        const int32_t begin = part.first * kBlockTokens, end = begin + part.count * kBlockTokens;
        tile.loops.values(g, part, false,
                          {begin > tokens.begin ? begin : tokens.begin, end < tokens.end ? end : tokens.end},
                          tile.kv.head_dim);
      });
}

/// Runs one group of the tile through one chunk; pairs that see nothing of it are left out.
void attend_chunk(Tile& tile, int32_t group, int32_t chunk) {
  const int32_t group_first = group_begin(tile, group);
  int32_t begin = group_first, end = group_begin(tile, group + 1);
  const int32_t head_dim = tile.kv.head_dim, origin = chunk * kChunkTokens;
  while (begin < end && in_chunk(tile.seen(begin), chunk).empty()) ++begin;
  while (begin < end && in_chunk(tile.seen(end - 1), chunk).empty()) --end;
  if (begin == end) return;

  Group g;
  g.pairs = end - begin;
  g.q = queries_of(tile, group) + (begin - group_first);
  g.scores = tile.scratch.scores;
  Range tokens{kChunkTokens, 0};
  for (int32_t i = 0; i < g.pairs; ++i) {
    const Range seen = tile.seen(begin + i), part = in_chunk(seen, chunk);
    g.part[i] = {part.begin - origin, part.end - origin};
    g.out[i] = chunk == seen.begin / kChunkTokens ? tile.scratch.merged + int64_t{begin + i} * head_dim
                                                  : tile.scratch.chunk + int64_t{i} * head_dim;
    for (int32_t d = 0; d < head_dim; d += 8) _mm256_storeu_ps(g.out[i] + d, _mm256_setzero_ps());
    if (g.part[i].begin < tokens.begin) tokens.begin = g.part[i].begin;
    if (g.part[i].end > tokens.end) tokens.end = g.part[i].end;
  }

  const Blocks blocks = blocks_of(tile, chunk, tokens);
  score_chunk(tile, g, blocks, chunk);
  MaxSum part_sum[kPairGroup];
  for (int32_t i = 0; i < g.pairs; ++i)
    part_sum[i] = softmax_chunk(g.scores + i * kChunkTokens, g.part[i], tile.args.softcap);
  add_chunk(tile, g, blocks, group == 0, tokens);
  for (int32_t i = 0; i < g.pairs; ++i) {
    if (chunk == tile.seen(begin + i).begin / kChunkTokens)
      tile.total[begin + i] = part_sum[i];
    else
      merge_chunk(tile, begin + i, part_sum[i], g.out[i]);
  }
}

void attend_tile(Tile& tile) {
  const int32_t head_dim = tile.kv.head_dim, groups = groups_of(tile);
  for (int32_t group = 0; group < groups; ++group) scale_queries(tile, group);
  const int32_t first_chunk = tile.seen(0).begin / kChunkTokens;
  const int32_t last_chunk = (tile.seen(tile.pairs - 1).end - 1) / kChunkTokens;
  for (int32_t chunk = first_chunk; chunk <= last_chunk; ++chunk) {
    tile.expanded_k = tile.expanded_v = 0;
    for (int32_t group = 0; group < groups; ++group) attend_chunk(tile, group, chunk);
  }
  for (int32_t i = 0; i < tile.pairs; ++i) {
    float* out = tile.args.out + tile.row(i) * tile.args.out_stride + int64_t{tile.head(i)} * head_dim;
    const float* merged = tile.scratch.merged + int64_t{i} * head_dim;
    const __m256 sum = _mm256_set1_ps(tile.total[i].sum);
    for (int32_t d = 0; d < head_dim; d += 8)
      _mm256_storeu_ps(out + d, _mm256_div_ps(_mm256_loadu_ps(merged + d), sum));
  }
}

}  // namespace

void attention_avx2(const KvLayer& kv, const AttentionArgs& args, std::byte* scratch) {
  const int32_t pairs = args.rows * (args.head_end - args.head_begin);
  const Loops loops = loops_of(expands_k(kv) ? KvType::kF32 : kv.types.k, expands_v(kv) ? KvType::kF32 : kv.types.v);
  for (int32_t first = 0; first < pairs; first += kTilePairs) {
    const int32_t left = pairs - first;
    Tile tile{
        kv, args, attention_scratch(scratch, kv.head_dim), first, left < kTilePairs ? left : kTilePairs, loops, {},
        0,  0};
    attend_tile(tile);
  }
}

}  // namespace pagoda::kernels
