// Products in tile registers (AMX): up to 32 rows times 32 columns of bf16, summed in float.
//
// A step multiplies 32 values of k. An output of a step is the sum of its even products and of
// its odd ones, each in ascending order, added to what came before. So it depends on its own row
// and column alone, whatever the number of rows, as everywhere (multiply.h). Denormals count as
// zero. The registers have to be asked for: see `use_amx`.
#pragma once

#include "simd.h"

#if LMC_NATIVE_BF16 && defined(__AMX_TILE__) && defined(__AMX_BF16__) && !defined(LMC_NO_AMX)
#define LMC_AMX 1
#else
#define LMC_AMX 0
#endif

namespace lmc {

// Whether this process may use tile registers; the system is asked once.
bool use_amx();

#if LMC_AMX

constexpr int TILE_ROWS = 16;
constexpr int TILE_COLUMNS = 16;
constexpr int TILE_DEPTH = 32;  // bf16 values of k in a step
constexpr int TILE_BYTES = 64;  // of a register's row

// The tile registers of a thread while this object lives. Registers 0 and 1 hold sums of the
// upper rows, 2 and 3 of the lower ones; 4 and 5 rows, 6 and 7 columns.
class Tiles {
  public:
    Tiles() = default;
    Tiles(const Tiles&) = delete;
    ~Tiles() {
        if (upper_) _tile_release();
    }

    // Gives the registers the size for so many rows: 1 to 16, and beside 16 also 0 to 16.
    void set_rows(int upper, int lower) {
        if (upper == upper_ && lower == lower_) return;
        alignas(64) Shape shape;
        for (int tile = 0; tile < 8; tile++) {
            shape.row_bytes[tile] = TILE_BYTES;
            shape.rows[tile] = tile >= 6 ? TILE_ROWS : is_lower(tile) ? lower : upper;
            if (!shape.rows[tile]) shape.row_bytes[tile] = 0;
        }
        asm volatile("" ::: "memory");
        _tile_loadconfig(&shape);
        upper_ = upper, lower_ = lower;
    }

  private:
    struct Shape {  // as the processor reads it
        uint8_t palette = 1, start_row = 0, reserved[14] = {};
        uint16_t row_bytes[16] = {};
        uint8_t rows[16] = {};
    };
    static bool is_lower(int tile) { return tile == 2 || tile == 3 || tile == 5; }
    int upper_ = 0, lower_ = 0;
};

// Rows in row-major order, and columns as units: pairs of k, for each of which the columns lie
// side by side; sums in row-major order. Strides are in bytes.
struct TileRows {
    const bf16* data;
    int64_t stride;
};
struct TileColumns {
    const void* data;
    int64_t stride;
};

struct TileSums {
    float* data;
    int64_t stride;
};

// sums[32][32] = (ADD: +=) rows times columns. LOWER: whether there are more than 16 rows; AHEAD:
// bytes of columns to fetch ahead.
template <bool LOWER, bool ADD = false, int AHEAD = 0>
inline void multiply_tiles(const TileRows& rows, const TileColumns& columns, int64_t num_steps,
                           const TileSums& sums) {
    char* upper = (char*)sums.data;
    char* lower = upper + TILE_ROWS * sums.stride;
    asm volatile("" ::: "memory");  // what was written before lies in memory
    if constexpr (ADD) {
        _tile_loadd(0, upper, sums.stride);
        _tile_loadd(1, upper + TILE_BYTES, sums.stride);
        if constexpr (LOWER) {
            _tile_loadd(2, lower, sums.stride);
            _tile_loadd(3, lower + TILE_BYTES, sums.stride);
        }
    } else {
        _tile_zero(0);
        _tile_zero(1);
        if constexpr (LOWER) {
            _tile_zero(2);
            _tile_zero(3);
        }
    }
    const char* row = (const char*)rows.data;
    const char* column = (const char*)columns.data;
    for (int64_t step = 0; step < num_steps; step++) {
        if constexpr (AHEAD > 0)
            for (int i = 0; i < TILE_ROWS; i++) {
                __builtin_prefetch(column + AHEAD + i * columns.stride);
                __builtin_prefetch(column + AHEAD + i * columns.stride + TILE_BYTES);
            }
        _tile_loadd(4, row, rows.stride);
        _tile_loadd(6, column, columns.stride);
        _tile_loadd(7, column + TILE_BYTES, columns.stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if constexpr (LOWER) {
            _tile_loadd(5, row + TILE_ROWS * rows.stride, rows.stride);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        row += TILE_BYTES;
        column += TILE_ROWS * columns.stride;
    }
    _tile_stored(0, upper, sums.stride);
    _tile_stored(1, upper + TILE_BYTES, sums.stride);
    if constexpr (LOWER) {
        _tile_stored(2, lower, sums.stride);
        _tile_stored(3, lower + TILE_BYTES, sums.stride);
    }
    asm volatile("" ::: "memory");
}

#endif

}  // namespace lmc
