// Gathers 64 cached positions into the layout that `multiply` reads.
#pragma once

#include <algorithm>

#include "multiply.h"

namespace lmc {

constexpr int TILE = 64;  // positions in a tile; part of what attention's results mean

// Lays the keys of a tile out as [unit of head_dim][64 positions]. A missing position has a row
// of zeros.
template <class T>
void gather_keys(const T* const* rows, int64_t head_dim, int64_t padded_dim, T* tile) {
    using Math = typename MathOf<T>::type;
    using Unit = typename Math::Unit;
    const int64_t num_units = padded_dim / Math::DEPTH;
    const int64_t whole = head_dim / Math::DEPTH;
    Unit* out = (Unit*)tile;
    for (int position = 0; position < TILE; position++) {
        const T* row = rows[position];
        for (int64_t u = 0; u < num_units; u++) {
            Unit value = 0;
            if (u < whole) std::memcpy(&value, row + u * Math::DEPTH, sizeof value);
            out[u * TILE + position] = value;
        }
    }
}

#if LMC_NATIVE_BF16
// Transposes the 4 x 4 units that four rows hold in each of their four lanes of 128 bits.
inline void transpose_units(__m512i* r) {
    const __m512i a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpackhi_epi32(r[0], r[1]);
    const __m512i c = _mm512_unpacklo_epi32(r[2], r[3]), d = _mm512_unpackhi_epi32(r[2], r[3]);
    r[0] = _mm512_unpacklo_epi64(a, c);
    r[1] = _mm512_unpackhi_epi64(a, c);
    r[2] = _mm512_unpacklo_epi64(b, d);
    r[3] = _mm512_unpackhi_epi64(b, d);
}

// Transposes the 4 x 4 lanes of rows r[0], r[4], r[8], r[12].
inline void transpose_lanes(__m512i* r) {
    const __m512i a = _mm512_shuffle_i32x4(r[0], r[4], 0x44);   // lanes 0 and 1 of both
    const __m512i b = _mm512_shuffle_i32x4(r[8], r[12], 0x44);
    const __m512i c = _mm512_shuffle_i32x4(r[0], r[4], 0xee);   // lanes 2 and 3
    const __m512i d = _mm512_shuffle_i32x4(r[8], r[12], 0xee);
    r[0] = _mm512_shuffle_i32x4(a, b, 0x88);                    // even lanes of both
    r[4] = _mm512_shuffle_i32x4(a, b, 0xdd);                    // odd lanes
    r[8] = _mm512_shuffle_i32x4(c, d, 0x88);
    r[12] = _mm512_shuffle_i32x4(c, d, 0xdd);
}

// Transposes 16 rows of 16 units.
inline void transpose(__m512i (&r)[16]) {
    for (int i = 0; i < 16; i += 4) transpose_units(r + i);
    for (int i = 0; i < 4; i++) transpose_lanes(r + i);
}

template <>
inline void gather_keys<bf16>(const bf16* const* rows, int64_t head_dim, int64_t padded_dim,
                       bf16* tile) {
    uint32_t* out = (uint32_t*)tile;
    for (int64_t u = 0; u < padded_dim / 2; u += 16) {
        const int64_t left = std::min<int64_t>(32, head_dim - 2 * u);  // elements to load
        const __mmask32 present = left >= 32 ? ~0u : (1u << left) - 1;
        for (int position = 0; position < TILE; position += 16) {
            __m512i r[16];
            for (int i = 0; i < 16; i++)
                r[i] = _mm512_maskz_loadu_epi16(present, rows[position + i] + 2 * u);
            transpose(r);
            for (int i = 0; i < 16; i++)
                _mm512_storeu_si512(out + (u + i) * TILE + position, r[i]);
        }
    }
}
#endif

// Lays the values of a tile out as [unit of positions][padded_dim].
template <class T>
void gather_values(const T* const* rows, int64_t head_dim, int64_t padded_dim, T* tile) {
    constexpr int DEPTH = MathOf<T>::type::DEPTH;
    for (int position = 0; position < TILE; position++) {
        T* out = tile + position / DEPTH * DEPTH * padded_dim + position % DEPTH;
        const T* row = rows[position];
        for (int64_t d = 0; d < padded_dim; d++)
            out[d * DEPTH] = d < head_dim ? row[d] : T(0);
    }
}

#if LMC_NATIVE_BF16
template <>
inline void gather_values<bf16>(const bf16* const* rows, int64_t head_dim, int64_t padded_dim,
                         bf16* tile) {
    alignas(64) static constexpr uint16_t places[64] = {
        0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
        11, 43, 12, 44, 13, 45, 14, 46, 15, 47, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53,
        22, 54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63};
    const __m512i lower = _mm512_load_si512(places), upper = _mm512_load_si512(places + 32);
    for (int position = 0; position < TILE; position += 2) {
        uint32_t* out = (uint32_t*)tile + position / 2 * padded_dim;
        for (int64_t d = 0; d < padded_dim; d += 32) {
            const int64_t left = std::min<int64_t>(32, head_dim - d);
            const __mmask32 present = left >= 32 ? ~0u : (1u << left) - 1;
            const __m512i first = _mm512_maskz_loadu_epi16(present, rows[position] + d);
            const __m512i second = _mm512_maskz_loadu_epi16(present, rows[position + 1] + d);
            _mm512_storeu_si512(out + d, _mm512_permutex2var_epi16(first, lower, second));
            _mm512_storeu_si512(out + d + 16, _mm512_permutex2var_epi16(first, upper, second));
        }
    }
}
#endif

}  // namespace lmc
