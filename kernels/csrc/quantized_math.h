// Products of a few rows with quantized weights. Which arithmetic is taken follows from what
// the rows are rounded to:
//
//   IntMath       rows are rounded to int8, in groups of 32 with a scale of their own. Products
//                 within a group are integers, exact in any order and on any processor.
//   PairMath      rows are bf16, of which the processor multiplies pairs. The numbers of a
//                 weight are exact in bf16.
//   FloatMath<T>  rows are float, or bf16 on other processors.
//
// In each, an output is one chain over the groups in ascending order, each of which is summed
// from zero, scaled and added; so it depends on its own row and column alone.
#pragma once

#include "aligned.h"
#include "multiply.h"
#include "quantized.h"

namespace lmc {

template <class T> inline T read_as(const void* p) {
    T value;
    std::memcpy(&value, p, sizeof value);
    return value;
}

// Rows that are made ready to be multiplied; every array has `num_rows` rows.
struct Inputs {
    int64_t num_groups = 0;
    int64_t row_bytes = 0;
    AlignedVector<uint8_t> units;   // [row_bytes], padded with zeros to whole groups
    AlignedVector<float> scales;    // [num_groups], of int8
    AlignedVector<float> sums;      // [num_groups], of the values
    AlignedVector<int32_t> starts;  // [num_groups], of int8: minus z times the sum of integers
};

// sum + a b, of pairs of int16 in each lane.
inline IntVec add_pairs(IntVec sum, IntVec a, IntVec b) {
#if defined(__AVX512BW__)
    return sum + (IntVec)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__) && defined(__FMA__)
    return sum + (IntVec)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
    return sum + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}

#if defined(__AVX512VNNI__) && defined(__AVX512F__) && !defined(LMC_NO_NATIVE_BF16)
#define LMC_NATIVE_INT8 1
#else
#define LMC_NATIVE_INT8 0
#endif

struct IntMath {
    using Sum = IntVec;
    static constexpr int UNIT = 4;  // inputs in a step
    static constexpr int ELEMENT_BYTES = 1;
    static constexpr bool IS_INT = true;

    template <class F> struct Decoder {
        explicit Decoder(int) {}
        UintVec operator()(UintVec raw, int step) const {
            return F::BITS == 8 ? raw : (step ? raw >> 4 : raw) & 0x0f0f0f0fu;
        }
    };
#if LMC_NATIVE_INT8
    static inline __m512i unit(const uint8_t* p) { return _mm512_set1_epi32(read_as<int>(p)); }
    static inline Sum step(Sum sum, UintVec weights, __m512i row) {
        return (IntVec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)weights, row);
    }
#else
    struct Unit {
        IntVec even, odd;  // of the four bytes, as pairs of int16
    };
    static inline Unit unit(const uint8_t* p) {
        const IntVec all = splat_int(read_as<int32_t>(p));
        const IntVec first = (all << 24) >> 24, second = (all << 16) >> 24;
        const IntVec third = (all << 8) >> 24, fourth = all >> 24;
        return {(first & 0xffff) | third << 16, (second & 0xffff) | fourth << 16};
    }
    static inline Sum step(Sum sum, UintVec weights, Unit row) {
        sum = add_pairs(sum, (IntVec)(weights & 0x00ff00ffu), row.even);
        return add_pairs(sum, (IntVec)(weights >> 8 & 0x00ff00ffu), row.odd);
    }
#endif
    static inline Sum start(const Inputs& x, int64_t at) { return splat_int(x.starts[at]); }
    static inline Vec add(Vec sum, Sum part, Vec scale, const Inputs& x, int64_t at) {
        const Vec whole = __builtin_convertvector(part, Vec);
        return fma(whole * scale, splat(x.scales[at]), sum);
    }
};

// What the two other ways have in common: sums in float.
struct InFloat {
    using Sum = Vec;
    static constexpr bool IS_INT = false;
    static inline Sum start(const Inputs&, int64_t) { return Vec{}; }
    static inline Vec add(Vec sum, Sum part, Vec scale, const Inputs&, int64_t) {
        return fma(part, scale, sum);
    }
};

// A byte as a float, less z: adding it to the last bits of 2^23 is exact.
inline Vec byte_value(UintVec byte, Vec offset) { return (Vec)(byte | 0x4b000000u) - offset; }
inline Vec byte_offset(int zero) { return splat(8388608.f + (float)zero); }

#if LMC_NATIVE_BF16
// A word's inputs are taken in pairs (0, 2), (1, 3), (4, 6), (5, 7).
struct PairMath : InFloat {
    static constexpr int UNIT = 2;
    static constexpr int ELEMENT_BYTES = 2;

