// Paged attention for rows of many sequences at once, many new rows or one each.
//
// The result of a row is defined by tiles of 64 absolute positions and spans of 8 tiles. Within a
// span the tiles are taken in ascending order into a running result (the streaming softmax of
// FlashAttention, Dao et al. 2022); the results of the spans are merged in ascending order. What a
// tile does to a row depends on the row's query and the visible positions alone, so neither the
// rows beside it, nor the cut of a prompt into chunks, nor the number of threads change a bit.
//
// A unit of work is some rows of one sequence, one key-value head and a range of spans. Where
// there are few units for the threads the spans of long ones are computed apart, and merged after.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "attention_tile.h"
#include "parallel.h"

namespace lmc {

constexpr int SPAN_TILES = 8;
constexpr int64_t MOST_QUERIES = 384;  // queries (rows times heads of a group) in a unit
constexpr int64_t LEAST_ROWS = 16;     // of a prompt's units: below, tiles are gathered too often
constexpr int UNITS_PER_THREAD = 4;    // wanted, so that no thread waits long for another

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
    int64_t num_rows;
    int64_t kv_head;
    int64_t first_span, end_span;
    float* results;            // where to keep the results of all spans; null: merge at once

    int64_t num_positions() const { return positions[num_rows - 1] + 1; }
    int64_t num_queries(const Shape& shape) const { return num_rows * shape.group(); }
    State result(const Shape& shape, int64_t span) const {
        const int64_t count = num_queries(shape), size = State::size(count, shape.padded_dim());
        return State(results + span * size, count, shape.padded_dim());
    }
    // Queries before it do not see a position.
    int64_t first_query(const Shape& shape, int64_t position) const {
        return (std::lower_bound(positions, positions + num_rows, position) - positions) *
               shape.group();
    }
};

template <class T> Scratch<T>& thread_scratch(const Shape& shape) {
    static thread_local Scratch<T> scratch;
    scratch.reserve(shape.padded_dim(), std::max(MOST_QUERIES, shape.group()));
    return scratch;
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
    for (int64_t i = 0; i < unit.num_queries(shape); i++) {
        const int64_t head = unit.kv_head * group + i % group;
        const int64_t row = unit.first_row + i / group;
        T* query = scratch.queries.data() + i * padded;
        std::copy_n(tensors.q + (row * shape.num_heads + head) * shape.head_dim, shape.head_dim,
                    query);
        std::fill(query + shape.head_dim, query + padded, T(0));
    }
}

// Divides by the sum of weights and writes the rows of a unit.
template <class T>
void write_out(const Shape& shape, const Tensors<T>& tensors, const Unit& unit,
               const State& state) {
    const int64_t group = shape.group(), padded = shape.padded_dim();
    const int64_t whole = shape.head_dim / LANES * LANES;
    for (int64_t i = 0; i < unit.num_queries(shape); i++) {
        const int64_t head = unit.kv_head * group + i % group;
        const int64_t row = unit.first_row + i / group;
        T* out = tensors.out + (row * shape.num_heads + head) * shape.head_dim;
        const float* acc = state.acc + i * padded;
        const float inverse = 1.f / state.total[i];
        for (int64_t d = 0; d < whole; d += LANES) store(out + d, load(acc + d) * splat(inverse));
        for (int64_t d = whole; d < shape.head_dim; d++) out[d] = from_float<T>(acc[d] * inverse);
    }
}

// Computes the result of a span; returns false when a slot is out of range.
template <class T, class Products>
bool run_span(Scratch<T>& scratch, Products& products, const Shape& shape,
              const Tensors<T>& tensors, const Unit& unit, int64_t span, const State& state) {
    const int64_t padded = shape.padded_dim(), num_queries = unit.num_queries(shape);
    const int64_t num_positions = unit.num_positions();
    const int64_t end = std::min((num_positions + TILE - 1) / TILE, (span + 1) * SPAN_TILES);
    state.clear(num_queries, padded);
    for (int64_t tile = span * SPAN_TILES; tile < end; tile++) {
        if (!gather_tile(scratch, shape, tensors, unit, tile, num_positions)) return false;
        if (tile + 1 < end) prefetch_tile(shape, tensors, unit, tile + 1, num_positions);
        const auto visible_of = [&](int64_t i) {
            return (int)std::min<int64_t>(TILE,
                                          unit.positions[i / shape.group()] + 1 - tile * TILE);
        };
        attend_tile(scratch, products, padded, shape.scale, unit.first_query(shape, tile * TILE),
                    num_queries, visible_of, state);
    }
    return true;
}

// Merges the next span of a unit.
inline void merge_span(const Shape& shape, const Unit& unit, int64_t span, const State& merged,
                       const State& next) {
    const int64_t first = unit.first_query(shape, span * SPAN_TILES * TILE);
    for (int64_t i = first; i < unit.num_queries(shape); i++)
        merge(merged, next, i, shape.padded_dim());
}

// Runs a unit; returns false when a slot is out of range.
template <class T, class Products>
bool run_unit(Products&& products, const Shape& shape, const Tensors<T>& tensors,
              const Unit& unit) {
    Scratch<T>& scratch = thread_scratch<T>(shape);
    const int64_t padded = shape.padded_dim(), num_queries = unit.num_queries(shape);
    const State state(scratch.span.data(), num_queries, padded);
    const State merged(scratch.merged.data(), num_queries, padded);
    load_queries(scratch, shape, tensors, unit);
    merged.clear(num_queries, padded);
    for (int64_t span = unit.first_span; span < unit.end_span; span++) {
        const State& place = unit.results ? unit.result(shape, span) : state;
        if (!run_span(scratch, products, shape, tensors, unit, span, place)) return false;
        if (!unit.results) merge_span(shape, unit, span, merged, state);
    }
    if (!unit.results) write_out(shape, tensors, unit, merged);
    return true;
}

