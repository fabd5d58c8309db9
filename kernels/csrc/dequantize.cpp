// Quantized weights as a file has them, turned into dense ones.
#include <algorithm>

#include "parallel.h"
#include "quantized.h"

namespace lmc {

constexpr int64_t ROWS_AT_A_TIME = 16;

// One row. A number times its scale is exact in float, so nothing depends on how it is added to
// the least value.
template <class T>
void dequantize_row(int kind, int zero, const uint8_t* raw, int64_t k, T* out) {
    for (int64_t begin = 0; begin < k; begin += GROUP, raw += raw_bytes(kind)) {
        const RawGroup group = read_group(kind, raw);
        const float scale = half_to_float(group.scale), least = half_to_float(group.least);
        T values[GROUP];
        for (int i = 0; i < GROUP; i++)
            values[i] = from_float<T>(scale * (float)(group.u[i] - zero) + least);
        const int64_t count = std::min<int64_t>(GROUP, k - begin);
        if (count == GROUP)
            std::memcpy(out + begin, values, sizeof values);  // of a size that is known
        else
            std::copy_n(values, count, out + begin);
    }
}

template <class T>
void dequantize(int kind, const uint8_t* raw, int64_t num_rows, int64_t k, T* out) {
    const int64_t row_bytes = (k + GROUP - 1) / GROUP * raw_bytes(kind);
    parallel_for((num_rows + ROWS_AT_A_TIME - 1) / ROWS_AT_A_TIME, [&](int64_t number) {
        const int64_t end = std::min(num_rows, (number + 1) * ROWS_AT_A_TIME);
        visit_format(kind, [&]<class F>(F, int zero) {
            for (int64_t row = number * ROWS_AT_A_TIME; row < end; row++)
                dequantize_row(kind, zero, raw + row * row_bytes, k, out + row * k);
        });
    });
}

}  // namespace lmc

using namespace lmc;

LMC_EXPORT void lmc_dequantize(const uint8_t* raw, int kind, int64_t num_rows, int64_t k,
                               void* out, int is_bf16) {
    if (is_bf16)
        dequantize(kind, raw, num_rows, k, (bf16*)out);
    else
        dequantize(kind, raw, num_rows, k, (float*)out);
}
