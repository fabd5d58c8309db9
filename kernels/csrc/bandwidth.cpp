// Reads memory as fast as all threads can: what decode speed is measured against.
#include <cstdint>

#include "parallel.h"

namespace lmc {

typedef uint64_t Words __attribute__((vector_size(64)));

}  // namespace lmc

using namespace lmc;

// Sum of `count` 64-byte lines, lane by lane folded; the sum keeps the reads alive.
LMC_EXPORT uint64_t lmc_read_sum(const void* memory, int64_t count) {
    const Words* lines = (const Words*)memory;
    uint64_t total = 0;
#pragma omp parallel for num_threads(num_threads()) schedule(static) reduction(+ : total)
    for (int64_t part = 0; part < num_threads(); part++) {
        const int64_t begin = count * part / num_threads();
        const int64_t end = count * (part + 1) / num_threads();
        Words sums[4] = {};
        for (int64_t i = begin; i + 4 <= end; i += 4)
            for (int j = 0; j < 4; j++) {
                sums[j] += lines[i + j];
                __builtin_prefetch((const char*)(lines + i + j) + 4096);
            }
        const Words sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        for (int j = 0; j < 8; j++) total += sum[j];
    }
    return total;
}
