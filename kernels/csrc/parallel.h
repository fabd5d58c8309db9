// Splits work over threads. Work is always cut into the same pieces; threads only decide who
// computes a piece, so results do not depend on their number.
#pragma once

#include <cstdint>

#define LMC_EXPORT extern "C" __attribute__((visibility("default")))

namespace lmc {

int num_threads();

using Piece = void (*)(const void* body, int64_t piece);

void run_pieces(int64_t count, Piece piece, const void* body);

// Calls body(i) for each i in [0, count), in any order, on any thread; returns when all are done.
template <class Body> void parallel_for(int64_t count, const Body& body) {
    run_pieces(
        count, [](const void* b, int64_t i) { (*(const Body*)b)(i); }, &body);
}

}  // namespace lmc
