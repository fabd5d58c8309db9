// Quantized weights: what a group of 32 inputs is in a GGUF file, and how groups are packed.
//
// A weight is d (u - z) + m: an unsigned number u of 4 or 8 bits, the group's scale d and,
// in some kinds, its least value m, both in half precision, and a constant z of the kind. A
// packed matrix is cut into blocks of 32 outputs (outputs.h) and these into groups of 32
// inputs, which follow each other: first words of 32 bits, each with 4 or 8 neighbouring
// inputs of one output, the 32 outputs side by side; then the scales of the outputs, then m.
#pragma once

#include "outputs.h"

namespace lmc {

constexpr int GROUP = 32;  // inputs that share a scale

// Kinds of quantized weights, by ggml's numbers.
enum Kind : int { Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8 };

template <int BITS_, bool HAS_MIN_> struct Format {
    static constexpr int BITS = BITS_;
    static constexpr bool HAS_MIN = HAS_MIN_;
    static constexpr int IN_WORD = 32 / BITS;  // inputs
    static constexpr int WORDS = GROUP / IN_WORD;
    static constexpr int SCALES = WORDS * BLOCK * 4;  // where they begin, in bytes
    static constexpr int MINS = SCALES + BLOCK * 2;
    static constexpr int64_t BYTES = MINS + (HAS_MIN ? BLOCK * 2 : 0);

    // Where input k of a word lies in it: inputs 0 to 3 in the low bits of the four bytes.
    static constexpr int shift(int k) { return 8 * (k % 4) + k / 4 * BITS; }
};

// Calls `body` with the format of a kind and its z.
template <class Body> inline void visit_format(int kind, Body&& body) {
    if (kind == Q4_0)
        body(Format<4, false>(), 8);
    else if (kind == Q4_1)
        body(Format<4, true>(), 0);
    else if (kind == Q5_0)
        body(Format<8, false>(), 16);
    else if (kind == Q5_1)
        body(Format<8, true>(), 0);
    else
        body(Format<8, false>(), 128);
}

// Numbers of a group, as a file has it.
struct RawGroup {
    uint8_t u[GROUP];
    uint16_t scale, least;  // half precision
};

// Bytes of a group in a file.
inline int64_t raw_bytes(int kind) {
    return kind == Q4_0 ? 18 : kind == Q4_1 ? 20 : kind == Q5_0 ? 22 : kind == Q5_1 ? 24 : 34;
}

// Reads a group: scale, least value, a fifth bit of each number, numbers. Of two numbers in a
// byte the low one belongs to the first half of the group.
inline RawGroup read_group(int kind, const uint8_t* raw) {
    RawGroup group = {};
    std::memcpy(&group.scale, raw, 2);
    raw += 2;
    if (kind == Q8_0) {
        for (int k = 0; k < GROUP; k++) group.u[k] = raw[k] ^ 0x80;
        return group;
    }
    if (kind == Q4_1 || kind == Q5_1) {
        std::memcpy(&group.least, raw, 2);
        raw += 2;
    }
    uint32_t fifth = 0;
    if (kind == Q5_0 || kind == Q5_1) {
        std::memcpy(&fifth, raw, 4);
        raw += 4;
    }
    for (int k = 0; k < GROUP / 2; k++) {
        group.u[k] = raw[k] & 15;
        group.u[k + GROUP / 2] = raw[k] >> 4;
    }
    if (fifth)
        for (int k = 0; k < GROUP; k++) group.u[k] |= (uint8_t)((fifth >> k & 1) << 4);
    return group;
}

// Half precision to float, exactly.
inline Vec load_halves(const uint16_t* p) {
#if defined(__AVX512F__)
    return (Vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
    return (Vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
#else
    HalfVec half;
    std::memcpy(&half, p, sizeof half);
    const UintVec bits = __builtin_convertvector(half, UintVec);
    const UintVec value = (UintVec)((Vec)((bits & 0x7fffu) << 13) * splat(0x1p112f));
    const UintVec is_special = (UintVec)((bits & 0x7c00u) == 0x7c00u);  // infinite or NaN
    return (Vec)(value | (is_special & 0x7f800000u) | (bits & 0x8000u) << 16);
#endif
}

inline float half_to_float(uint16_t half) {
    alignas(64) uint16_t lanes[LANES] = {half};
    return load_halves(lanes)[0];
}

}  // namespace lmc
