// The one inner loop: a few rows times a panel of columns, summed over k in ascending order.
//
// Linear layers, attention scores and attention values all go through `multiply`. Each
// output is one chain of additions over k that starts at zero and depends on its own row
// and column alone, so it has the same bits whatever rows are computed beside it.
//
// `Math` says what a step of the chain is:
//   NativeBf16    one instruction that adds two products of bf16 (AVX512-BF16); a unit is a
//                 pair of neighbouring k
//   Portable<T>   a fused multiply-add in float on T = float or bf16; a unit is one k
#pragma once

#include "simd.h"

namespace lmc {

template <class T> struct Portable {
    using Element = T;
    using Unit = T;
    static constexpr int DEPTH = 1;  // values of k in a unit
    static inline Vec column_units(const Unit* p) { return load(p); }
    static inline Vec row_unit(Unit u) { return splat(to_float(u)); }
    static inline Vec step(Vec sum, Vec columns, Vec row) { return fma(columns, row, sum); }
};

#if LMC_NATIVE_BF16
struct NativeBf16 {
    using Element = bf16;
    using Unit = uint32_t;
    static constexpr int DEPTH = 2;
    static inline __m512i column_units(const Unit* p) { return _mm512_loadu_si512(p); }
    static inline __m512i row_unit(Unit u) { return _mm512_set1_epi32((int)u); }
    static inline Vec step(Vec sum, __m512i columns, __m512i row) {
        return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)columns, (__m512bh)row);
    }
};
using Bf16Math = NativeBf16;
#else
using Bf16Math = Portable<bf16>;
#endif
using FloatMath = Portable<float>;

template <class T> struct MathOf;
template <> struct MathOf<float> { using type = FloatMath; };
template <> struct MathOf<bf16> { using type = Bf16Math; };

// sums[r][v] += row r (units of k, `row_stride` units apart) times columns v.
// PREFETCH: units ahead to fetch, for panels that come from memory; 0 for none.
template <class Math, int ROWS, int VECS, int PREFETCH>
inline __attribute__((always_inline)) void multiply(
    const typename Math::Unit* rows, int64_t row_stride, const typename Math::Unit* columns,
    int64_t column_stride, int64_t num_units, Vec (&sums)[ROWS][VECS]) {
    for (int64_t k = 0; k < num_units; k++) {
        const typename Math::Unit* panel = columns + k * column_stride;
        decltype(Math::column_units(panel)) column[VECS];
        for (int v = 0; v < VECS; v++) {
            column[v] = Math::column_units(panel + v * LANES);
            if (PREFETCH) __builtin_prefetch(panel + PREFETCH + v * LANES);
        }
        for (int r = 0; r < ROWS; r++) {
            auto row = Math::row_unit(rows[r * row_stride + k]);
            for (int v = 0; v < VECS; v++) sums[r][v] = Math::step(sums[r][v], column[v], row);
        }
    }
}

// How many rows keep their sums in registers, for a panel of VECS vectors.
constexpr int max_rows(int vecs) {
    constexpr int sums = LANES == 16 ? 24 : 12;
    return sums / vecs < 1 ? 1 : sums / vecs;
}

// Calls `body` with a compile-time count: visit<12>(5, f) calls f.template operator()<5>().
template <int MOST, class Body> inline void visit(int count, Body&& body) {
    if constexpr (MOST > 0) {
        if (count == MOST)
            body.template operator()<MOST>();
        else
            visit<MOST - 1>(count, body);
    }
}

}  // namespace lmc
