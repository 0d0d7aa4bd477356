/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels with AVX2. They add in the order of kernels_plain.c, lane by lane, so that the result
 * is the same to the bit; the tail of less than all lanes goes through the plain kernels.
 */
#include "stat/kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

/*
 * No FMA: it rounds once where the plain way rounds twice. Compilers may fuse intrinsics, too: the
 * library is built with -ffp-contract=off.
 */
#define WITH_AVX2 __attribute__((target("avx2")))

WITH_AVX2 static inline __m256d low_wide(__m256 v)
{
	return _mm256_cvtps_pd(_mm256_castps256_ps128(v));
}

WITH_AVX2 static inline __m256d high_wide(__m256 v)
{
	return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
}

/* The sum of all counters. */
WITH_AVX2 static inline uint64_t count_32(__m256i counts)
{
	uint32_t each[8];
	uint64_t all = 0;

	_mm256_storeu_si256((__m256i *)each, counts);
	for (int i = 0; i < 8; i++)
		all += each[i];
	return all;
}

WITH_AVX2 static void sums32(const float *in, size_t count, struct ckpt_stat_sums32 *s)
{
	__m256d s0 = _mm256_loadu_pd(s->sum), s1 = _mm256_loadu_pd(s->sum + 4),
		s2 = _mm256_loadu_pd(s->sum + 8), s3 = _mm256_loadu_pd(s->sum + 12);
	__m256 min0 = _mm256_loadu_ps(s->min), min1 = _mm256_loadu_ps(s->min + 8),
	       max0 = _mm256_loadu_ps(s->max), max1 = _mm256_loadu_ps(s->max + 8),
	       zero = _mm256_setzero_ps();
	__m256i z0 = _mm256_setzero_si256(), z1 = z0;
	size_t i = 0;

	for (; i + CKPT_STAT_LANES <= count; i += CKPT_STAT_LANES) {
		__m256 a = _mm256_loadu_ps(in + i), b = _mm256_loadu_ps(in + i + 8);

		s0 = _mm256_add_pd(s0, low_wide(a));
		s1 = _mm256_add_pd(s1, high_wide(a));
		s2 = _mm256_add_pd(s2, low_wide(b));
		s3 = _mm256_add_pd(s3, high_wide(b));
		min0 = _mm256_min_ps(a, min0);
		min1 = _mm256_min_ps(b, min1);
		max0 = _mm256_max_ps(a, max0);
		max1 = _mm256_max_ps(b, max1);
		z0 = _mm256_sub_epi32(z0, _mm256_castps_si256(_mm256_cmp_ps(a, zero, _CMP_EQ_OQ)));
		z1 = _mm256_sub_epi32(z1, _mm256_castps_si256(_mm256_cmp_ps(b, zero, _CMP_EQ_OQ)));
	}
	_mm256_storeu_pd(s->sum, s0);
	_mm256_storeu_pd(s->sum + 4, s1);
	_mm256_storeu_pd(s->sum + 8, s2);
	_mm256_storeu_pd(s->sum + 12, s3);
	_mm256_storeu_ps(s->min, min0);
	_mm256_storeu_ps(s->min + 8, min1);
	_mm256_storeu_ps(s->max, max0);
	_mm256_storeu_ps(s->max + 8, max1);
	s->zeros += count_32(_mm256_add_epi32(z0, z1));
	ckpt_stat_plain.sums32(in + i, count - i, s);
}

/* *SUM + *REST + V */
WITH_AVX2 static inline void add_exactly(__m256d *sum, __m256d *rest, __m256d v)
{
	__m256d new = _mm256_add_pd(*sum, v), part = _mm256_sub_pd(new, *sum);
	__m256d lost = _mm256_add_pd(_mm256_sub_pd(*sum, _mm256_sub_pd(new, part)),
				     _mm256_sub_pd(v, part));

	*rest = _mm256_add_pd(*rest, lost);
	*sum = new;
}

