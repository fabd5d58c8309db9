// Vectors of floats, as wide as the processor has them, and bf16 conversion.
//
// Arithmetic uses the vector types of GCC and Clang; fused multiply-add and a few
// conversions use intrinsics. Everything is compiled with -ffp-contract=off, so a sum is
// fused where `fma` says so and nowhere else: the same expression gives the same bits in
// every template instance, which the exactness of the engine rests on.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace lmc {

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX2__) && defined(__FMA__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

#if defined(__AVX512BF16__) && defined(__AVX512F__) && !defined(LMC_NO_NATIVE_BF16)
#define LMC_NATIVE_BF16 1
#else
#define LMC_NATIVE_BF16 0
#endif

using bf16 = uint16_t;  // the upper half of a float

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t IntVec __attribute__((vector_size(4 * LANES)));
typedef uint32_t UintVec __attribute__((vector_size(4 * LANES)));
typedef uint16_t HalfVec __attribute__((vector_size(2 * LANES)));

#if defined(__AVX512F__)
inline Vec splat(float x) { return (Vec)_mm512_set1_ps(x); }
inline IntVec splat_int(int32_t x) { return (IntVec)_mm512_set1_epi32(x); }
inline Vec vmax(Vec a, Vec b) { return (Vec)_mm512_max_ps((__m512)a, (__m512)b); }
inline Vec vmin(Vec a, Vec b) { return (Vec)_mm512_min_ps((__m512)a, (__m512)b); }
#elif defined(__AVX2__) && defined(__FMA__)
inline Vec splat(float x) { return (Vec)_mm256_set1_ps(x); }
inline IntVec splat_int(int32_t x) { return (IntVec)_mm256_set1_epi32(x); }
inline Vec vmax(Vec a, Vec b) { return (Vec)_mm256_max_ps((__m256)a, (__m256)b); }
inline Vec vmin(Vec a, Vec b) { return (Vec)_mm256_min_ps((__m256)a, (__m256)b); }
#else
inline Vec splat(float x) { return Vec{x, x, x, x}; }
inline IntVec splat_int(int32_t x) { return IntVec{x, x, x, x}; }
inline Vec vmax(Vec a, Vec b) { return a > b ? a : b; }
inline Vec vmin(Vec a, Vec b) { return a < b ? a : b; }
#endif

inline Vec fma(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
    return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
    return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON) && defined(__aarch64__)
    return (Vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

inline Vec load(const float* p) {
    Vec v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
inline void store(float* p, Vec v) { std::memcpy(p, &v, sizeof v); }

inline Vec load(const bf16* p) {
    HalfVec half;
    std::memcpy(&half, p, sizeof half);
    return (Vec)(__builtin_convertvector(half, UintVec) << 16);
}

inline float to_float(float x) { return x; }
inline float to_float(bf16 x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// Rounds to nearest, ties to even; a NaN stays one.
inline bf16 to_bf16(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const uint32_t quiet = (bits >> 16) | 0x40u;
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (bf16)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

inline void store(bf16* p, Vec v) {
#if LMC_NATIVE_BF16
    _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh((__m512)v));
#else
    UintVec bits = (UintVec)v;
    UintVec rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    UintVec quiet = (bits >> 16) | 0x40u;
    IntVec is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    HalfVec half = __builtin_convertvector(is_nan ? quiet : rounded, HalfVec);
    std::memcpy(p, &half, sizeof half);
#endif
}

template <class T> inline T from_float(float x);
template <> inline float from_float<float>(float x) { return x; }
template <> inline bf16 from_float<bf16>(float x) { return to_bf16(x); }

// Loads and stores of the first `count` elements; the other lanes are zero.
template <class T> inline Vec load_part(const T* p, int count) {
    alignas(64) T full[LANES] = {};
    std::memcpy(full, p, sizeof(T) * count);
    return load(full);
}
template <class T> inline void store_part(T* p, Vec v, int count) {
    alignas(64) T full[LANES];
    store(full, v);
    std::memcpy(p, full, sizeof(T) * count);
}

// Folds the lanes, upper half onto lower half: one fixed order on every processor.
#if defined(__AVX2__) && defined(__FMA__)
template <class Op> inline float fold_quarters(__m128 x, Op op) {
    x = op(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(op(x, _mm_shuffle_ps(x, x, 1)));
}
template <class Op> inline float fold_lanes(Vec v, Op op) {
#if defined(__AVX512F__)
    const __m512 all = (__m512)v;
    const __m256 upper = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(all), 1));
    const __m256 lower = _mm512_castps512_ps256(all);
    const __m128 a = op(_mm256_castps256_ps128(lower), _mm256_castps256_ps128(upper));
    const __m128 b = op(_mm256_extractf128_ps(lower, 1), _mm256_extractf128_ps(upper, 1));
    return fold_quarters(op(a, b), op);
#else
    const __m256 all = (__m256)v;
    return fold_quarters(op(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)), op);
#endif
}
inline float sum_lanes(Vec v) {
    return fold_lanes(v, [](__m128 a, __m128 b) { return _mm_add_ps(a, b); });
}
inline float max_lanes(Vec v) {
    return fold_lanes(v, [](__m128 a, __m128 b) { return _mm_max_ps(a, b); });
}
#else
inline float sum_lanes(Vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }
inline float max_lanes(Vec v) {
    const float a = v[0] > v[2] ? v[0] : v[2], b = v[1] > v[3] ? v[1] : v[3];
    return a > b ? a : b;
}
#endif

inline IntVec lane_numbers() {
    alignas(64) static constexpr int32_t numbers[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                        8, 9, 10, 11, 12, 13, 14, 15};
    IntVec v;
    std::memcpy(&v, numbers, sizeof v);
    return v;
}

// 2^x for |x| <= 126 (clamped): Cephes' polynomial on [-0.5, 0.5]; exact at integers.
inline Vec exp2(Vec x) {
    x = vmax(vmin(x, splat(126.f)), splat(-126.f));
    const Vec magic = splat(12582912.f);  // 1.5 * 2^23: adding it rounds to an integer
    Vec shifted = x + magic;
    Vec whole = shifted - magic;
    IntVec exponent = (IntVec)shifted - (IntVec)magic;
    Vec f = x - whole;
    Vec p = splat(1.535336188319500e-4f);
    p = fma(p, f, splat(1.339887440266574e-3f));
    p = fma(p, f, splat(9.618437357674640e-3f));
    p = fma(p, f, splat(5.550332471162809e-2f));
    p = fma(p, f, splat(2.402264791363012e-1f));
    p = fma(p, f, splat(6.931472028550421e-1f));
    p = fma(p, f, splat(1.f));
    return p * (Vec)((exponent + 127) << 23);
}

constexpr float LOG2E = 1.44269504088896341f;

inline Vec silu(Vec x) { return x / (splat(1.f) + exp2(x * splat(-LOG2E))); }

}  // namespace lmc
