// One tile of attention: scores of some queries, their weights, and the weighted sum of values.
//
// Queries are rows of T padded to `padded_dim`; keys and values are gathered (tile.h). The
// running result of a query is `largest`, the largest score so far (in units of log2), `total`,
// the sum of weights 2^(score - largest), and `acc`, the weighted sum of values. A query's bits
// depend on its own scores, tile after tile, and on no other query.
#pragma once

#include <cmath>
#include <limits>

#include "aligned.h"
#include "amx.h"
#include "multiply.h"
#include "tile.h"

namespace lmc {

constexpr int TILE_VECS = TILE / LANES;
constexpr int JOINT_QUERIES = 32;  // whose scores are computed together
constexpr int JOINT_ROWS = 16;     // whose scores are weighed together
constexpr float LOWEST = -std::numeric_limits<float>::infinity();

// out[count][out_stride] = (ADD: +=) a[count][num_units] times b[num_units][VECS * LANES].
template <class Math, int VECS, bool ADD>
void multiply_columns(const typename Math::Unit* a, const typename Math::Unit* b,
                      int64_t b_stride, int64_t num_units, int64_t count, float* out,
                      int64_t out_stride) {
    constexpr int MOST = max_rows(VECS);
    for (int64_t first = 0; first < count; first += MOST)
        visit<MOST>((int)std::min<int64_t>(MOST, count - first), [&]<int ROWS>() {
            Vec sums[ROWS][VECS] = {};
            for (int r = 0; ADD && r < ROWS; r++)
                for (int v = 0; v < VECS; v++)
                    sums[r][v] = load(out + (first + r) * out_stride + v * LANES);
            multiply<Math, ROWS, VECS, 0>(a + first * num_units, num_units, b, b_stride, num_units,
                                          sums);
            for (int r = 0; r < ROWS; r++)
                for (int v = 0; v < VECS; v++)
                    store(out + (first + r) * out_stride + v * LANES, sums[r][v]);
        });
}

// Products of rows with a tile's columns, in vectors.
template <class T> class VectorProducts {
  public:
    // out[count][width] = (ADD: +=) a[count][depth] times b, `depth` units of `width` columns.
    template <bool ADD>
    void multiply(const T* a, int64_t count, const T* b, int64_t depth, int64_t width,
                  float* out) {
        using Math = typename MathOf<T>::type;
        using Unit = typename Math::Unit;
        constexpr int WIDE = 4;  // vectors whose sums fit the registers beside a few rows
        const int64_t num_units = depth / Math::DEPTH;
        int64_t at = 0;
        for (; at + WIDE * LANES <= width; at += WIDE * LANES)
            multiply_columns<Math, WIDE, ADD>((const Unit*)a, (const Unit*)b + at, width,
                                              num_units, count, out + at, width);
        for (; at < width; at += LANES)
            multiply_columns<Math, 1, ADD>((const Unit*)a, (const Unit*)b + at, width, num_units,
                                           count, out + at, width);
    }
};

#if LMC_AMX
// The same in tile registers; counts are at most JOINT_QUERIES.
class TileProducts {
  public:
    template <bool ADD>
    void multiply(const bf16* a, int64_t count, const bf16* b, int64_t depth, int64_t width,
                  float* out) {
        const int upper = (int)std::min<int64_t>(count, TILE_ROWS);
        tiles_.set_rows(upper, (int)count - upper);
        const TileRows rows{a, depth * 2};
        for (int64_t at = 0; at < width; at += 2 * TILE_COLUMNS) {
            const TileColumns columns{b + 2 * at, width * 4};
            const TileSums sums{out + at, width * (int64_t)sizeof(float)};
            if (count > TILE_ROWS)
                multiply_tiles<true, ADD>(rows, columns, depth / TILE_DEPTH, sums);
            else
                multiply_tiles<false, ADD>(rows, columns, depth / TILE_DEPTH, sums);
        }
    }

  private:
    Tiles tiles_;
};
#endif

// 2^x for x <= 0, as precisely as weights of type T are kept.
template <class T> inline Vec weight_of(Vec x) { return exp2(x); }
#if LMC_NATIVE_BF16
// A polynomial on [-0.5, 0.5], of least relative error (3e-6) among those that are 1 at 0.
template <> inline Vec weight_of<bf16>(Vec x) {
    const __m512 whole = _mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const Vec f = x - (Vec)whole;
    Vec p = fma(splat(9.582853169e-3f), f, splat(5.590642504e-2f));
    p = fma(p, f, splat(2.402409861e-1f));
    p = fma(p, f, splat(6.931241934e-1f));
    p = fma(p, f, splat(1.f));
    return (Vec)_mm512_scalef_ps((__m512)p, whole);
}
#endif

// Running results of queries: acc[i][padded_dim], largest[i], total[i].
struct State {
    float* acc;
    float* largest;
    float* total;

