// How many threads a kernel uses. Work is always cut into the same pieces; threads only
// decide who computes a piece, so results do not depend on their number.
#pragma once

namespace lmc {

int num_threads();

}  // namespace lmc

#define LMC_EXPORT extern "C" __attribute__((visibility("default")))
