// What a sampler needs of rows of logits: argmax, log-sum-exp, log-softmax.
//
// A bitmask row holds one bit per token, 32 to a word, lowest bit first; a set bit allows the
// token. Every row is reduced alone, in one order.
#include <cmath>
#include <limits>

#include "parallel.h"
#include "simd.h"

namespace lmc {

constexpr int64_t SPAN = 1024;  // elements that are summed in float before going to double
constexpr float LOWEST = -std::numeric_limits<float>::infinity();

// Vector `i` of a row with tokens that are not allowed, or lie past its end, at -infinity.
inline Vec masked(const float* row, const uint32_t* mask, int64_t i, int64_t width) {
    const IntVec lane = lane_numbers();
    const int64_t left = width - i;
    Vec v = left >= LANES ? load(row + i) : load_part(row + i, (int)left);
    if (left < LANES) v = lane < splat_int((int32_t)left) ? v : splat(LOWEST);
    if (mask) {
        const uint32_t bits = mask[i / 32] >> (i % 32);
        const IntVec bit = splat_int(1) << lane;
        v = (splat_int((int32_t)bits) & bit) != 0 ? v : splat(LOWEST);
    }
    return v;
}

// Lowest index of the largest allowed logit; -1 where nothing is allowed.
int32_t argmax_row(const float* row, const uint32_t* mask, int64_t width) {
    Vec best = splat(LOWEST);
    IntVec where = splat_int(-1);
    IntVec index = lane_numbers();
    for (int64_t i = 0; i < width; i += LANES) {
        const Vec v = masked(row, mask, i, width);
        const IntVec better = v > best;
        best = better ? v : best;
        where = better ? index : where;
        index += LANES;
    }
    int32_t winner = -1;
    float largest = LOWEST;
    for (int lane = 0; lane < LANES; lane++) {
        if (where[lane] < 0) continue;
        if (best[lane] > largest || (best[lane] == largest && where[lane] < winner)) {
            largest = best[lane];
            winner = where[lane];
        }
    }
    return winner;
}

// log(sum(exp(row * scale))) over the allowed tokens; -infinity where nothing is allowed.
double log_sum_exp_row(const float* row, const uint32_t* mask, int64_t width, float scale) {
    const Vec factor = splat(scale);
    Vec most = splat(LOWEST);
    for (int64_t i = 0; i < width; i += LANES)
        most = vmax(masked(row, mask, i, width) * factor, most);
    const float largest = max_lanes(most);
    if (largest == LOWEST) return largest;
    double total = 0;
    for (int64_t begin = 0; begin < width; begin += SPAN) {
        const int64_t end = begin + SPAN < width ? begin + SPAN : width;
        Vec sum = {};
        for (int64_t i = begin; i < end; i += LANES) {
            const Vec v = masked(row, mask, i, width);
            const Vec x = exp2((v * factor - splat(largest)) * splat(LOG2E));
            sum += v > splat(LOWEST) ? x : splat(0.f);
        }
        total += sum_lanes(sum);
    }
    return largest + std::log(total);
}

}  // namespace lmc

using namespace lmc;

// `mask_words` is the distance between rows of the bitmask; `mask` may be null.
LMC_EXPORT void lmc_argmax(const float* logits, const uint32_t* mask, int64_t mask_words,
                           int64_t num_rows, int64_t width, int32_t* out) {
    parallel_for(num_rows, [&](int64_t row) {
        out[row] = argmax_row(logits + row * width, mask ? mask + row * mask_words : nullptr,
                              width);
    });
}

// `scales` holds a factor per row (1 / temperature) or is null.
LMC_EXPORT void lmc_log_sum_exp(const float* logits, const uint32_t* mask, int64_t mask_words,
                                const float* scales, int64_t num_rows, int64_t width,
                                double* out) {
    parallel_for(num_rows, [&](int64_t row) {
        out[row] = log_sum_exp_row(logits + row * width,
                                   mask ? mask + row * mask_words : nullptr, width,
                                   scales ? scales[row] : 1.f);
    });
}

LMC_EXPORT void lmc_log_softmax(const float* logits, const uint32_t* mask, int64_t mask_words,
                                const float* scales, int64_t num_rows, int64_t width,
                                float* out) {
    parallel_for(num_rows, [&](int64_t row) {
        const float* x = logits + row * width;
        const uint32_t* row_mask = mask ? mask + row * mask_words : nullptr;
        const float scale = scales ? scales[row] : 1.f;
        const double total = log_sum_exp_row(x, row_mask, width, scale);
        for (int64_t i = 0; i < width; i++) {
            const bool allowed = !row_mask || (row_mask[i / 32] >> (i % 32) & 1);
            out[row * width + i] = allowed ? (float)(x[i] * scale - total) : LOWEST;
        }
    });
}