    static int64_t size(int64_t num_queries, int64_t padded_dim) {
        return num_queries * (padded_dim + 2);
    }
    State(float* memory, int64_t num_queries, int64_t padded_dim)
        : acc(memory), largest(memory + num_queries * padded_dim), total(largest + num_queries) {}
    void clear(int64_t num_queries, int64_t padded_dim) const {
        std::fill_n(acc, num_queries * padded_dim, 0.f);
        std::fill_n(largest, num_queries, LOWEST);
        std::fill_n(total, num_queries, 0.f);
    }
};

// Folds the lanes of 16 vectors: out[i] of vector i. A vector's lanes meet in one fixed order.
template <class Op, class Fold>
inline void fold_all(Vec (&x)[JOINT_ROWS], float* out, Op op, Fold fold) {
#if defined(__AVX512F__)
    // Halves, quarters, pairs and single lanes are folded, two vectors into one at a time. The
    // order of the vectors puts vector i into lane i at last.
    const auto halves = [&](int i, int j) {
        const __m512 a = (__m512)x[i], b = (__m512)x[j];
        return op((Vec)_mm512_shuffle_f32x4(a, b, 0x44), (Vec)_mm512_shuffle_f32x4(a, b, 0xee));
    };
    const auto quarters = [&](int i) {
        const __m512 a = (__m512)halves(i, i + 4), b = (__m512)halves(i + 8, i + 12);
        return op((Vec)_mm512_shuffle_f32x4(a, b, 0x88), (Vec)_mm512_shuffle_f32x4(a, b, 0xdd));
    };
    const auto pairs = [&](int i) {
        const __m512d a = (__m512d)quarters(i), b = (__m512d)quarters(i + 1);
        return op((Vec)_mm512_unpacklo_pd(a, b), (Vec)_mm512_unpackhi_pd(a, b));
    };
    const __m512 a = (__m512)pairs(0), b = (__m512)pairs(2);
    store(out, op((Vec)_mm512_shuffle_ps(a, b, 0x88), (Vec)_mm512_shuffle_ps(a, b, 0xdd)));
#else
    for (int i = 0; i < JOINT_ROWS; i++) out[i] = fold(x[i]);
#endif
}

// Turns the scores of queries first.. (at most 16) into weights, and takes them into their largest
// scores and totals; `acc` is scaled where the largest score has changed. Without ALL,
// visible[i] says how many of the tile's positions count for the i-th of them.
template <bool ALL, class T>
inline void weigh(const float* scores, float scale, const int* visible, int count, T* weights,
                  const State& state, int64_t first, int64_t padded_dim) {
    const auto hide = [&](Vec x, int i, int v, float value) {
        if constexpr (ALL) return x;
        const IntVec is_visible = lane_numbers() < splat_int(visible[i] - v * LANES);
        return (Vec)(is_visible ? x : splat(value));
    };
    alignas(64) float largest[JOINT_ROWS] = {}, total[JOINT_ROWS] = {}, keep[JOINT_ROWS];
    alignas(64) float folded[JOINT_ROWS];
    std::copy_n(state.largest + first, count, largest);
    std::copy_n(state.total + first, count, total);
    Vec x[JOINT_ROWS] = {};
    for (int i = 0; i < count; i++) {
        x[i] = hide(load(scores + i * TILE), i, 0, LOWEST);
        for (int v = 1; v < TILE_VECS; v++)
            x[i] = vmax(x[i], hide(load(scores + i * TILE + v * LANES), i, v, LOWEST));
    }
    fold_all(x, folded, vmax, max_lanes);
    IntVec changed = {};
    for (int i = 0; i < JOINT_ROWS; i += LANES) {
        const Vec before = load(largest + i), top = vmax(load(folded + i) * splat(scale), before);
        changed |= top > before;
        const Vec factor = exp2(before - top);
        store(keep + i, factor);
        store(largest + i, top);
        store(total + i, load(total + i) * factor);
    }
    for (int i = 0; i < count; i++) {
        const Vec offset = splat(-largest[i]);
        Vec sum = {};
        for (int v = 0; v < TILE_VECS; v++) {
            const Vec score = load(scores + i * TILE + v * LANES);
            const Vec weight = hide(weight_of<T>(fma(score, splat(scale), offset)), i, v, 0.f);
            store(weights + i * TILE + v * LANES, weight);
            sum += weight;
        }
        x[i] = sum;
    }
    const auto add = [](Vec a, Vec b) { return a + b; };
    fold_all(x, folded, add, sum_lanes);
    for (int i = 0; i < JOINT_ROWS; i += LANES)
        store(total + i, load(total + i) + load(folded + i));
    std::copy_n(largest, count, state.largest + first);
    std::copy_n(total, count, state.total + first);
    bool has_changed = false;
    for (int lane = 0; lane < LANES; lane++) has_changed |= changed[lane] != 0;
    for (int i = 0; has_changed && i < count; i++) {
        float* acc = state.acc + (first + i) * padded_dim;
        for (int64_t d = 0; d < padded_dim; d += LANES)
            store(acc + d, load(acc + d) * splat(keep[i]));
    }
}

// Adds query i's result of the next positions to its result so far.
inline void merge(const State& state, const State& next, int64_t i, int64_t padded_dim) {
    const float largest = std::max(state.largest[i], next.largest[i]);
    const float keep = exp2(splat(state.largest[i] - largest))[0];
    const float add = exp2(splat(next.largest[i] - largest))[0];
    state.largest[i] = largest;
    state.total[i] = state.total[i] * keep + next.total[i] * add;
    float* acc = state.acc + i * padded_dim;
    const float* more = next.acc + i * padded_dim;
    for (int64_t d = 0; d < padded_dim; d += LANES)
        store(acc + d, fma(load(acc + d), splat(keep), load(more + d) * splat(add)));
}

// Memory of one thread, aligned so that a vector never crosses a cache line.
template <class T> struct Scratch {
    AlignedVector<T> queries, key_tile, value_tile, weights, zero_row;
    AlignedVector<float> scores, span, merged;

    void reserve(int64_t padded_dim, int64_t num_queries) {
        if ((int64_t)queries.size() >= num_queries * padded_dim &&
            (int64_t)zero_row.size() == padded_dim)
            return;
        queries.resize(num_queries * padded_dim);
        key_tile.resize(TILE * padded_dim);
        value_tile.resize(TILE * padded_dim);
        weights.resize(JOINT_QUERIES * TILE);
        zero_row.assign(padded_dim, T(0));
        scores.resize(JOINT_QUERIES * TILE);
        span.resize(State::size(num_queries, padded_dim));
        merged.resize(State::size(num_queries, padded_dim));
    }
};

// Takes the gathered tile into the results of queries [first, end). `visible_of(i)` says how
// many of the tile's positions query i sees: at least one, and no less than the one before.
template <class T, class Products, class VisibleOf>
void attend_tile(Scratch<T>& scratch, Products& products, int64_t padded_dim, float scale,
                 int64_t first, int64_t end, const VisibleOf& visible_of, const State& state) {
    for (int64_t i = first; i < end; i += JOINT_QUERIES) {
        const int64_t count = std::min<int64_t>(JOINT_QUERIES, end - i);
        products.template multiply<false>(scratch.queries.data() + i * padded_dim, count,
                                          scratch.key_tile.data(), padded_dim, TILE,
                                          scratch.scores.data());
        const bool sees_all = visible_of(i) >= TILE;
        for (int64_t j = 0; j < count; j += JOINT_ROWS) {
            const int rows = (int)std::min<int64_t>(JOINT_ROWS, count - j);
            const float* scores = scratch.scores.data() + j * TILE;
            T* weights = scratch.weights.data() + j * TILE;
            int visible[JOINT_ROWS];
            for (int r = 0; !sees_all && r < rows; r++) visible[r] = visible_of(i + j + r);
            if (sees_all)
                weigh<true>(scores, scale, visible, rows, weights, state, i + j, padded_dim);
            else
                weigh<false>(scores, scale, visible, rows, weights, state, i + j, padded_dim);
        }
        products.template multiply<true>(scratch.weights.data(), count, scratch.value_tile.data(),
                                         TILE, padded_dim, state.acc + i * padded_dim);
    }
}

}  // namespace lmc