// Merges the results of a unit's spans in order, and writes its rows.
template <class T>
void finish_split(const Shape& shape, const Tensors<T>& tensors, const Unit& unit) {
    Scratch<T>& scratch = thread_scratch<T>(shape);
    const State merged(scratch.merged.data(), unit.num_queries(shape), shape.padded_dim());
    merged.clear(unit.num_queries(shape), shape.padded_dim());
    for (int64_t span = 0; span < unit.end_span; span++)
        merge_span(shape, unit, span, merged, unit.result(shape, span));
    write_out(shape, tensors, unit, merged);
}

struct Batch {
    const int32_t* positions;
    const int32_t* seq_starts;
    const int32_t* table_rows;
    const int32_t* page_table;
    int64_t num_seqs, table_stride, num_table_rows;
};

// Whether every row has a page-table row and a position in it, and positions ascend.
bool is_in_range(const Batch& batch) {
    for (int64_t s = 0; s < batch.num_seqs; s++) {
        const int64_t begin = batch.seq_starts[s], end = batch.seq_starts[s + 1];
        if (batch.table_rows[s] < 0 || batch.table_rows[s] >= batch.num_table_rows) return false;
        for (int64_t row = begin; row < end; row++) {
            const bool ascends = row == begin || batch.positions[row] > batch.positions[row - 1];
            if (batch.positions[row] < 0 || batch.positions[row] >= batch.table_stride || !ascends)
                return false;
        }
    }
    return true;
}

// Cuts the batch into rows of one sequence and one key-value head, over all their spans.
std::vector<Unit> cut(const Batch& batch, const Shape& shape) {
    std::vector<Unit> units;
    const int64_t num_rows = batch.seq_starts[batch.num_seqs];
    const int64_t share = num_rows * shape.num_kv_heads / (UNITS_PER_THREAD * num_threads());
    const int64_t fit = std::max<int64_t>(1, MOST_QUERIES / shape.group());
    const int64_t most = std::min(fit, std::max(LEAST_ROWS, share));
    for (int64_t s = 0; s < batch.num_seqs; s++) {
        const int32_t* table = batch.page_table + batch.table_rows[s] * batch.table_stride;
        const int64_t end = batch.seq_starts[s + 1];
        for (int64_t row = batch.seq_starts[s]; row < end; row += most) {
            const int64_t count = std::min(most, end - row);
            const int64_t last_span = batch.positions[row + count - 1] / TILE / SPAN_TILES;
            for (int64_t head = 0; head < shape.num_kv_heads; head++)
                units.push_back({table, batch.positions + row, row, count, head, 0, last_span + 1,
                                 nullptr});
        }
    }
    return units;
}

// Where there are few units for the threads, cuts those of several spans into spans. Returns
// them; `results` gets the memory for their results.
std::vector<Unit> split(const Shape& shape, std::vector<Unit>& units, AlignedVector<float>& results) {
    std::vector<Unit> whole, pieces;
    const int64_t wanted = UNITS_PER_THREAD * num_threads();
    if (num_threads() == 1 || (int64_t)units.size() >= wanted) return whole;
    int64_t size = 0;
    const auto size_of = [&](const Unit& unit) {
        return unit.end_span * State::size(unit.num_queries(shape), shape.padded_dim());
    };
    for (const Unit& unit : units) size += unit.end_span > 1 ? size_of(unit) : 0;
    results.resize(size);
    float* next = results.data();
    for (Unit unit : units) {
        if (unit.end_span > 1) {
            unit.results = next;
            next += size_of(unit);
            whole.push_back(unit);
        }
        for (int64_t span = 0; span < unit.end_span; span++) {
            Unit piece = unit;
            piece.first_span = span;
            piece.end_span = span + 1;
            pieces.push_back(piece);
        }
    }
    units.swap(pieces);
    return whole;
}

template <class T>
bool run_any(const Shape& shape, const Tensors<T>& tensors, const Unit& unit) {
#if LMC_AMX
    if constexpr (std::is_same_v<T, bf16>)
        if (use_amx()) return run_unit(TileProducts(), shape, tensors, unit);
#endif
    return run_unit(VectorProducts<T>(), shape, tensors, unit);
}

// Returns 0, or 1 when positions, table rows or slots are out of range.
template <class T> int attention(const Batch& batch, const Shape& shape, const Tensors<T>& tensors) {
    if (!is_in_range(batch)) return 1;
    std::vector<Unit> units = cut(batch, shape);
    AlignedVector<float> results;
    const std::vector<Unit> whole = split(shape, units, results);
    // Late rows see the most positions: the longest units go first.
    const auto work = [](const Unit& unit) {
        return unit.num_rows * (unit.num_positions() - unit.first_span * SPAN_TILES * TILE);
    };
    std::stable_sort(units.begin(), units.end(),
                     [&](const Unit& a, const Unit& b) { return work(a) > work(b); });
    std::atomic<int> num_wrong{0};
    parallel_for((int64_t)units.size(), [&](int64_t i) {
        if (!run_any(shape, tensors, units[i])) num_wrong++;
    });
    parallel_for((int64_t)whole.size(),
                 [&](int64_t i) { finish_split(shape, tensors, whole[i]); });
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