WITH_AVX2 static void sums64(const double *in, size_t count, struct ckpt_stat_sums64 *s)
{
	__m256d s0 = _mm256_loadu_pd(s->sum), s1 = _mm256_loadu_pd(s->sum + 4),
		r0 = _mm256_loadu_pd(s->rest), r1 = _mm256_loadu_pd(s->rest + 4),
		min0 = _mm256_loadu_pd(s->min), min1 = _mm256_loadu_pd(s->min + 4),
		max0 = _mm256_loadu_pd(s->max), max1 = _mm256_loadu_pd(s->max + 4),
		zero = _mm256_setzero_pd();
	__m256i z = _mm256_setzero_si256();
	uint64_t zeros[4];
	size_t i = 0;

	for (; i + CKPT_STAT_LANES64 <= count; i += CKPT_STAT_LANES64) {
		__m256d a = _mm256_loadu_pd(in + i), b = _mm256_loadu_pd(in + i + 4);

		add_exactly(&s0, &r0, a);
		add_exactly(&s1, &r1, b);
		min0 = _mm256_min_pd(a, min0);
		min1 = _mm256_min_pd(b, min1);
		max0 = _mm256_max_pd(a, max0);
		max1 = _mm256_max_pd(b, max1);
		z = _mm256_sub_epi64(z, _mm256_castpd_si256(_mm256_cmp_pd(a, zero, _CMP_EQ_OQ)));
		z = _mm256_sub_epi64(z, _mm256_castpd_si256(_mm256_cmp_pd(b, zero, _CMP_EQ_OQ)));
	}
	_mm256_storeu_pd(s->sum, s0);
	_mm256_storeu_pd(s->sum + 4, s1);
	_mm256_storeu_pd(s->rest, r0);
	_mm256_storeu_pd(s->rest + 4, r1);
	_mm256_storeu_pd(s->min, min0);
	_mm256_storeu_pd(s->min + 4, min1);
	_mm256_storeu_pd(s->max, max0);
	_mm256_storeu_pd(s->max + 4, max1);
	_mm256_storeu_si256((__m256i *)zeros, z);
	s->zeros += zeros[0] + zeros[1] + zeros[2] + zeros[3];
	ckpt_stat_plain.sums64(in + i, count - i, s);
}

WITH_AVX2 static inline __m256d add_square(__m256d lane, __m256d v, __m256d mean)
{
	__m256d d = _mm256_sub_pd(v, mean);

	return _mm256_add_pd(lane, _mm256_mul_pd(d, d));
}

WITH_AVX2 static void squares32(const float *in, size_t count, double mean, double *lanes)
{
	__m256d l0 = _mm256_loadu_pd(lanes), l1 = _mm256_loadu_pd(lanes + 4),
		l2 = _mm256_loadu_pd(lanes + 8), l3 = _mm256_loadu_pd(lanes + 12),
		m = _mm256_set1_pd(mean);
	size_t i = 0;

	for (; i + CKPT_STAT_LANES <= count; i += CKPT_STAT_LANES) {
		l0 = add_square(l0, _mm256_cvtps_pd(_mm_loadu_ps(in + i)), m);
		l1 = add_square(l1, _mm256_cvtps_pd(_mm_loadu_ps(in + i + 4)), m);
		l2 = add_square(l2, _mm256_cvtps_pd(_mm_loadu_ps(in + i + 8)), m);
		l3 = add_square(l3, _mm256_cvtps_pd(_mm_loadu_ps(in + i + 12)), m);
	}
	_mm256_storeu_pd(lanes, l0);
	_mm256_storeu_pd(lanes + 4, l1);
	_mm256_storeu_pd(lanes + 8, l2);
	_mm256_storeu_pd(lanes + 12, l3);
	ckpt_stat_plain.squares32(in + i, count - i, mean, lanes);
}

WITH_AVX2 static void squares64(const double *in, size_t count, double mean, double *lanes)
{
	__m256d l0 = _mm256_loadu_pd(lanes), l1 = _mm256_loadu_pd(lanes + 4),
		l2 = _mm256_loadu_pd(lanes + 8), l3 = _mm256_loadu_pd(lanes + 12),
		m = _mm256_set1_pd(mean);
	size_t i = 0;

	for (; i + CKPT_STAT_LANES <= count; i += CKPT_STAT_LANES) {
		l0 = add_square(l0, _mm256_loadu_pd(in + i), m);
		l1 = add_square(l1, _mm256_loadu_pd(in + i + 4), m);
		l2 = add_square(l2, _mm256_loadu_pd(in + i + 8), m);
		l3 = add_square(l3, _mm256_loadu_pd(in + i + 12), m);
	}
	_mm256_storeu_pd(lanes, l0);
	_mm256_storeu_pd(lanes + 4, l1);
	_mm256_storeu_pd(lanes + 8, l2);
	_mm256_storeu_pd(lanes + 12, l3);
	ckpt_stat_plain.squares64(in + i, count - i, mean, lanes);
}

static const struct ckpt_stat_kernels avx2 = { sums32, sums64, squares32, squares64 };

const struct ckpt_stat_kernels *ckpt_stat_best(void)
{
	return __builtin_cpu_supports("avx2") ? &avx2 : &ckpt_stat_plain;
}

#else

const struct ckpt_stat_kernels *ckpt_stat_best(void)
{
	return &ckpt_stat_plain;
}

#endif
