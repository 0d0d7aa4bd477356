/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of sums.c, once for each kind of processor: included with SUMS (the name of the table),
 * VECTOR (bytes that one instruction works on) and TARGET (an attribute) defined.
 */

#define JOIN(a, b) a##_##b
#define NAMED(name, table) JOIN(name, table)
#define NAME(name) NAMED(name, SUMS)
#define NUMBERS NAME(numbers)
#define MASKS NAME(masks)
#define VECTORS (CKPT_LANES * 8 / VECTOR) /* that eight numbers need */

typedef double NUMBERS __attribute__((vector_size(VECTOR)));
typedef int64_t MASKS __attribute__((vector_size(VECTOR)));

#define MAGNITUDE(v) ((NUMBERS)((MASKS)(v)&INT64_MAX))
#define CHOOSE(mask, a, b) ((NUMBERS)(((mask) & (MASKS)(a)) | (~(mask) & (MASKS)(b))))

TARGET static bool NAME(finite)(const double *v, size_t count)
{
	const uint64_t exponent = (uint64_t)0x7FF << 52, one = (uint64_t)1 << 52;
	uint64_t any = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t bits;

		memcpy(&bits, v + i, sizeof(bits));
		any |= (bits & exponent) + one; /* the highest bit: of these alone */
	}
	return !(any >> 63);
}

TARGET static void NAME(widen32)(const float *in, double *out, size_t count)
{
	for (size_t i = 0; i < count; i++)
		out[i] = (double)in[i];
}

TARGET static void NAME(pairs)(const double *pa, const double *pb, size_t count, double atol,
			       double rtol, struct ckpt_sums *s)
{
	NUMBERS diff2[VECTORS], a2[VECTORS], b2[VECTORS], ab[VECTORS], max_abs[VECTORS],
		max_rel[VECTORS];
	MASKS differing[VECTORS], outside[VECTORS];

	memcpy(diff2, s->diff2, sizeof(diff2));
	memcpy(a2, s->a2, sizeof(a2));
	memcpy(b2, s->b2, sizeof(b2));
	memcpy(ab, s->ab, sizeof(ab));
	memcpy(max_abs, s->max_abs, sizeof(max_abs));
	memcpy(max_rel, s->max_rel, sizeof(max_rel));
	memcpy(differing, s->differing, sizeof(differing));
	memcpy(outside, s->outside, sizeof(outside));
	for (size_t i = 0; i < count; i += CKPT_LANES)
		for (unsigned k = 0; k < VECTORS; k++) {
			NUMBERS a, b, diff, far, wide, rel, size_a, size_b;

			memcpy(&a, pa + i + k * (VECTOR / 8), VECTOR);
			memcpy(&b, pb + i + k * (VECTOR / 8), VECTOR);
			diff = a - b;
			far = MAGNITUDE(diff);
			size_a = MAGNITUDE(a);
			size_b = MAGNITUDE(b);
			wide = CHOOSE(size_a > size_b, size_a, size_b);
			rel = far / wide; /* of two zeros: NaN, which is larger than nothing */
			max_abs[k] = CHOOSE(far > max_abs[k], far, max_abs[k]);
			max_rel[k] = CHOOSE(rel > max_rel[k], rel, max_rel[k]);
			diff2[k] += diff * diff;
			a2[k] += a * a;
			b2[k] += b * b;
			ab[k] += a * b;
			differing[k] -= a != b; /* true is -1 */
			outside[k] -= far > atol + rtol * size_b;
		}
	memcpy(s->diff2, diff2, sizeof(diff2));
	memcpy(s->a2, a2, sizeof(a2));
	memcpy(s->b2, b2, sizeof(b2));
	memcpy(s->ab, ab, sizeof(ab));
	memcpy(s->max_abs, max_abs, sizeof(max_abs));
	memcpy(s->max_rel, max_rel, sizeof(max_rel));
	memcpy(s->differing, differing, sizeof(differing));
	memcpy(s->outside, outside, sizeof(outside));
}

TARGET static void NAME(squares)(const double *p, size_t count, double *sums)
{
	NUMBERS all[VECTORS], v;

	memcpy(all, sums, sizeof(all));
	for (size_t i = 0; i < count; i += CKPT_LANES)
		for (unsigned k = 0; k < VECTORS; k++) {
			memcpy(&v, p + i + k * (VECTOR / 8), VECTOR);
			all[k] += v * v;
		}
	memcpy(sums, all, sizeof(all));
}

/*
 * Numbers in their order are integers in theirs, if those below zero are counted down from it.
 * Compilers make vectors of this by themselves.
 */
#define STEPS(name, type, wide, shift) \
	TARGET static uint64_t NAME(name)(const type *a, const type *b, size_t count, \
					  uint64_t *other) \
	{ \
		const type all = (type) ~(type)0 >> 1; \
		type most = 0, unlike = 0; \
\
		for (size_t i = 0; i < count; i++) { \
			wide sa = (wide)((wide)a[i] >> (shift)), \
			     sb = (wide)((wide)b[i] >> (shift)); \
			wide va = (wide)(((wide)(a[i] & all) ^ sa) - sa); \
			wide vb = (wide)(((wide)(b[i] & all) ^ sb) - sb); \
			type far = va > vb ? (type)((type)va - (type)vb) \
					   : (type)((type)vb - (type)va); \
\
			most = far > most ? far : most; \
			unlike = (type)(unlike + (a[i] != b[i])); \
		} \
		*other += unlike; \
		return most; \
	}

STEPS(steps16, uint16_t, int16_t, 15)
STEPS(steps32, uint32_t, int32_t, 31)
STEPS(steps64, uint64_t, int64_t, 63)

static const struct ckpt_sum_kernels SUMS = { NAME(widen32), NAME(finite),  NAME(pairs),
					      NAME(squares), NAME(steps16), NAME(steps32),
					      NAME(steps64) };

#undef STEPS
#undef MAGNITUDE
#undef CHOOSE
#undef NUMBERS
#undef MASKS
#undef VECTORS
#undef NAME
#undef NAMED
#undef JOIN
#undef SUMS
#undef VECTOR
#undef TARGET
