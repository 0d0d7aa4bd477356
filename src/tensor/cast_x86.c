/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Casts of blocks of numbers with AVX2 and F16C, chosen at run time.
 *
 * What must stay true: every result has the bits that the plain kernels give (cast_plain.c), NaN,
 * denormals and ties included; a block may have any length, and its tail goes the plain way.
 */
#include "tensor/cast_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>

#define WITH_AVX2 __attribute__((target("avx2,f16c")))

/* The tail of less than one vector goes the plain way. */

WITH_AVX2 static void float16_to_float32(const uint16_t *in, uint32_t *out, size_t count)
{
	size_t i = 0;

	for (; i + 8 <= count; i += 8)
		_mm256_storeu_ps((float *)(out + i),
				 _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + i))));
	ckpt_cast_plain.float16_to_float32(in + i, out + i, count - i);
}

WITH_AVX2 static void float32_to_float16(const uint32_t *in, uint16_t *out, size_t count)
{
	size_t i = 0;

	for (; i + 8 <= count; i += 8)
		_mm_storeu_si128((__m128i *)(out + i),
				 _mm256_cvtps_ph(_mm256_loadu_ps((const float *)(in + i)),
						 _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
	ckpt_cast_plain.float32_to_float16(in + i, out + i, count - i);
}

WITH_AVX2 static void bfloat16_to_float32(const uint16_t *in, uint32_t *out, size_t count)
{
	size_t i = 0;

	for (; i + 8 <= count; i += 8) {
		__m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(in + i)));

		_mm256_storeu_si256((__m256i *)(out + i), _mm256_slli_epi32(wide, 16));
	}
	ckpt_cast_plain.bfloat16_to_float32(in + i, out + i, count - i);
}

/* Eight numbers, each in the low half of 32 bits. */
WITH_AVX2 static inline __m256i round_to_bfloat16(__m256i bits, __m256i nan)
{
	__m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF)),
		odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1)),
		rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF))),
		is_nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7F800000));

	return _mm256_blendv_epi8(_mm256_srli_epi32(rounded, 16), nan, is_nan);
}

WITH_AVX2 static void float32_to_bfloat16(const uint32_t *in, uint16_t *out, size_t count,
					  uint16_t nan_bits)
{
	__m256i nan = _mm256_set1_epi32(nan_bits);
	size_t i = 0;

	for (; i + 16 <= count; i += 16) {
		__m256i low = round_to_bfloat16(_mm256_loadu_si256((const __m256i *)(in + i)), nan),
			high = round_to_bfloat16(_mm256_loadu_si256((const __m256i *)(in + i + 8)),
						 nan),
			mixed = _mm256_packus_epi32(low, high); /* by halves of the vectors */

		_mm256_storeu_si256((__m256i *)(out + i), _mm256_permute4x64_epi64(mixed, 0xD8));
	}
	ckpt_cast_plain.float32_to_bfloat16(in + i, out + i, count - i, nan_bits);
}

/* Counts of 32 bits are enough for what is counted at a time: a block of cast.c. */
WITH_AVX2 static uint64_t sum_lanes(__m256i counts)
{
	uint32_t lanes[8];
	uint64_t sum = 0;

	_mm256_storeu_si256((__m256i *)lanes, counts);
	for (int i = 0; i < 8; i++)
		sum += lanes[i];
	return sum;
}

WITH_AVX2 static void count_lost(const uint32_t *in, size_t count,
				 const struct ckpt_cast_limits *limits, uint64_t *over,
				 uint64_t *under)
{
	__m256i magnitude_bits = _mm256_set1_epi32(0x7FFFFFFF), zero = _mm256_setzero_si256(),
		below_over = _mm256_set1_epi32((int)(limits->over - 1)),
		top = _mm256_set1_epi32((int)limits->top),
		behind_under = _mm256_set1_epi32((int)(limits->under + 1)), large = zero,
		small = zero;
	size_t i = 0;

	for (; i + 8 <= count; i += 8) {
		__m256i magnitude = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(in + i)),
						     magnitude_bits);

		/* what compares true is -1 */
		large = _mm256_sub_epi32(large,
					 _mm256_and_si256(_mm256_cmpgt_epi32(magnitude, below_over),
							  _mm256_cmpgt_epi32(top, magnitude)));
		small = _mm256_sub_epi32(small,
					 _mm256_and_si256(_mm256_cmpgt_epi32(magnitude, zero),
							  _mm256_cmpgt_epi32(behind_under,
									     magnitude)));
	}
	*over += sum_lanes(large);
	*under += sum_lanes(small);
	ckpt_cast_plain.count_lost(in + i, count - i, limits, over, under);
}

WITH_AVX2 static uint64_t sum_wide_lanes(__m256i counts)
{
	uint64_t lanes[4];

	_mm256_storeu_si256((__m256i *)lanes, counts);
	return lanes[0] + lanes[1] + lanes[2] + lanes[3];
}

WITH_AVX2 static void count_wide(const double *in, size_t count,
				 const struct ckpt_cast_wide_limits *limits, uint64_t *over,
				 uint64_t *under)
{
	__m256d sign = _mm256_set1_pd(-0.), zero = _mm256_setzero_pd(),
		from = _mm256_set1_pd(limits->over), most = _mm256_set1_pd(limits->most),
		to = _mm256_set1_pd(limits->under);
	__m256i large = _mm256_setzero_si256(), small = large;
	size_t i = 0;

	for (; i + 4 <= count; i += 4) {
		__m256d magnitude = _mm256_andnot_pd(sign, _mm256_loadu_pd(in + i)),
			is_large = _mm256_and_pd(_mm256_cmp_pd(magnitude, from, _CMP_GE_OQ),
						 _mm256_cmp_pd(magnitude, most, _CMP_LE_OQ)),
			is_small = _mm256_and_pd(_mm256_cmp_pd(magnitude, zero, _CMP_GT_OQ),
						 _mm256_cmp_pd(magnitude, to, _CMP_LE_OQ));

		large = _mm256_sub_epi64(large, _mm256_castpd_si256(is_large));
		small = _mm256_sub_epi64(small, _mm256_castpd_si256(is_small));
	}
	*over += sum_wide_lanes(large);
	*under += sum_wide_lanes(small);
	ckpt_cast_plain.count_wide(in + i, count - i, limits, over, under);
}

static const struct ckpt_cast_kernels avx2 = {
	float16_to_float32,  float32_to_float16, bfloat16_to_float32,
	float32_to_bfloat16, count_lost,	 count_wide,
};

/* Not every compiler's __builtin_cpu_supports() knows this one. */
static bool has_f16c(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* Asked once: in a virtual machine, CPUID takes as long as the cast of ten thousand numbers. */
const struct ckpt_cast_kernels *ckpt_cast_best(void)
{
	static const struct ckpt_cast_kernels *_Atomic best;
	const struct ckpt_cast_kernels *k = best;

	if (!k) {
		k = __builtin_cpu_supports("avx2") && has_f16c() ? &avx2 : &ckpt_cast_plain;
		best = k;
	}
	return k;
}

#else

const struct ckpt_cast_kernels *ckpt_cast_best(void)
{
	return &ckpt_cast_plain;
}

#endif
