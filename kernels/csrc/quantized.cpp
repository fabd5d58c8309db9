// Linear layers and embedding on quantized weights; see quantized.h for their layout.
#include <algorithm>
#include <cmath>

#include "multiply.h"
#include "parallel.h"
#include "quantized_math.h"

namespace lmc {

constexpr int64_t INPUT_BYTES = 256 * 1024;  // of rows, to stay in the second-level cache
constexpr int64_t WEIGHT_BYTES = 64 * 1024;  // that a thread takes at a time
constexpr int ROWS_IN_PIECE = 8;             // that a thread makes ready at a time

inline int64_t groups_of(int64_t k) { return (k + GROUP - 1) / GROUP; }
inline int64_t blocks_of(int64_t n) { return (n + BLOCK - 1) / BLOCK; }

// Rounds 32 values to int8: with the scale that gives the largest one 127, to nearest, ties to
// even. A group with a value that is not finite has a scale that is not.
inline void round_group(const float* x, int64_t at, int zero, int8_t* units, Inputs& out) {
    IntVec most = {};
    for (int k = 0; k < GROUP; k += LANES) {
        const IntVec bits = (IntVec)load(x + k) & 0x7fffffff;
        most = bits > most ? bits : most;
    }
    int32_t top = 0;
    for (int i = 0; i < LANES; i++) top = std::max(top, (int32_t)most[i]);
    float largest;
    std::memcpy(&largest, &top, sizeof largest);
    const bool is_finite = largest < INFINITY, is_zero = !(largest > 1e-30f);
    const Vec inverse = splat(is_finite && !is_zero ? 127.f / largest : 0.f);
    const Vec magic = splat(12582912.f);  // 1.5 * 2^23: adding it rounds to an integer
    IntVec total = {};
    for (int k = 0; k < GROUP; k += LANES) {
        const IntVec whole = (IntVec)(load(x + k) * inverse + magic) - (IntVec)magic;
        const IntVec kept = is_finite ? whole : IntVec{};
        total += kept;
        typedef int8_t Bytes __attribute__((vector_size(LANES)));
        const Bytes bytes = __builtin_convertvector(kept, Bytes);
        std::memcpy(units + k, &bytes, sizeof bytes);
    }
    int32_t sum = 0;
    for (int i = 0; i < LANES; i++) sum += total[i];
    const float scale = !is_finite ? NAN : is_zero ? 0.f : largest / 127.f;
    out.scales[at] = scale;
    out.sums[at] = scale * (float)sum;
    out.starts[at] = -zero * sum;
}

// Makes one row ready.
template <class Math, class T>
void make_ready(const T* x, int64_t k, int64_t row, int zero, Inputs& out) {
    alignas(64) T group[GROUP];
    alignas(64) float values[GROUP];
    for (int64_t g = 0; g < out.num_groups; g++) {
        const int64_t at = row * out.num_groups + g;
        const int count = (int)std::min<int64_t>(GROUP, k - g * GROUP);
        if (count < GROUP) std::fill_n(group, GROUP, T(0));
        std::copy_n(x + g * GROUP, count, group);
        uint8_t* units = out.units.data() + row * out.row_bytes + g * GROUP * Math::ELEMENT_BYTES;
        for (int i = 0; i < GROUP; i += LANES) store(values + i, load(group + i));
        if constexpr (Math::IS_INT) {
            round_group(values, at, zero, (int8_t*)units, out);
            continue;
        }
        Vec sum = {};
        for (int i = 0; i < GROUP; i += LANES) sum += load(values + i);
        out.sums[at] = sum_lanes(sum);
        if constexpr (Math::UNIT == 2)  // in the order of PairMath
            for (int i = 0; i < GROUP; i += 4) std::swap(group[i + 1], group[i + 2]);
        if constexpr (!Math::IS_INT) std::memcpy(units, group, sizeof group);
    }
}

template <class Math, class T>
void make_all_ready(const T* x, int64_t num_rows, int64_t k, int zero, Inputs& out) {
    out.num_groups = groups_of(k);
    out.row_bytes = out.num_groups * GROUP * Math::ELEMENT_BYTES;
    const int64_t count = num_rows * out.num_groups;
    out.units.resize(num_rows * out.row_bytes);
    out.sums.resize(count);
    if (Math::IS_INT) {
        out.scales.resize(count);
        out.starts.resize(count);
    }
    const auto piece = [&](int64_t number) {
        const int64_t end = std::min(num_rows, (number + 1) * ROWS_IN_PIECE);
        for (int64_t row = number * ROWS_IN_PIECE; row < end; row++)
            make_ready<Math>(x + row * k, k, row, zero, out);
    };
    const int64_t num_pieces = (num_rows + ROWS_IN_PIECE - 1) / ROWS_IN_PIECE;
    if (num_pieces == 1)
        piece(0);
    else
        parallel_for(num_pieces, piece);
}

// Rows [first, first + count) of a block, in sets of at most MOST_GROUP_ROWS of even size.
template <class Math, class F>
void block_rows(const Inputs& x, const uint8_t* panel, int zero, int64_t first, int64_t count,
                int64_t block, const Output& out) {
    const int64_t num_sets = (count + MOST_GROUP_ROWS - 1) / MOST_GROUP_ROWS;
    for (int64_t set = 0; set < num_sets; set++) {
        const int64_t begin = first + count * set / num_sets;
        const int64_t end = first + count * (set + 1) / num_sets;
        visit<MOST_GROUP_ROWS>((int)(end - begin), [&]<int ROWS>() {
            Vec sums[ROWS][VECS] = {};
            multiply_groups<Math, F, ROWS>(x, begin, panel, zero, sums);
            for (int r = 0; r < ROWS; r++) finish_row(out, begin + r, block, sums[r]);
        });
    }
}

template <class Math, class F, class T>
void linear(const T* x, const uint8_t* packed, int64_t num_rows, int64_t k, int zero,
            const Output& out) {
    static thread_local Inputs inputs;  // kept: its memory serves the next layer
    make_all_ready<Math>(x, num_rows, k, zero, inputs);
    const Inputs& ready = inputs;
    const int64_t num_blocks = blocks_of(out.n);
    const int64_t block_bytes = ready.num_groups * F::BYTES;
    const int64_t chunk = std::max<int64_t>(MOST_GROUP_ROWS, INPUT_BYTES / ready.row_bytes);
    const int64_t num_chunks = (num_rows + chunk - 1) / chunk;
    const int64_t piece =
        num_rows > MOST_GROUP_ROWS ? 1 : std::max<int64_t>(1, WEIGHT_BYTES / block_bytes);
    parallel_for((num_blocks + piece - 1) / piece, [&](int64_t number) {
        const int64_t end = std::min(num_blocks, (number + 1) * piece);
        for (int64_t block = number * piece; block < end; block++)
            for (int64_t c = 0; c < num_chunks; c++)
                block_rows<Math, F>(ready, packed + block * block_bytes, zero, c * chunk,
                                    std::min(chunk, num_rows - c * chunk), block, out);
    });
}

template <class F>
void pack(int kind, const uint8_t* raw, int64_t num_rows, int64_t num_groups, int64_t first_row,
          int part, uint8_t* packed) {
    const int64_t group_bytes = raw_bytes(kind);
    parallel_for((num_rows + BLOCK - 1) / BLOCK, [&](int64_t number) {
        const int64_t end = std::min(num_rows, (number + 1) * BLOCK);
        for (int64_t row = number * BLOCK; row < end; row++) {
            const int64_t output = output_of(first_row + row, part);
            uint8_t* panel = packed + output / BLOCK * num_groups * F::BYTES;
            const int64_t lane = output % BLOCK;
            for (int64_t g = 0; g < num_groups; g++, panel += F::BYTES) {
                const RawGroup group = read_group(kind, raw + (row * num_groups + g) * group_bytes);
                for (int w = 0; w < F::WORDS; w++) {
                    uint32_t word = 0;
                    for (int k = 0; k < F::IN_WORD; k++)
                        word |= (uint32_t)group.u[w * F::IN_WORD + k] << F::shift(k);
                    std::memcpy(panel + (w * BLOCK + lane) * 4, &word, 4);
                }
                std::memcpy(panel + F::SCALES + lane * 2, &group.scale, 2);
                if (F::HAS_MIN) std::memcpy(panel + F::MINS + lane * 2, &group.least, 2);
            }
        }
    });
}

// A row of the packed matrix as floats.
template <class F>
void unpack_row(const uint8_t* packed, int64_t output, int64_t k, int zero, float* out) {
    const uint8_t* group = packed + output / BLOCK * groups_of(k) * F::BYTES;
    const int64_t lane = output % BLOCK;
    for (int64_t begin = 0; begin < k; begin += GROUP, group += F::BYTES) {
        const int count = (int)std::min<int64_t>(GROUP, k - begin);
        const float scale = half_to_float(read_as<uint16_t>(group + F::SCALES + lane * 2));
        const float least =
            F::HAS_MIN ? half_to_float(read_as<uint16_t>(group + F::MINS + lane * 2)) : 0.f;
        for (int i = 0; i < count; i++) {
            const int64_t word = i / F::IN_WORD * BLOCK + lane;
            const uint32_t bits = read_as<uint32_t>(group + word * 4);
            const int number = bits >> F::shift(i % F::IN_WORD) & ((1u << F::BITS) - 1);
            out[begin + i] = scale * (float)(number - zero) + least;
        }
    }
}

}  // namespace lmc

