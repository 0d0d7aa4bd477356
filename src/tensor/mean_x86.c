/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of float32, float16 and bfloat16 with AVX2, eight numbers at a time. Without FMA, which would
 * round once where plain C rounds twice.
 */
#include "tensor/mean_kernels.h"

#include "tensor/cast_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define WITH_AVX2 __attribute__((target("avx2,f16c")))
#define INLINE WITH_AVX2 static inline __attribute__((always_inline))

/* Eight numbers as float32, from number I of IN on. */
INLINE __m256 load8(enum ckpt_dtype dtype, const void *in, size_t i)
{
	const uint16_t *halves = (const uint16_t *)in + i;

	if (dtype == CKPT_DTYPE_FLOAT32)
		return _mm256_loadu_ps((const float *)in + i);
	if (dtype == CKPT_DTYPE_FLOAT16)
		return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)halves));
	return _mm256_castsi256_ps(_mm256_slli_epi32(
		_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)halves)), 16));
}

INLINE __m256d low4(__m256 x)
{
	return _mm256_cvtps_pd(_mm256_castps256_ps128(x));
}

INLINE __m256d high4(__m256 x)
{
	return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}

INLINE size_t begin_of(enum ckpt_dtype dtype, const void *in, size_t count, double zero,
		       double weight, double *sums)
{
	__m256d z = _mm256_set1_pd(zero), w = _mm256_set1_pd(weight);
	size_t i = 0;

	for (; i + 8 <= count; i += 8) {
		__m256 x = load8(dtype, in, i);

		_mm256_storeu_pd(sums + i, _mm256_add_pd(z, _mm256_mul_pd(w, low4(x))));
		_mm256_storeu_pd(sums + i + 4, _mm256_add_pd(z, _mm256_mul_pd(w, high4(x))));
	}
	return i;
}

INLINE size_t add_of(enum ckpt_dtype dtype, const void *in, size_t count, double keep,
		     double weight, double *sums)
{
	__m256d k = _mm256_set1_pd(keep), w = _mm256_set1_pd(weight);
	size_t i = 0;

	for (; i + 8 <= count; i += 8) {
		__m256 x = load8(dtype, in, i);
		__m256d low = _mm256_mul_pd(k, _mm256_loadu_pd(sums + i)),
			high = _mm256_mul_pd(k, _mm256_loadu_pd(sums + i + 4));

		_mm256_storeu_pd(sums + i, _mm256_add_pd(low, _mm256_mul_pd(w, low4(x))));
		_mm256_storeu_pd(sums + i + 4, _mm256_add_pd(high, _mm256_mul_pd(w, high4(x))));
	}
	return i;
}

/* Of two times four masks of 64 bits, eight of 32. */
INLINE __m256i join_masks(__m256d low, __m256d high)
{
	__m256 mixed = _mm256_shuffle_ps(_mm256_castpd_ps(low), _mm256_castpd_ps(high), 0x88);

	return _mm256_permute4x64_epi64(_mm256_castps_si256(mixed), 0xD8);
}

INLINE __m256 round_to_float32(__m256d low, __m256d high)
{
	return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
}

/* As round_to_odd() in cast.c. */
INLINE __m256i round_to_odd(__m256d low, __m256d high)
{
	const __m256d sign = _mm256_set1_pd(-0.0);
	__m256 nearest = round_to_float32(low, high);
	__m256d back_low = low4(nearest), back_high = high4(nearest);
	__m256i larger = join_masks(_mm256_cmp_pd(_mm256_andnot_pd(sign, back_low),
						  _mm256_andnot_pd(sign, low), _CMP_GT_OQ),
				    _mm256_cmp_pd(_mm256_andnot_pd(sign, back_high),
						  _mm256_andnot_pd(sign, high), _CMP_GT_OQ));
	__m256i other = join_masks(_mm256_cmp_pd(back_low, low, _CMP_NEQ_UQ),
				   _mm256_cmp_pd(back_high, high, _CMP_NEQ_UQ));
	__m256i bits = _mm256_add_epi32(_mm256_castps_si256(nearest), larger); /* -1 where it is */

	return _mm256_or_si256(bits, _mm256_srli_epi32(other, 31));
}

