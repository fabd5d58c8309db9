// Linear layers on packed weights: y = x W^T (+ bias), the gated pair of an MLP, embedding.
//
// Packing cuts W [N, K] into blocks of 32 outputs. Inside a block the units of k follow each
// other, and for each unit the 32 outputs, so a block is read front to back whatever the
// number of rows. N is padded to a block and K to a unit, with zeros.
#include <algorithm>
#include <vector>

#include "multiply.h"
#include "outputs.h"
#include "parallel.h"

namespace lmc {

constexpr int MOST_ROWS = max_rows(VECS);
constexpr int64_t CACHED_BYTES = 256 * 1024;  // of x, to stay in the second-level cache
constexpr int64_t PIECE_BYTES = 64 * 1024;    // of weights, that a thread takes at a time
constexpr int PREFETCH_BYTES = 3072;

template <class Math> int64_t units_of(int64_t k) { return (k + Math::DEPTH - 1) / Math::DEPTH; }

// Position of output n, input k in packed weights, in elements.
template <class Math> inline int64_t packed_index(int64_t n, int64_t k, int64_t num_units) {
    int64_t unit = (n / BLOCK * num_units + k / Math::DEPTH) * BLOCK + n % BLOCK;
    return unit * Math::DEPTH + k % Math::DEPTH;
}

template <class T, class Source>
void pack(const Source* w, int64_t num_rows, int64_t k, int64_t first_row, int part, T* packed) {
    using Math = typename MathOf<T>::type;
    const int64_t num_units = units_of<Math>(k);
    const int64_t num_groups = (num_rows + BLOCK - 1) / BLOCK;
    parallel_for(num_groups, [&](int64_t group) {
        const int64_t begin = group * BLOCK;
        const int count = (int)std::min<int64_t>(BLOCK, num_rows - begin);
        T* places[BLOCK];
        for (int r = 0; r < count; r++)
            places[r] = packed + packed_index<Math>(output_of(first_row + begin + r, part), 0,
                                                    num_units);
        // Rows inside, so that neighbouring places are written together.
        for (int64_t i = 0; i < k; i++) {
            const int64_t place = packed_index<Math>(0, i, num_units);
            for (int r = 0; r < count; r++)
                places[r][place] = from_float<T>(to_float(w[(begin + r) * k + i]));
        }
    });
}

// Rows [first, first + count) of a block, in groups of at most MOST_ROWS of even size.
template <class Math>
void block_rows(const typename Math::Unit* x, const typename Math::Unit* panel,
                int64_t num_units, int64_t first, int64_t count, int64_t block,
                const Output& out) {
    constexpr int AHEAD = PREFETCH_BYTES / (int)sizeof(typename Math::Unit);
    const int64_t num_groups = (count + MOST_ROWS - 1) / MOST_ROWS;
    for (int64_t group = 0; group < num_groups; group++) {
        const int64_t begin = first + count * group / num_groups;
        const int64_t end = first + count * (group + 1) / num_groups;
        visit<MOST_ROWS>((int)(end - begin), [&]<int ROWS>() {
            Vec sums[ROWS][VECS] = {};
            multiply<Math, ROWS, VECS, AHEAD>(
                x + begin * num_units, num_units, panel, BLOCK, num_units, sums);
            for (int r = 0; r < ROWS; r++) finish_row(out, begin + r, block, sums[r]);
        });
    }
}

template <class T>
void linear(const T* x, const T* packed, int64_t num_rows, int64_t k, const Output& out) {
    using Math = typename MathOf<T>::type;
    using Unit = typename Math::Unit;
    const int64_t num_units = units_of<Math>(k);
    const int64_t num_blocks = (out.n + BLOCK - 1) / BLOCK;
    std::vector<T> padded;  // only where k does not fill its last unit
    if (k % Math::DEPTH) {
        padded.assign(num_rows * num_units * Math::DEPTH, T(0));
        for (int64_t r = 0; r < num_rows; r++)
            std::copy_n(x + r * k, k, padded.data() + r * num_units * Math::DEPTH);
        x = padded.data();
    }
    const int64_t row_bytes = num_units * (int64_t)sizeof(Unit);
    const int64_t chunk = std::max<int64_t>(MOST_ROWS, CACHED_BYTES / row_bytes);
    const int64_t num_chunks = (num_rows + chunk - 1) / chunk;
    const int64_t block_bytes = row_bytes * BLOCK;
    const int64_t piece = num_rows > MOST_ROWS ? 1 : std::max<int64_t>(1, PIECE_BYTES / block_bytes);
    parallel_for((num_blocks + piece - 1) / piece, [&](int64_t number) {
        const int64_t end = std::min(num_blocks, (number + 1) * piece);
        for (int64_t block = number * piece; block < end; block++)
            for (int64_t c = 0; c < num_chunks; c++)
                block_rows<Math>((const Unit*)x, (const Unit*)packed + block * num_units * BLOCK,
                                 num_units, c * chunk, std::min(chunk, num_rows - c * chunk),
                                 block, out);
    });
}

// Rows of the packed matrix as floats. Returns the number of ids outside [0, n).
template <class T>
int64_t embed(const T* packed, int64_t n, int64_t k, const int32_t* token_ids, int64_t num_rows,
              float* out) {
    using Math = typename MathOf<T>::type;
    const int64_t num_units = units_of<Math>(k);
    int64_t num_wrong = 0;
    for (int64_t row = 0; row < num_rows; row++) {
        if (token_ids[row] < 0 || token_ids[row] >= n) {
            num_wrong++;
            continue;
        }
        for (int64_t i = 0; i < k; i++)
            out[row * k + i] = to_float(packed[packed_index<Math>(token_ids[row], i, num_units)]);
    }
    return num_wrong;
}

}  // namespace lmc