using namespace lmc;

// Bytes that a packed matrix takes.
LMC_EXPORT int64_t lmc_quantized_size(int64_t n, int64_t k, int kind) {
    int64_t size = 0;
    visit_format(kind, [&]<class F>(F, int) { size = blocks_of(n) * groups_of(k) * F::BYTES; });
    return size;
}

LMC_EXPORT void lmc_quantized_pack(const uint8_t* raw, int kind, int64_t num_rows, int64_t k,
                                   int64_t first_row, int part, uint8_t* packed) {
    visit_format(kind, [&]<class F>(F, int) {
        pack<F>(kind, raw, num_rows, groups_of(k), first_row, part, packed);
    });
}

LMC_EXPORT void lmc_quantized_linear(const void* x, const uint8_t* packed, const float* bias,
                                     void* y, int64_t num_rows, int64_t n, int64_t k, int kind,
                                     int is_bf16, int int8_rows, int out_is_float, int accumulate,
                                     int gated) {
    const Output out{y, bias, n, out_is_float != 0, accumulate != 0, gated != 0};
    visit_format(kind, [&]<class F>(F, int zero) {
        if (is_bf16 && int8_rows)
            linear<IntMath, F>((const bf16*)x, packed, num_rows, k, zero, out);
        else if (is_bf16)
            linear<GroupMath<bf16>::type, F>((const bf16*)x, packed, num_rows, k, zero, out);
        else if (int8_rows)
            linear<IntMath, F>((const float*)x, packed, num_rows, k, zero, out);
        else
            linear<GroupMath<float>::type, F>((const float*)x, packed, num_rows, k, zero, out);
    });
}

// Rows of the packed matrix as floats. Returns the number of ids outside [0, n).
LMC_EXPORT int64_t lmc_quantized_embed(const uint8_t* packed, int64_t n, int64_t k, int kind,
                                       const int32_t* token_ids, int64_t num_rows, float* out) {
    int64_t num_wrong = 0;
    visit_format(kind, [&]<class F>(F, int zero) {
        for (int64_t row = 0; row < num_rows; row++) {
            if (token_ids[row] < 0 || token_ids[row] >= n)
                num_wrong++;
            else
                unpack_row<F>(packed, token_ids[row], k, zero, out + row * k);
        }
    });
    return num_wrong;
}
