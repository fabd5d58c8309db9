// How packed weights order their outputs, and where the sums of a block of outputs go.
#pragma once

#include <algorithm>

#include "simd.h"

namespace lmc {

constexpr int BLOCK = 32;            // outputs in a block
constexpr int VECS = BLOCK / LANES;  // vectors in a block
constexpr int HALF = BLOCK / 2;      // in a gated block: outputs of the gate, then of up

enum Part : int { WHOLE = 0, GATE = 1, UP = 2 };

// Where row `row` of a matrix goes among the packed outputs.
inline int64_t output_of(int64_t row, int part) {
    if (part == WHOLE) return row;
    return row / HALF * BLOCK + row % HALF + (part == UP ? HALF : 0);
}

// Where the sums of a block go.
struct Output {
    void* y;            // [num_rows, n]; gated: [num_rows, n / 2]
    const float* bias;  // [n padded to blocks], in the order of the packed outputs, or null
    int64_t n;
    bool is_float;      // else bf16
    bool accumulate;    // y += sums, for float
    bool gated;         // y = silu(gate) * up
};

template <class T> inline void put(T* y, Vec value, int count) {
    if (count >= LANES)
        store(y, value);
    else if (count > 0)
        store_part(y, value, count);
}

inline void put_float(const Output& out, float* y, Vec value, int count) {
    if (count <= 0) return;
    if (out.accumulate) value += count >= LANES ? load(y) : load_part(y, count);
    put(y, value, count);
}

// Writes one row of a block.
inline void finish_row(const Output& out, int64_t row, int64_t block, Vec (&sums)[VECS]) {
    if (out.bias)
        for (int v = 0; v < VECS; v++) sums[v] += load(out.bias + block * BLOCK + v * LANES);
    const int width = out.gated ? HALF : BLOCK;
    const int64_t row_len = out.gated ? out.n / 2 : out.n;
    if (out.gated)
        for (int v = 0; v < VECS / 2; v++) sums[v] = silu(sums[v]) * sums[v + VECS / 2];
    for (int v = 0; v < width / LANES; v++) {
        const int64_t column = block * width + v * LANES;
        const int count = (int)std::min<int64_t>(LANES, row_len - column);
        if (out.is_float)
            put_float(out, (float*)out.y + row * row_len + column, sums[v], count);
        else
            put((bf16*)out.y + row * row_len + column, sums[v], count);
    }
}

}  // namespace lmc