using namespace lmc;

// Elements that a packed matrix takes.
LMC_EXPORT int64_t lmc_packed_size(int64_t n, int64_t k, int is_bf16) {
    const int64_t num_blocks = (n + BLOCK - 1) / BLOCK;
    const int64_t depth = is_bf16 ? Bf16Math::DEPTH : FloatMath::DEPTH;
    return num_blocks * BLOCK * ((k + depth - 1) / depth * depth);
}

LMC_EXPORT int64_t lmc_output_of(int64_t row, int part) { return output_of(row, part); }

LMC_EXPORT void lmc_pack(const void* w, int source_is_bf16, int64_t num_rows, int64_t k,
                         int64_t first_row, int part, void* packed, int is_bf16) {
    if (is_bf16 && source_is_bf16)
        pack<bf16>((const bf16*)w, num_rows, k, first_row, part, (bf16*)packed);
    else if (is_bf16)
        pack<bf16>((const float*)w, num_rows, k, first_row, part, (bf16*)packed);
    else if (source_is_bf16)
        pack<float>((const bf16*)w, num_rows, k, first_row, part, (float*)packed);
    else
        pack<float>((const float*)w, num_rows, k, first_row, part, (float*)packed);
}

LMC_EXPORT void lmc_linear(const void* x, const void* packed, const float* bias, void* y,
                           int64_t num_rows, int64_t n, int64_t k, int is_bf16,
                           int out_is_float, int accumulate, int gated) {
    const Output out{y, bias, n, out_is_float != 0, accumulate != 0, gated != 0};
    if (is_bf16)
        linear((const bf16*)x, (const bf16*)packed, num_rows, k, out);
    else
        linear((const float*)x, (const float*)packed, num_rows, k, out);
}

LMC_EXPORT int64_t lmc_embed(const void* packed, int64_t n, int64_t k, const int32_t* token_ids,
                             int64_t num_rows, float* out, int is_bf16) {
    if (is_bf16) return embed((const bf16*)packed, n, k, token_ids, num_rows, out);
    return embed((const float*)packed, n, k, token_ids, num_rows, out);
}
