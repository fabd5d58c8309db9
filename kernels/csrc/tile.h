// Gathers 64 cached positions into the layout that `multiply` reads.
#pragma once

#include <algorithm>

#include "multiply.h"

namespace lmc {

constexpr int TILE = 64;  // positions in a tile; part of what attention's results mean

// Lays the keys of a tile out as [unit of head_dim][64 positions], missing positions as zeros.
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
            if (row && u < whole) std::memcpy(&value, row + u * Math::DEPTH, sizeof value);
            out[u * TILE + position] = value;
        }
    }
}

#if LMC_NATIVE_BF16
// Transposes 16 rows of 16 units.
inline void transpose(__m512i (&r)[16]) {
    __m512i t[16];
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
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
            for (int i = 0; i < 16; i++) {
                const bf16* row = rows[position + i];
                r[i] = row ? _mm512_maskz_loadu_epi16(present, row + 2 * u)
                           : _mm512_setzero_si512();
            }
            transpose(r);
            for (int i = 0; i < 16; i++)
                _mm512_storeu_si512(out + (u + i) * TILE + position, r[i]);
        }
    }
}
#endif

// Lays the values of a tile out as [unit of positions][padded_dim], missing ones as zeros.
template <class T>
void gather_values(const T* const* rows, int64_t head_dim, int64_t padded_dim, T* tile) {
    constexpr int DEPTH = MathOf<T>::type::DEPTH;
    for (int position = 0; position < TILE; position++) {
        T* out = tile + position / DEPTH * DEPTH * padded_dim + position % DEPTH;
        const T* row = rows[position];
        for (int64_t d = 0; d < padded_dim; d++)
            out[d * DEPTH] = row && d < head_dim ? row[d] : T(0);
    }
}

#if LMC_NATIVE_BF16
template <>
inline void gather_values<bf16>(const bf16* const* rows, int64_t head_dim, int64_t padded_dim,
                         bf16* tile) {
    for (int position = 0; position < TILE; position += 2) {
        uint32_t* out = (uint32_t*)tile + position / 2 * padded_dim;
        for (int64_t d = 0; d < padded_dim; d += 16) {
            const int64_t left = std::clamp<int64_t>(head_dim - d, 0, 16);
            const __mmask16 present = (__mmask16)((1u << left) - 1);
            __m512i pair = _mm512_setzero_si512();
            if (rows[position])
                pair = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(present, rows[position] + d));
            if (rows[position + 1])
                pair = _mm512_or_si512(
                    pair, _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(
                                                present, rows[position + 1] + d)),
                                            16));
            _mm512_storeu_si512(out + d, pair);
        }
    }
}
#endif

}  // namespace lmc
