// Reads memory as fast as all threads can: what decode speed is measured against.
#include <atomic>
#include <cstdint>

#include "parallel.h"

namespace lmc {

typedef uint64_t Line __attribute__((vector_size(64)));

constexpr int64_t PIECE = 1 << 14;  // lines that a thread takes at a time: 1 MiB
constexpr int64_t AHEAD = 128;      // lines to fetch ahead

uint64_t sum_lines(const Line* lines, int64_t count) {
    Line sums[8] = {};
    for (int64_t i = 0; i + 8 <= count; i += 8)
        for (int j = 0; j < 8; j++) {
            __builtin_prefetch(lines + i + j + AHEAD);
            sums[j] += lines[i + j];
        }
    uint64_t total = 0;
    for (int j = 0; j < 8; j++)
        for (int lane = 0; lane < 8; lane++) total += sums[j][lane];
    return total;
}

}  // namespace lmc

using namespace lmc;

// Sum of the words of `count` lines of 64 bytes; `count` is a multiple of 8.
LMC_EXPORT uint64_t lmc_read_sum(const void* memory, int64_t count) {
    const Line* lines = (const Line*)memory;
    std::atomic<uint64_t> total{0};
    parallel_for((count + PIECE - 1) / PIECE, [&](int64_t piece) {
        const int64_t begin = piece * PIECE;
        total += sum_lines(lines + begin, count - begin < PIECE ? count - begin : PIECE);
    });
    return total;
}