INLINE __m256 with_usual_nan(__m256 x)
{
	return _mm256_blendv_ps(_mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000)), x,
				_mm256_cmp_ps(x, x, _CMP_ORD_Q));
}

INLINE void store8(enum ckpt_dtype dtype, __m256d low, __m256d high, void *out, size_t i)
{
	__m128i *halves = (__m128i *)(void *)((uint16_t *)out + i);
	__m256i bits, rounded;

	if (dtype == CKPT_DTYPE_FLOAT32) {
		_mm256_storeu_ps((float *)out + i, with_usual_nan(round_to_float32(low, high)));
		return;
	}
	bits = round_to_odd(low, high);
	if (dtype == CKPT_DTYPE_FLOAT16) {
		_mm_storeu_si128(halves,
				 _mm256_cvtps_ph(with_usual_nan(_mm256_castsi256_ps(bits)),
						 _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
		return;
	}
	bits = _mm256_castps_si256(with_usual_nan(_mm256_castsi256_ps(bits)));
	rounded = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
	rounded = _mm256_add_epi32(rounded, _mm256_set1_epi32(0x7FFF));
	rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, rounded), 16);
	_mm_storeu_si128(halves, _mm_packus_epi32(_mm256_castsi256_si128(rounded),
						  _mm256_extracti128_si256(rounded, 1)));
}

INLINE size_t finish_of(enum ckpt_dtype dtype, const double *sums, size_t count, double divisor,
			void *out)
{
	__m256d d = _mm256_set1_pd(divisor);
	size_t i = 0;

	for (; i + 8 <= count; i += 8)
		store8(dtype, _mm256_div_pd(_mm256_loadu_pd(sums + i), d),
		       _mm256_div_pd(_mm256_loadu_pd(sums + i + 4), d), out, i);
	return i;
}

WITH_AVX2 static size_t begin(enum ckpt_dtype dtype, const void *in, size_t count, double zero,
			      double weight, double *sums)
{
	switch (dtype) {
	case CKPT_DTYPE_FLOAT32: return begin_of(CKPT_DTYPE_FLOAT32, in, count, zero, weight, sums);
	case CKPT_DTYPE_FLOAT16: return begin_of(CKPT_DTYPE_FLOAT16, in, count, zero, weight, sums);
	case CKPT_DTYPE_BFLOAT16:
		return begin_of(CKPT_DTYPE_BFLOAT16, in, count, zero, weight, sums);
	default: return 0;
	}
}

WITH_AVX2 static size_t add(enum ckpt_dtype dtype, const void *in, size_t count, double keep,
			    double weight, double *sums)
{
	switch (dtype) {
	case CKPT_DTYPE_FLOAT32: return add_of(CKPT_DTYPE_FLOAT32, in, count, keep, weight, sums);
	case CKPT_DTYPE_FLOAT16: return add_of(CKPT_DTYPE_FLOAT16, in, count, keep, weight, sums);
	case CKPT_DTYPE_BFLOAT16: return add_of(CKPT_DTYPE_BFLOAT16, in, count, keep, weight, sums);
	default: return 0;
	}
}

WITH_AVX2 static size_t finish(enum ckpt_dtype dtype, const double *sums, size_t count,
			       double divisor, void *out)
{
	switch (dtype) {
	case CKPT_DTYPE_FLOAT32: return finish_of(CKPT_DTYPE_FLOAT32, sums, count, divisor, out);
	case CKPT_DTYPE_FLOAT16: return finish_of(CKPT_DTYPE_FLOAT16, sums, count, divisor, out);
	case CKPT_DTYPE_BFLOAT16: return finish_of(CKPT_DTYPE_BFLOAT16, sums, count, divisor, out);
	default: return 0;
	}
}

static const struct ckpt_mean_kernels avx2 = { begin, add, finish };

const struct ckpt_mean_kernels *ckpt_mean_best(void)
{
	return ckpt_cast_best() == &ckpt_cast_plain ? NULL : &avx2; /* it needs the same */
}

#else

const struct ckpt_mean_kernels *ckpt_mean_best(void)
{
	return NULL;
}

#endif
