// RMS norm, and rotary embedding with the write of keys and values into their slots.
#include <atomic>
#include <cmath>

#include "multiply.h"
#include "parallel.h"

namespace lmc {

constexpr int64_t PIECE_ELEMENTS = 1 << 14;  // that a thread takes at a time

// Calls body(row) for all rows, several rows of `width` elements to a piece.
template <class Body> void for_rows(int64_t num_rows, int64_t width, const Body& body) {
    const int64_t rows = width < PIECE_ELEMENTS ? PIECE_ELEMENTS / width : 1;
    parallel_for((num_rows + rows - 1) / rows, [&](int64_t piece) {
        const int64_t end = num_rows < (piece + 1) * rows ? num_rows : (piece + 1) * rows;
        for (int64_t row = piece * rows; row < end; row++) body(row);
    });
}

// y = x / sqrt(mean(x^2) + eps) * weight, for one row.
template <class T>
void rms_norm_row(const float* x, const float* weight, float eps, int64_t width, T* y) {
    Vec squares[4] = {};
    const int64_t whole = width / LANES * LANES;
    const int rest = (int)(width - whole);
    for (int64_t i = 0; i < whole; i += LANES) {
        Vec v = load(x + i);
        squares[i / LANES % 4] = fma(v, v, squares[i / LANES % 4]);
    }
    if (rest) {
        Vec v = load_part(x + whole, rest);
        squares[0] = fma(v, v, squares[0]);
    }
    const float sum = sum_lanes((squares[0] + squares[1]) + (squares[2] + squares[3]));
    const Vec scale = splat(1.f / std::sqrt(sum / (float)width + eps));
    for (int64_t i = 0; i < whole; i += LANES)
        store(y + i, load(x + i) * scale * load(weight + i));
    if (rest)
        store_part(y + whole, load_part(x + whole, rest) * scale * load_part(weight + whole, rest),
                   rest);
}

template <class T>
void rms_norm(const float* x, const float* weight, float eps, int64_t num_rows, int64_t width,
              T* y) {
    for_rows(num_rows, width, [&](int64_t row) {
        rms_norm_row(x + row * width, weight, eps, width, y + row * width);
    });
}

struct RopeShape {
    int64_t num_heads, num_kv_heads, head_dim;
};

// Rotates the pairs (i, i + head_dim / 2) of one head by the angles of a position.
template <class T>
void rotate_head(const float* x, const float* cosine, const float* sine, int64_t head_dim, T* y) {
    const int64_t half = head_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        const float a = x[i], b = x[i + half];
        y[i] = from_float<T>(a * cosine[i] - b * sine[i]);
        y[i + half] = from_float<T>(b * cosine[i] + a * sine[i]);
    }
}

template <class T>
void rope_row(const float* qkv, const float* cosine, const float* sine, const RopeShape& shape,
              T* q, T* k, T* v) {
    const int64_t d = shape.head_dim;
    for (int64_t h = 0; h < shape.num_heads; h++)
        rotate_head(qkv + h * d, cosine, sine, d, q + h * d);
    qkv += shape.num_heads * d;
    for (int64_t h = 0; h < shape.num_kv_heads; h++)
        rotate_head(qkv + h * d, cosine, sine, d, k + h * d);
    qkv += shape.num_kv_heads * d;
    for (int64_t i = 0; i < shape.num_kv_heads * d; i++) v[i] = from_float<T>(qkv[i]);
}

// Returns how many rows have a position or slot out of range; those are left out.
template <class T>
int64_t rope_write(const float* qkv, const float* cosine, const float* sine,
                   int64_t num_positions, const int32_t* positions, const int32_t* slots,
                   int64_t num_rows, int64_t num_slots, const RopeShape& shape, T* q, T* keys,
                   T* values) {
    const int64_t kv_width = shape.num_kv_heads * shape.head_dim;
    const int64_t q_width = shape.num_heads * shape.head_dim;
    const int64_t half = shape.head_dim / 2;
    std::atomic<int64_t> num_wrong{0};
    for_rows(num_rows, q_width + 2 * kv_width, [&](int64_t row) {
        const int64_t position = positions[row], slot = slots[row];
        if (position < 0 || position >= num_positions || slot < 0 || slot >= num_slots) {
            num_wrong++;
            return;
        }
        rope_row(qkv + row * (q_width + 2 * kv_width), cosine + position * half,
                 sine + position * half, shape, q + row * q_width, keys + slot * kv_width,
                 values + slot * kv_width);
    });
    return num_wrong;
}

}  // namespace lmc

using namespace lmc;

LMC_EXPORT int lmc_has_native_bf16() { return LMC_NATIVE_BF16; }

LMC_EXPORT int lmc_lanes() { return LANES; }

LMC_EXPORT void lmc_rms_norm(const float* x, const float* weight, float eps, int64_t num_rows,
                             int64_t width, void* y, int is_bf16) {
    if (is_bf16)
        rms_norm(x, weight, eps, num_rows, width, (bf16*)y);
    else
        rms_norm(x, weight, eps, num_rows, width, (float*)y);
}

LMC_EXPORT int64_t lmc_rope_write(const float* qkv, const float* cosine, const float* sine,
                                  int64_t num_positions, const int32_t* positions,
                                  const int32_t* slots, int64_t num_rows, int64_t num_slots,
                                  int64_t num_heads, int64_t num_kv_heads, int64_t head_dim,
                                  void* q, void* keys, void* values, int is_bf16) {
    const RopeShape shape{num_heads, num_kv_heads, head_dim};
    if (is_bf16)
        return rope_write(qkv, cosine, sine, num_positions, positions, slots, num_rows,
                          num_slots, shape, (bf16*)q, (bf16*)keys, (bf16*)values);
    return rope_write(qkv, cosine, sine, num_positions, positions, slots, num_rows, num_slots,
                      shape, (float*)q, (float*)keys, (float*)values);
}