    template <class F> struct Decoder {
        explicit Decoder(int zero) : offset(byte_offset(zero)) {
            alignas(64) bf16 numbers[32];
            for (int i = 0; i < 32; i++) numbers[i] = to_bf16((float)(i % 16 - zero));
            table = _mm512_load_si512(numbers);
        }
        __m512i operator()(UintVec raw, int step) const {
            if constexpr (F::BITS == 4) {
                // The table has its numbers twice: of each index the fifth bit is another's.
                const UintVec index = raw >> (step % 2 * 8 + step / 2 * 4);
                return _mm512_permutexvar_epi16((__m512i)index, table);
            }
            raw >>= step * 8;
            const UintVec low = (UintVec)byte_value(raw & 0xffu, offset);
            const UintVec high = (UintVec)byte_value(raw >> 16 & 0xffu, offset);
            return (__m512i)((high & 0xffff0000u) | low >> 16);
        }
        Vec offset;
        __m512i table;
    };
    static inline __m512i unit(const uint8_t* p) { return _mm512_set1_epi32(read_as<int>(p)); }
    static inline Sum step(Sum sum, __m512i weights, __m512i row) {
        return NativeBf16::step(sum, weights, row);
    }
};
#endif

template <class T> struct FloatGroups : InFloat {
    static constexpr int UNIT = 1;
    static constexpr int ELEMENT_BYTES = sizeof(T);

    template <class F> struct Decoder {
        explicit Decoder(int zero) : offset(byte_offset(zero)) {}
        Vec operator()(UintVec raw, int step) const {
            return byte_value(raw >> F::shift(step) & ((1u << F::BITS) - 1), offset);
        }
        Vec offset;
    };
    static inline Vec unit(const uint8_t* p) { return splat(to_float(read_as<T>(p))); }
    static inline Sum step(Sum sum, Vec weights, Vec row) { return fma(weights, row, sum); }
};

// The arithmetic for rows of a type that are not rounded to int8.
template <class T> struct GroupMath { using type = FloatGroups<T>; };
#if LMC_NATIVE_BF16
template <> struct GroupMath<bf16> { using type = PairMath; };
#endif

// How many rows keep both their sums and those of a group in registers.
constexpr int MOST_GROUP_ROWS = max_rows(2 * VECS);

constexpr int GROUP_PREFETCH = 3072;  // bytes

// sums[r][v] += rows first.. of x times a panel: a block of outputs, all groups.
template <class Math, class F, int ROWS>
inline void multiply_groups(const Inputs& x, int64_t first, const uint8_t* panel, int zero,
                            Vec (&sums)[ROWS][VECS]) {
    constexpr int STEPS = F::IN_WORD / Math::UNIT;
    const typename Math::template Decoder<F> decode(zero);
    for (int64_t g = 0; g < x.num_groups; g++, panel += F::BYTES) {
        const int64_t at = first * x.num_groups + g;
        const uint8_t* units = x.units.data() + first * x.row_bytes + g * GROUP * Math::ELEMENT_BYTES;
        typename Math::Sum part[ROWS][VECS];
        for (int r = 0; r < ROWS; r++)
            for (int v = 0; v < VECS; v++) part[r][v] = Math::start(x, at + r * x.num_groups);
        for (int w = 0; w < F::WORDS; w++) {
            UintVec raw[VECS];
            for (int v = 0; v < VECS; v++) {
                const uint8_t* place = panel + (w * BLOCK + v * LANES) * 4;
                raw[v] = read_as<UintVec>(place);
                __builtin_prefetch(place + GROUP_PREFETCH);
            }
            for (int s = 0; s < STEPS; s++) {
                decltype(decode(raw[0], s)) weights[VECS];
                for (int v = 0; v < VECS; v++) weights[v] = decode(raw[v], s);
                for (int r = 0; r < ROWS; r++) {
                    const auto unit = Math::unit(units + r * x.row_bytes +
                                                 (w * STEPS + s) * Math::UNIT * Math::ELEMENT_BYTES);
                    for (int v = 0; v < VECS; v++)
                        part[r][v] = Math::step(part[r][v], weights[v], unit);
                }
            }
        }
        for (int v = 0; v < VECS; v++) {
            const Vec scale = load_halves((const uint16_t*)(panel + F::SCALES) + v * LANES);
            for (int r = 0; r < ROWS; r++)
                sums[r][v] = Math::add(sums[r][v], part[r][v], scale, x, at + r * x.num_groups);
            if constexpr (F::HAS_MIN) {
                const Vec least = load_halves((const uint16_t*)(panel + F::MINS) + v * LANES);
                for (int r = 0; r < ROWS; r++)
                    sums[r][v] = fma(least, splat(x.sums[at + r * x.num_groups]), sums[r][v]);
            }
        }
    }
}

}  // namespace lmc
