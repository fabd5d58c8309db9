// Linear layers on packed weights: y = x W^T (+ bias), the gated pair of an MLP, embedding.
//
// Packing cuts W [N, K] into blocks of 32 outputs. Inside a block the units of k follow each
// other, and for each unit the 32 outputs, so a block is read front to back whatever the
// number of rows. N is padded to a block and K to a unit (or to the step of a tile register),
// with zeros.
#include <algorithm>
#include <type_traits>

#include "aligned.h"
#include "amx.h"
#include "multiply.h"
#include "outputs.h"
#include "parallel.h"

namespace lmc {

constexpr int MOST_ROWS = max_rows(VECS);
constexpr int64_t CACHED_BYTES = 256 * 1024;  // of x, to stay in the second-level cache
constexpr int64_t PIECE_BYTES = 64 * 1024;    // of weights, that a thread takes at a time
constexpr int PREFETCH_BYTES = 3072;

// Values of k that a packed row is padded to.
template <class Math> constexpr int padded_to() {
#if LMC_AMX
    if (std::is_same_v<Math, NativeBf16>) return TILE_DEPTH;
#endif
    return Math::DEPTH;
}

template <class Math> int64_t units_of(int64_t k) {
    constexpr int step = padded_to<Math>();
    return (k + step - 1) / step * (step / Math::DEPTH);
}

// Position of output n, input k in packed weights, in elements.
template <class Math> inline int64_t packed_index(int64_t n, int64_t k, int64_t num_units) {
    int64_t unit = (n / BLOCK * num_units + k / Math::DEPTH) * BLOCK + n % BLOCK;
    return unit * Math::DEPTH + k % Math::DEPTH;
}

// Rows of a block, each to its place. Rows inside, so that neighbouring places are written
// together; where no number changes its type, whole units are copied.
template <class Math, class T, class Source>
void pack_rows(const Source* w, int count, int64_t k, int64_t num_units, T* const* places) {
    int64_t i = 0;
    if constexpr (std::is_same_v<T, Source>)
        for (; i + Math::DEPTH <= k; i += Math::DEPTH) {
            const int64_t place = packed_index<Math>(0, i, num_units);
            for (int r = 0; r < count; r++) std::copy_n(w + r * k + i, Math::DEPTH, places[r] + place);
        }
    for (; i < k; i++) {
        const int64_t place = packed_index<Math>(0, i, num_units);
        for (int r = 0; r < count; r++) places[r][place] = from_float<T>(to_float(w[r * k + i]));
    }
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
        pack_rows<Math>(w + begin * k, count, k, num_units, places);
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

#if LMC_AMX
constexpr int TILED_ROWS = 2 * TILE_ROWS;        // that are multiplied at a time
constexpr int64_t TILED_BYTES = 768 * 1024;      // of x, to stay in the second-level cache
constexpr int64_t MOST_BLOCKS = 8, PIECES = 8;   // of a piece where there are many rows

// As `linear`, in tile registers; x is padded to their steps.
void linear_in_tiles(const bf16* x, const bf16* packed, int64_t num_rows, int64_t num_units,
                     const Output& out) {
    const int64_t num_blocks = (out.n + BLOCK - 1) / BLOCK;
    const int64_t row_bytes = num_units * 4, block_bytes = row_bytes * BLOCK;
    const int64_t num_steps = num_units / (TILE_DEPTH / 2);
    const bool is_few = num_rows <= TILED_ROWS;
    const int64_t chunk = std::max<int64_t>(1, TILED_BYTES / row_bytes / TILED_ROWS) * TILED_ROWS;
    const int64_t num_chunks = (num_rows + chunk - 1) / chunk;
    const int64_t piece = is_few ? std::max<int64_t>(1, PIECE_BYTES / block_bytes)
                                 : std::clamp<int64_t>(num_blocks / PIECES, 1, MOST_BLOCKS);
    const int64_t num_pieces = (num_blocks + piece - 1) / piece;
    parallel_for(num_chunks * num_pieces, [&](int64_t number) {
        Tiles tiles;
        alignas(64) float sums[TILED_ROWS * BLOCK];
        const int64_t first = number / num_pieces * chunk;
        const int64_t end = std::min(num_rows, first + chunk);
        const int64_t first_block = number % num_pieces * piece;
        const int64_t end_block = std::min(num_blocks, first_block + piece);
        for (int64_t row = first; row < end; row += TILED_ROWS) {
            const int count = (int)std::min<int64_t>(TILED_ROWS, end - row);
            const TileRows rows{x + row * num_units * 2, row_bytes};
            tiles.set_rows(std::min(count, TILE_ROWS), std::max(count - TILE_ROWS, 0));
            for (int64_t block = first_block; block < end_block; block++) {
                const TileColumns columns{(const char*)packed + block * block_bytes, BLOCK * 4};
                const TileSums place{sums, BLOCK * (int64_t)sizeof(float)};
                if (count > TILE_ROWS)
                    multiply_tiles<true, false, PREFETCH_BYTES>(rows, columns, num_steps, place);
                else
                    multiply_tiles<false, false, PREFETCH_BYTES>(rows, columns, num_steps, place);
                for (int r = 0; r < count; r++) {
                    Vec row_sums[VECS];
                    for (int v = 0; v < VECS; v++) row_sums[v] = load(sums + r * BLOCK + v * LANES);
                    finish_row(out, row + r, block, row_sums);
                }
            }
        }
    });
}
#endif

template <class T>
void linear(const T* x, const T* packed, int64_t num_rows, int64_t k, const Output& out) {
    using Math = typename MathOf<T>::type;
    using Unit = typename Math::Unit;
    const int64_t num_units = units_of<Math>(k);
    const int64_t num_blocks = (out.n + BLOCK - 1) / BLOCK;
    AlignedVector<T> padded;  // only where k does not fill its last step
    if (k % padded_to<Math>()) {
        padded.assign(num_rows * num_units * Math::DEPTH, T(0));
        for (int64_t r = 0; r < num_rows; r++)
            std::copy_n(x + r * k, k, padded.data() + r * num_units * Math::DEPTH);
        x = padded.data();
    }
#if LMC_AMX
    if constexpr (std::is_same_v<T, bf16>)
        if (use_amx()) return linear_in_tiles(x, packed, num_rows, num_units, out);
#endif
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
    const int64_t depth = is_bf16 ? padded_to<Bf16Math>() : padded_to<FloatMath>();
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
