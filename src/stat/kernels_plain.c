/* SPDX-License-Identifier: Apache-2.0 */
#include "stat/kernels.h"

#include <string.h>

/* In plain C: the reference for every other set. */

static float load32(const float *p)
{
	float v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static double load64(const double *p)
{
	double v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Up to CKPT_STAT_LANES numbers, one for each lane. */
static void add32(const float *in, size_t count, struct ckpt_stat_sums32 *s)
{
	uint64_t zeros = 0;

	for (size_t k = 0; k < count; k++) {
		float v = load32(in + k);

		s->sum[k] += (double)v;
		s->min[k] = v < s->min[k] ? v : s->min[k];
		s->max[k] = v > s->max[k] ? v : s->max[k];
		zeros += v == 0;
	}
	s->zeros += zeros;
}

static void sums32(const float *in, size_t count, struct ckpt_stat_sums32 *s)
{
	size_t i = 0;

	for (; i + CKPT_STAT_LANES <= count; i += CKPT_STAT_LANES)
		add32(in + i, CKPT_STAT_LANES, s);
	add32(in + i, count - i, s);
}

static void add64(const double *in, size_t count, struct ckpt_stat_sums64 *s)
{
	uint64_t zeros = 0;

	for (size_t k = 0; k < count; k++) {
		double v = load64(in + k), sum = s->sum[k] + v, part = sum - s->sum[k];

		s->rest[k] += (s->sum[k] - (sum - part)) + (v - part);
		s->sum[k] = sum;
		s->min[k] = v < s->min[k] ? v : s->min[k];
		s->max[k] = v > s->max[k] ? v : s->max[k];
		zeros += v == 0;
	}
	s->zeros += zeros;
}

static void sums64(const double *in, size_t count, struct ckpt_stat_sums64 *s)
{
	size_t i = 0;

	for (; i + CKPT_STAT_LANES64 <= count; i += CKPT_STAT_LANES64)
		add64(in + i, CKPT_STAT_LANES64, s);
	add64(in + i, count - i, s);
}

static void square32(const float *in, size_t count, double mean, double *lanes)
{
	for (size_t k = 0; k < count; k++) {
		double d = (double)load32(in + k) - mean;

		lanes[k] += d * d;
	}
}

static void squares32(const float *in, size_t count, double mean, double *lanes)
{
	size_t i = 0;

	for (; i + CKPT_STAT_LANES <= count; i += CKPT_STAT_LANES)
		square32(in + i, CKPT_STAT_LANES, mean, lanes);
	square32(in + i, count - i, mean, lanes);
}

static void square64(const double *in, size_t count, double mean, double *lanes)
{
	for (size_t k = 0; k < count; k++) {
		double d = load64(in + k) - mean;

		lanes[k] += d * d;
	}
}

static void squares64(const double *in, size_t count, double mean, double *lanes)
{
	size_t i = 0;

	for (; i + CKPT_STAT_LANES <= count; i += CKPT_STAT_LANES)
		square64(in + i, CKPT_STAT_LANES, mean, lanes);
	square64(in + i, count - i, mean, lanes);
}

const struct ckpt_stat_kernels ckpt_stat_plain = { sums32, sums64, squares32, squares64 };
