// Paged attention for rows of many sequences at once, many new rows or one each.
//
// The result of a row is defined by tiles of 64 absolute positions: each tile gives a partial
// (largest score, sum of weights, weighted sum of values), and partials are merged in ascending
// order of tiles (the streaming softmax of FlashAttention, Dao et al. 2022). A tile's partial
// depends on the row's query and the visible positions of the tile alone, so neither the rows
// beside it, nor the cut of a prompt into chunks, nor the number of threads change a bit.
//
// A unit of work is some rows of one sequence, one key-value head and a range of tiles. A long
// sequence with few rows is cut into several units, whose partials are kept and merged after.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "aligned.h"
#include "multiply.h"
#include "parallel.h"
#include "tile.h"

namespace lmc {

constexpr int TILE_VECS = TILE / LANES;
constexpr int QUERIES = 96;                // queries (rows times heads of a group) in a unit
constexpr int SPLIT_TILES = 8;             // least tiles worth a unit of their own
constexpr float LOWEST = -std::numeric_limits<float>::infinity();

struct Shape {
    int64_t num_heads, num_kv_heads, head_dim, num_slots;
    float scale;  // on scores, times log2(e)
    int64_t group() const { return num_heads / num_kv_heads; }
    int64_t padded_dim() const { return (head_dim + 31) / 32 * 32; }
};

template <class T> struct Tensors {
    const T* q;
    const T* keys;
    const T* values;
    T* out;
};

struct Unit {
    const int32_t* table;      // slot of each position of the sequence
    const int32_t* positions;  // of the rows, ascending
    int64_t first_row;         // in the batch
    int num_rows;
    int64_t kv_head;
    int64_t first_tile, end_tile;
    float* partials;           // where to keep each tile's partials; null: merge at once
};

// Running result of the queries of a unit: acc[i][padded_dim], largest[i], total[i].
struct State {
    float* acc;
    float* largest;
    float* total;
};

// Memory of one thread, aligned so that a vector never crosses a cache line.
template <class T> struct Scratch {
    AlignedVector<T> queries, key_tile, value_tile, weights, zero_row;
    AlignedVector<float> scores, partial, merged;

    void reserve(int64_t padded_dim) {
        queries.resize(QUERIES * padded_dim);
        key_tile.resize(TILE * padded_dim);
        value_tile.resize(TILE * padded_dim);
        weights.resize(QUERIES * TILE);
        zero_row.assign(padded_dim, T(0));
        scores.resize(QUERIES * TILE);
        partial.resize(QUERIES * (padded_dim + 2));
        merged.resize(QUERIES * (padded_dim + 2));
    }
};

template <class T> Scratch<T>& thread_scratch(const Shape& shape) {
    static thread_local Scratch<T> scratch;
    scratch.reserve(shape.padded_dim());
    return scratch;
}

inline State state_at(float* memory, int64_t num_queries, int64_t padded_dim) {
    return {memory, memory + num_queries * padded_dim, memory + num_queries * (padded_dim + 1)};
}

// Adds the partial of the next tile to a running result.
inline void merge(const State& state, const State& partial, int64_t i, int64_t padded_dim) {
    const float largest = std::max(state.largest[i], partial.largest[i]);
    const float keep = state.largest[i] == LOWEST ? 0.f : exp2(splat(state.largest[i] - largest))[0];
    const float add = exp2(splat(partial.largest[i] - largest))[0];
    state.largest[i] = largest;
    state.total[i] = state.total[i] * keep + partial.total[i] * add;
    float* acc = state.acc + i * padded_dim;
    const float* more = partial.acc + i * padded_dim;
    for (int64_t d = 0; d < padded_dim; d += LANES)
        store(acc + d, fma(load(acc + d), splat(keep), load(more + d) * splat(add)));
}

// out[count][width] = a[count][num_units] times b[num_units][width], in floats.
template <class Math, int VECS>
void multiply_columns(const typename Math::Unit* a, int64_t a_stride,
                      const typename Math::Unit* b, int64_t b_stride, int64_t num_units,
                      int64_t count, float* out, int64_t out_stride) {
    constexpr int MOST = max_rows(VECS);
    for (int64_t first = 0; first < count; first += MOST)
        visit<MOST>((int)std::min<int64_t>(MOST, count - first), [&]<int ROWS>() {
            Vec sums[ROWS][VECS] = {};
            multiply<Math, ROWS, VECS, 0>(a + first * a_stride, a_stride, b, b_stride, num_units,
                                          sums);
            for (int r = 0; r < ROWS; r++)
                for (int v = 0; v < VECS; v++)
                    store(out + (first + r) * out_stride + v * LANES, sums[r][v]);
        });
}

template <class Math>
void multiply_tile(const typename Math::Unit* a, int64_t a_stride, const typename Math::Unit* b,
                   int64_t width, int64_t num_units, int64_t count, float* out) {
    constexpr int WIDE = 4;  // vectors whose sums fit the registers beside a few rows
    int64_t column = 0;
    for (; column + WIDE * LANES <= width; column += WIDE * LANES)
        multiply_columns<Math, WIDE>(a, a_stride, b + column, width, num_units, count,
                                     out + column, width);
    for (; column < width; column += LANES)
        multiply_columns<Math, 1>(a, a_stride, b + column, width, num_units, count, out + column,
                                  width);
}

// Turns the scores of one query into weights 2^(score - largest); positions from `num_visible`
// on get weight zero. Returns the largest score and the sum of weights.
template <class T>
void softmax_tile(const float* scores, float scale, int num_visible, T* weights, float* largest,
                  float* total) {
    Vec x[TILE_VECS];
    Vec most = splat(LOWEST);
    for (int v = 0; v < TILE_VECS; v++) {
        const IntVec visible = lane_numbers() < splat_int(num_visible - v * LANES);
        x[v] = visible ? load(scores + v * LANES) * splat(scale) : splat(LOWEST);
        most = vmax(most, x[v]);
    }
    *largest = max_lanes(most);
    Vec sum = {};
    for (int v = 0; v < TILE_VECS; v++) {
        const IntVec visible = lane_numbers() < splat_int(num_visible - v * LANES);
        x[v] = visible ? exp2(x[v] - splat(*largest)) : splat(0.f);
        sum += x[v];
        store(weights + v * LANES, x[v]);
    }
    *total = sum_lanes(sum);
}

// Computes the partials of one tile for queries [first, num_queries) of a unit.
template <class T>
void attend_tile(Scratch<T>& scratch, const Shape& shape, const Unit& unit, int64_t first,
                 int64_t num_queries, int64_t tile, const State& partial) {
    using Math = typename MathOf<T>::type;
    using MathUnit = typename Math::Unit;
    const int64_t padded = shape.padded_dim(), count = num_queries - first;
    const int64_t query_units = padded / Math::DEPTH;
    multiply_tile<Math>((const MathUnit*)scratch.queries.data() + first * query_units,
                        query_units, (const MathUnit*)scratch.key_tile.data(), TILE, query_units,
                        count, scratch.scores.data() + first * TILE);
    for (int64_t i = first; i < num_queries; i++) {
        const int64_t visible = unit.positions[i / shape.group()] + 1 - tile * TILE;
        softmax_tile(scratch.scores.data() + i * TILE, shape.scale,
                     (int)std::min<int64_t>(TILE, visible), scratch.weights.data() + i * TILE,
                     partial.largest + i, partial.total + i);
    }
    constexpr int64_t weight_units = TILE / Math::DEPTH;
    multiply_tile<Math>((const MathUnit*)scratch.weights.data() + first * weight_units,
                        weight_units, (const MathUnit*)scratch.value_tile.data(), padded,
                        weight_units, count, partial.acc + first * padded);
}

// Asks for the keys and values of a tile that comes next: its slots lie scattered in memory.
template <class T>
void prefetch_tile(const Shape& shape, const Tensors<T>& tensors, const Unit& unit, int64_t tile,
                   int64_t num_positions) {
    const int64_t end = std::min(num_positions, (tile + 1) * TILE);
    const int64_t row_bytes = shape.head_dim * (int64_t)sizeof(T);
    for (int64_t position = tile * TILE; position < end; position++) {
        const int64_t slot = unit.table[position];
        const int64_t at = (slot * shape.num_kv_heads + unit.kv_head) * shape.head_dim;
        for (int64_t byte = 0; byte < row_bytes; byte += 64) {
            __builtin_prefetch((const char*)(tensors.keys + at) + byte);
            __builtin_prefetch((const char*)(tensors.values + at) + byte);
        }
    }
}

// Fills the tile's keys and values; returns false when a slot is out of range.
template <class T>
bool gather_tile(Scratch<T>& scratch, const Shape& shape, const Tensors<T>& tensors,
                 const Unit& unit, int64_t tile, int64_t num_positions) {
    const T* key_rows[TILE];
    const T* value_rows[TILE];
    for (int64_t i = 0; i < TILE; i++) {
        const int64_t position = tile * TILE + i;
        key_rows[i] = value_rows[i] = scratch.zero_row.data();
        if (position >= num_positions) continue;
        const int64_t slot = unit.table[position];
        if (slot < 0 || slot >= shape.num_slots) return false;
        const int64_t at = (slot * shape.num_kv_heads + unit.kv_head) * shape.head_dim;
        key_rows[i] = tensors.keys + at;
        value_rows[i] = tensors.values + at;
    }
    gather_keys<T>(key_rows, shape.head_dim, shape.padded_dim(), scratch.key_tile.data());
    gather_values<T>(value_rows, shape.head_dim, shape.padded_dim(), scratch.value_tile.data());
    return true;
}

template <class T>
void load_queries(Scratch<T>& scratch, const Shape& shape, const Tensors<T>& tensors,
                  const Unit& unit) {
    const int64_t group = shape.group(), padded = shape.padded_dim();
    std::fill(scratch.queries.begin(), scratch.queries.end(), T(0));
    for (int64_t i = 0; i < unit.num_rows * group; i++) {
        const int64_t head = unit.kv_head * group + i % group;
        const int64_t row = unit.first_row + i / group;
        std::copy_n(tensors.q + (row * shape.num_heads + head) * shape.head_dim, shape.head_dim,
                    scratch.queries.data() + i * padded);
    }
}

// Divides by the sum of weights and writes the rows of a unit.
template <class T>
void write_out(const Shape& shape, const Tensors<T>& tensors, const Unit& unit,
               const State& state) {
    const int64_t group = shape.group(), padded = shape.padded_dim();
    for (int64_t i = 0; i < unit.num_rows * group; i++) {
        const int64_t head = unit.kv_head * group + i % group;
        const int64_t row = unit.first_row + i / group;
        T* out = tensors.out + (row * shape.num_heads + head) * shape.head_dim;
        const float inverse = 1.f / state.total[i];
        for (int64_t d = 0; d < shape.head_dim; d++)
            out[d] = from_float<T>(state.acc[i * padded + d] * inverse);
    }
}

inline void clear(const State& state, int64_t num_queries, int64_t padded_dim) {
    std::fill_n(state.acc, num_queries * padded_dim, 0.f);
    std::fill_n(state.largest, num_queries, LOWEST);
    std::fill_n(state.total, num_queries, 0.f);
}

// Runs a unit; returns false when a slot is out of range.
template <class T>
bool run_unit(Scratch<T>& scratch, const Shape& shape, const Tensors<T>& tensors,
              const Unit& unit) {
    const int64_t padded = shape.padded_dim(), num_queries = unit.num_rows * shape.group();
    const int64_t num_positions = unit.positions[unit.num_rows - 1] + 1;
    const State merged = state_at(scratch.merged.data(), num_queries, padded);
    load_queries(scratch, shape, tensors, unit);
    clear(merged, num_queries, padded);
    float* kept = unit.partials;
    int64_t first = 0;  // queries before it do not see the tile
    for (int64_t tile = unit.first_tile; tile < unit.end_tile; tile++) {
        if (!gather_tile(scratch, shape, tensors, unit, tile, num_positions)) return false;
        if (tile + 1 < unit.end_tile)
            prefetch_tile(shape, tensors, unit, tile + 1, num_positions);
        while (unit.positions[first / shape.group()] < tile * TILE) first += shape.group();
        const State partial = state_at(kept ? kept : scratch.partial.data(), num_queries, padded);
        attend_tile(scratch, shape, unit, first, num_queries, tile, partial);
        if (kept)
            kept += num_queries * (padded + 2);
        else
            for (int64_t i = first; i < num_queries; i++) merge(merged, partial, i, padded);
    }
    if (!unit.partials) write_out(shape, tensors, unit, merged);
    return true;
}

// Merges the kept partials of a one-row unit in order, and writes the row.
template <class T>
void finish_split(Scratch<T>& scratch, const Shape& shape, const Tensors<T>& tensors,
                  const Unit& unit) {
    const int64_t padded = shape.padded_dim(), num_queries = unit.num_rows * shape.group();
    const State merged = state_at(scratch.merged.data(), num_queries, padded);
    clear(merged, num_queries, padded);
    for (int64_t tile = 0; tile < unit.end_tile; tile++) {
        const State partial = state_at(unit.partials + tile * num_queries * (padded + 2),
                                       num_queries, padded);
        for (int64_t i = 0; i < num_queries; i++) merge(merged, partial, i, padded);
    }
    write_out(shape, tensors, unit, merged);
}

struct Batch {
    const int32_t* positions;
    const int32_t* seq_starts;
    const int32_t* table_rows;
    const int32_t* page_table;
    int64_t num_seqs, table_stride, num_table_rows;
};

// Cuts the batch into rows of one sequence and one key-value head, over all their tiles.
// Returns false when a row has no page-table row or a position beyond it.
bool cut(const Batch& batch, const Shape& shape, std::vector<Unit>& units) {
    const int64_t most = std::max<int64_t>(1, QUERIES / shape.group());
    for (int64_t s = 0; s < batch.num_seqs; s++) {
        const int64_t begin = batch.seq_starts[s], end = batch.seq_starts[s + 1];
        if (batch.table_rows[s] < 0 || batch.table_rows[s] >= batch.num_table_rows) return false;
        const int32_t* table = batch.page_table + batch.table_rows[s] * batch.table_stride;
        for (int64_t row = begin; row < end; row++) {
            const bool ascends = row == begin || batch.positions[row] > batch.positions[row - 1];
            if (batch.positions[row] < 0 || batch.positions[row] >= batch.table_stride || !ascends)
                return false;
        }
        for (int64_t row = begin; row < end; row += most) {
            const int num_rows = (int)std::min(most, end - row);
            const int64_t last = batch.positions[row + num_rows - 1];
            for (int64_t head = 0; head < shape.num_kv_heads; head++)
                units.push_back({table, batch.positions + row, row, num_rows, head, 0,
                                 last / TILE + 1, nullptr});
        }
    }
    return true;
}

// Where there are few units for the threads, cuts the long ones of a single row into ranges of
// tiles. `whole` gets those units, with the place of their partials.
void split(const Shape& shape, std::vector<Unit>& units, std::vector<Unit>& whole,
           std::vector<float>& partials) {
    const int64_t wanted = 4 * num_threads();
    if (num_threads() == 1 || (int64_t)units.size() >= wanted) return;
    const int64_t size = shape.group() * (shape.padded_dim() + 2);
    std::vector<Unit> pieces;
    int64_t num_tiles = 0;
    for (const Unit& unit : units) num_tiles += unit.num_rows == 1 ? unit.end_tile : 0;
    partials.resize(num_tiles * size);
    const int64_t length = std::max<int64_t>(SPLIT_TILES, num_tiles / wanted + 1);
    float* next = partials.data();
    for (Unit unit : units) {
        if (unit.num_rows > 1 || unit.end_tile <= length) {
            pieces.push_back(unit);
            continue;
        }
        unit.partials = next;
        whole.push_back(unit);
        for (int64_t tile = 0; tile < unit.end_tile; tile += length) {
            Unit piece = unit;
            piece.first_tile = tile;
            piece.end_tile = std::min(unit.end_tile, tile + length);
            piece.partials = next + tile * size;
            pieces.push_back(piece);
        }
        next += unit.end_tile * size;
    }
    units.swap(pieces);
}

// Returns 0, or 1 when positions, table rows or slots are out of range.
template <class T> int attention(const Batch& batch, const Shape& shape, const Tensors<T>& tensors) {
    std::vector<Unit> units, whole;
    std::vector<float> partials;
    if (!cut(batch, shape, units)) return 1;
    split(shape, units, whole, partials);
    // Late tiles see the most positions: the longest units go first.
    std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) {
        return a.num_rows * (a.end_tile - a.first_tile) > b.num_rows * (b.end_tile - b.first_tile);
    });
    std::atomic<int> num_wrong{0};
    parallel_for((int64_t)units.size(), [&](int64_t i) {
        if (!run_unit(thread_scratch<T>(shape), shape, tensors, units[i])) num_wrong++;
    });
    parallel_for((int64_t)whole.size(), [&](int64_t i) {
        finish_split(thread_scratch<T>(shape), shape, tensors, whole[i]);
    });
    return num_wrong > 0;
}

}  // namespace lmc

using namespace lmc;

LMC_EXPORT int lmc_attention(const void* q, const void* keys, const void* values,
                             const int32_t* positions, const int32_t* seq_starts,
                             const int32_t* table_rows, const int32_t* page_table,
                             int64_t num_seqs, int64_t table_stride, int64_t num_table_rows,
                             int64_t num_heads, int64_t num_kv_heads, int64_t head_dim,
                             int64_t num_slots, void* out, int is_bf16) {
    const Batch batch{positions, seq_starts,   table_rows,    page_table,
                      num_seqs,  table_stride, num_table_rows};
    const Shape shape{num_heads, num_kv_heads, head_dim, num_slots,
                      LOG2E / std::sqrt((float)head_dim)};
    if (is_bf16)
        return attention<bf16>(batch, shape,
                               {(const bf16*)q, (const bf16*)keys, (const bf16*)values, (bf16*)out});
    return attention<float>(batch, shape, {(const float*)q, (const float*)keys,
                                           (const float*)values, (float*)out});
}
