/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares items of two dtypes as numbers: converts a piece of each side to float64, and adds what
 * the kernels (sums.c) give for it. 64-bit integers are subtracted as integers; items without
 * numbers are compared as bits.
 *
 * What must stay true: number I of a call goes to lane I % CKPT_LANES on every path, and no product
 * is fused with a sum (the library is built with -ffp-contract=off), so that figures are the same
 * on every machine, to the bit. Numbers that are not finite are counted, and never reach the sums.
 */
#include "diff/numbers.h"

#include "diff/sums.h"
#include "diff/widen.h"
#include "tensor/cast.h"

#include <math.h>
#include <string.h>

enum { PIECE = 1024 }; /* real numbers that are widened at a time: they stay in the nearest cache */

enum method {
	BY_DOUBLES,  /* a float64 holds all of them */
	BY_INTEGERS, /* of 64 bits on one side at least, integers on both */
	BY_BOTH,     /* integers of 64 bits and floating numbers */
	BY_BITS,
};

bool ckpt_measure_init(struct ckpt_measure *m, enum ckpt_dtype a, enum ckpt_dtype b, double atol,
		       double rtol)
{
	enum ckpt_number_kind kind_a, kind_b;
	bool floats;

	*m = (struct ckpt_measure){ .atol = atol, .rtol = rtol };
	m->a_size = ckpt_dtype_size(a);
	m->b_size = ckpt_dtype_size(b);
	m->a = ckpt_real_dtype(a, &m->a_parts);
	m->b = ckpt_real_dtype(b, &m->b_parts);
	m->parts = m->a_parts > m->b_parts ? m->a_parts : m->b_parts;
	kind_a = ckpt_number_kind(m->a);
	kind_b = ckpt_number_kind(m->b);
	m->has_numbers = kind_a != CKPT_NUMBER_NONE && kind_b != CKPT_NUMBER_NONE;
	floats = ckpt_dtype_is_floating(m->a) || ckpt_dtype_is_floating(m->b);
	m->has_ulp = a == b && m->has_numbers && floats;
	if (!m->has_numbers)
		m->method = BY_BITS;
	else if (kind_a == CKPT_NUMBER_FLOAT && kind_b == CKPT_NUMBER_FLOAT)
		m->method = BY_DOUBLES;
	else
		m->method = floats ? BY_BOTH : BY_INTEGERS;
	return m->has_numbers || a == b;
}

void ckpt_numbers_add(struct ckpt_numbers *n, const struct ckpt_numbers *more, uint64_t times)
{
	n->count += more->count * times;
	n->differing += more->differing * times;
	n->outside += more->outside * times;
	n->other_bits += more->other_bits * times;
	n->nan_appeared += more->nan_appeared * times;
	n->nan_vanished += more->nan_vanished * times;
	n->nan_both += more->nan_both * times;
	n->inf_appeared += more->inf_appeared * times;
	n->inf_vanished += more->inf_vanished * times;
	n->finite += more->finite * times;
	n->diff2 += more->diff2 * (double)times;
	n->a2 += more->a2 * (double)times;
	n->b2 += more->b2 * (double)times;
	n->ab += more->ab * (double)times;
	if (more->max_ulp > n->max_ulp)
		n->max_ulp = more->max_ulp;
	if (more->max_abs > n->max_abs)
		n->max_abs = more->max_abs;
	if (more->max_rel > n->max_rel)
		n->max_rel = more->max_rel;
}

/* ---- one pair at a time ---- */

/* Two finite numbers, rounded, and their DISTANCE before rounding. */
static void add_finite(const struct ckpt_measure *m, double a, double b, double distance,
		       struct ckpt_sums *s, unsigned lane)
{
	double size_b = fabs(b), wide = fabs(a) > size_b ? fabs(a) : size_b;

	s->diff2[lane] += distance * distance;
	s->a2[lane] += a * a;
	s->b2[lane] += b * b;
	s->ab[lane] += a * b;
	s->differing[lane] += distance > 0;
	s->outside[lane] += distance > m->atol + m->rtol * size_b;
	if (distance > s->max_abs[lane])
		s->max_abs[lane] = distance;
	if (distance / wide > s->max_rel[lane])
		s->max_rel[lane] = distance / wide;
}

/* Two numbers; one of them at least is not finite. */
static void add_not_finite(double a, double b, struct ckpt_numbers *n)
{
	bool differ = isnan(a) ? !isnan(b) : isnan(b) || a != b;

	n->nan_both += isnan(a) && isnan(b);
	n->nan_vanished += isnan(a) && !isnan(b);
	n->nan_appeared += !isnan(a) && isnan(b);
	n->inf_vanished += isinf(a) && !isinf(b);
	n->inf_appeared += !isinf(a) && isinf(b);
	n->differing += differ;
	n->outside += differ;
	if (differ && !isnan(a) && !isnan(b))
		n->max_abs = n->max_rel = INFINITY;
}

/* ---- bits of floating numbers ---- */

static uint64_t bits_at(const uint8_t *p, uint32_t size, size_t i)
{
	uint64_t bits = 0;

	memcpy(&bits, p + i * size, size); /* little-endian, as all of this */
	return bits;
}

/* How many steps BITS is away from zero, and to which side; false: it is not finite. */
static bool distance_from_zero(const struct ckpt_float_form *form, uint64_t bits, bool *below,
			       uint64_t *out)
{
	*below = bits & form->sign;
	*out = bits & ~form->sign;
	return *out <= form->largest && !(form->one_nan && *below && !*out);
}

static void add_bits(const struct ckpt_float_form *form, uint64_t a, uint64_t b,
		     struct ckpt_numbers *n, uint64_t *unequal_bits)
{
	uint64_t from, to, steps;
	bool below_a, below_b;

	*unequal_bits += a != b;
	if (!distance_from_zero(form, a, &below_a, &from) ||
	    !distance_from_zero(form, b, &below_b, &to))
		return;
	steps = below_a != below_b ? from + to : from > to ? from - to : to - from;
	if (steps > n->max_ulp)
		n->max_ulp = steps;
}

static void compare_bits(const struct ckpt_measure *m, const uint8_t *a, const uint8_t *b,
			 size_t count, bool finite, struct ckpt_numbers *n, uint64_t *unequal_bits)
{
	struct ckpt_float_form form = ckpt_float_form(m->a);
	const struct ckpt_sum_kernels *k = ckpt_sums_best();
	uint32_t size = ckpt_dtype_size(m->a);
	uint64_t steps = 0;

	if (!finite || size == 1)
		for (size_t i = 0; i < count; i++)
			add_bits(&form, bits_at(a, size, i), bits_at(b, size, i), n, unequal_bits);
	else if (size == 2)
		steps = k->steps16((const uint16_t *)a, (const uint16_t *)b, count, unequal_bits);
	else if (size == 4)
		steps = k->steps32((const uint32_t *)a, (const uint32_t *)b, count, unequal_bits);
	else
		steps = k->steps64((const uint64_t *)a, (const uint64_t *)b, count, unequal_bits);
	if (steps > n->max_ulp)
		n->max_ulp = steps;
}

/* ---- pieces ---- */

struct piece {
	double a[PIECE], b[PIECE];
} __attribute__((aligned(64)));

/*
 * COUNT real numbers of one side; ADD_PART: with imaginary parts of 0, as the other side is
 * complex.
 */
static void widen(enum ckpt_dtype real, bool add_part, const uint8_t *in, double *out, size_t count)
{
	if (!add_part) {
		ckpt_widen(real, in, out, count);
		return;
	}
	ckpt_widen(real, in, out, count / 2);
	for (size_t i = count / 2; i-- > 0;) {
		out[2 * i] = out[i];
		out[2 * i + 1] = 0;
	}
}

static void pad_lanes(double *v, size_t count)
{
	for (; count % CKPT_LANES; count++)
		v[count] = 0;
}

static size_t whole_lanes(size_t count)
{
	return (count + CKPT_LANES - 1) / CKPT_LANES * CKPT_LANES;
}

static void compare_mixed_doubles(const struct ckpt_measure *m, const struct piece *p, size_t count,
				  struct ckpt_sums *s, struct ckpt_numbers *n)
{
	for (size_t i = 0; i < count; i++) {
		double a = p->a[i], b = p->b[i];

		if (!isfinite(a) || !isfinite(b)) {
			add_not_finite(a, b, n);
			continue;
		}
		add_finite(m, a, b, fabs(a - b), s, i % CKPT_LANES);
		n->finite++;
	}
}

static void compare_doubles(const struct ckpt_measure *m, const uint8_t *a, const uint8_t *b,
			    size_t count, struct ckpt_sums *s, struct ckpt_numbers *n,
			    uint64_t *unequal_bits)
{
	const struct ckpt_sum_kernels *k = ckpt_sums_best();
	size_t lanes = whole_lanes(count);
	struct piece p;
	bool finite;

	widen(m->a, m->a_parts < m->parts, a, p.a, count);
	widen(m->b, m->b_parts < m->parts, b, p.b, count);
	pad_lanes(p.a, count);
	pad_lanes(p.b, count);
	finite = k->finite(p.a, lanes) && k->finite(p.b, lanes);
	if (finite) {
		k->pairs(p.a, p.b, lanes, m->atol, m->rtol, s);
		n->finite += count;
	} else {
		compare_mixed_doubles(m, &p, count, s, n);
	}
	if (m->has_ulp)
		compare_bits(m, a, b, count, finite, n, unequal_bits);
}

/* Both sides have the same bits: their squares and products are the same. */
static void add_equal_doubles(const struct ckpt_measure *m, const uint8_t *a, size_t count,
			      struct ckpt_sums *same, struct ckpt_numbers *n)
{
	const struct ckpt_sum_kernels *k = ckpt_sums_best();
	struct piece p;

	ckpt_widen(m->a, a, p.a, count);
	pad_lanes(p.a, count);
	n->finite += count;
	if (!k->finite(p.a, whole_lanes(count)))
		for (size_t i = 0; i < count; i++) {
			n->nan_both += isnan(p.a[i]);
			n->finite -= !isfinite(p.a[i]);
			p.a[i] = isfinite(p.a[i]) ? p.a[i] : 0;
		}
	k->squares(p.a, whole_lanes(count), same->a2);
}

static void compare_integers(const struct ckpt_measure *m, const uint8_t *a, const uint8_t *b,
			     size_t count, struct ckpt_sums *s, struct ckpt_numbers *n)
{
	uint64_t ma[PIECE], mb[PIECE];
	bool below_a[PIECE], below_b[PIECE];

	ckpt_widen_integers(m->a, a, ma, below_a, count);
	ckpt_widen_integers(m->b, b, mb, below_b, count);
	for (size_t i = 0; i < count; i++) {
		double va = below_a[i] ? -(double)ma[i] : (double)ma[i];
		double vb = below_b[i] ? -(double)mb[i] : (double)mb[i];
		double distance = below_a[i] != below_b[i]
					  ? (double)((unsigned __int128)ma[i] + mb[i])
				  : ma[i] > mb[i] ? (double)(ma[i] - mb[i])
						  : (double)(mb[i] - ma[i]);

		add_finite(m, va, vb, distance, s, i % CKPT_LANES);
	}
	n->finite += count;
}

/* What is left of the integer at P, of which WIDE is the nearest double. */
static double rest_of_integer(enum ckpt_dtype real, const uint8_t *p, double wide)
{
	int64_t v;

	memcpy(&v, p, sizeof(v));
	if (real == CKPT_DTYPE_INT64)
		return (double)(v - (__int128)wide);
	return (double)((__int128)(uint64_t)v - (__int128)wide);
}

/* A + B, and what its rounding has left out. Source: Knuth, TAOCP 2, 4.2.2, theorem B. */
static double add_two(double a, double b, double *rest)
{
	double sum = a + b, of_b = sum - a;

	*rest = (a - (sum - of_b)) + (b - of_b);
	return sum;
}

/* A + B; if that is no double, the one of both neighbors whose last bit is set. */
static double add_to_odd(double a, double b)
{
	double rest, sum = add_two(a, b, &rest);
	uint64_t bits;

	memcpy(&bits, &sum, sizeof(bits));
	if (rest && !(bits & 1))
		bits += (rest > 0) == (sum > 0) ? 1 : UINT64_MAX;
	memcpy(&sum, &bits, sizeof(bits));
	return sum;
}

/*
 * |WIDE + REST - OTHER|, rounded once. Source: Boldo and Melquiond, "Emulation of FMA and correctly
 * rounded sums: proved algorithms using rounding to odd", IEEE TC 57, 2008, section 5.
 */
static double distance_between(double wide, double rest, double other)
{
	double left, sum = add_two(wide, -other, &left);

	return fabs(sum + add_to_odd(rest, left));
}

static void compare_integers_and_floats(const struct ckpt_measure *m, const uint8_t *a,
					const uint8_t *b, size_t count, struct ckpt_sums *s,
					struct ckpt_numbers *n)
{
	bool first = ckpt_number_kind(m->a) == CKPT_NUMBER_INTEGER; /* A has the integers */
	bool add_part = (first ? m->a_parts : m->b_parts) < m->parts;
	enum ckpt_dtype real = first ? m->a : m->b;
	const uint8_t *integers = first ? a : b;
	struct piece p;
	const double *wide = first ? p.a : p.b, *other = first ? p.b : p.a;

	widen(m->a, m->a_parts < m->parts, a, p.a, count);
	widen(m->b, m->b_parts < m->parts, b, p.b, count);
	for (size_t i = 0; i < count; i++) {
		double rest = 0;

		if (!isfinite(other[i])) {
			add_not_finite(p.a[i], p.b[i], n);
			continue;
		}
		if (!add_part || i % 2 == 0)
			rest = rest_of_integer(real, integers + 8 * (add_part ? i / 2 : i),
					       wide[i]);
		add_finite(m, p.a[i], p.b[i], distance_between(wide[i], rest, other[i]), s,
			   i % CKPT_LANES);
		n->finite++;
	}
}

static void compare_raw_bits(const struct ckpt_measure *m, const uint8_t *a, const uint8_t *b,
			     size_t count, struct ckpt_numbers *n)
{
	uint64_t differing = 0;

	for (size_t i = 0; i < count; i++)
		differing += memcmp(a + i * m->a_size, b + i * m->a_size, m->a_size) != 0;
	n->differing += differing;
	n->outside += differing;
}

/* ---- all of them ---- */

static double sum_of(const double *lanes)
{
	double sum = 0;

	for (int i = 0; i < CKPT_LANES; i++)
		sum += lanes[i];
	return sum;
}

static void store_sums(const struct ckpt_sums *s, const struct ckpt_sums *same,
		       struct ckpt_numbers *n)
{
	double both = sum_of(same->a2);

	n->diff2 = sum_of(s->diff2);
	n->a2 = sum_of(s->a2) + both;
	n->b2 = sum_of(s->b2) + both;
	n->ab = sum_of(s->ab) + both;
	for (int i = 0; i < CKPT_LANES; i++) {
		n->differing += (uint64_t)s->differing[i];
		n->outside += (uint64_t)s->outside[i];
		if (s->max_abs[i] > n->max_abs)
			n->max_abs = s->max_abs[i];
		if (s->max_rel[i] > n->max_rel)
			n->max_rel = s->max_rel[i];
	}
}

static void measure_piece(const struct ckpt_measure *m, const uint8_t *a, const uint8_t *b,
			  size_t count, struct ckpt_sums *sums, struct ckpt_numbers *n)
{
	uint32_t size = ckpt_dtype_size(m->a);
	uint64_t differing = 0, unequal_bits = 0;

	if (m->method == BY_DOUBLES && m->a == m->b && m->a_parts == m->b_parts &&
	    !memcmp(a, b, count * size)) {
		add_equal_doubles(m, a, count, &sums[1], n);
		return;
	}
	for (int i = 0; i < CKPT_LANES; i++)
		differing += (uint64_t)sums[0].differing[i];
	differing += n->differing;
	switch ((enum method)m->method) {
	case BY_DOUBLES: compare_doubles(m, a, b, count, &sums[0], n, &unequal_bits); break;
	case BY_INTEGERS: compare_integers(m, a, b, count, &sums[0], n); break;
	case BY_BOTH: compare_integers_and_floats(m, a, b, count, &sums[0], n); break;
	case BY_BITS: compare_raw_bits(m, a, b, count, n); break;
	}
	if (!unequal_bits)
		return;
	for (int i = 0; i < CKPT_LANES; i++)
		unequal_bits -= (uint64_t)sums[0].differing[i];
	n->other_bits += unequal_bits + differing - n->differing;
}

void ckpt_measure_items(const struct ckpt_measure *m, const void *va, const void *vb, size_t count,
			struct ckpt_numbers *n)
{
	struct ckpt_sums sums[2]; /* of pieces that differ, and of those that do not */
	const uint8_t *a = va, *b = vb;
	size_t items = PIECE / m->parts;

	memset(sums, 0, sizeof(sums));
	*n = (struct ckpt_numbers){ .count = count * m->parts };
	for (size_t i = 0; i < count; i += items) {
		size_t now = count - i < items ? count - i : items;

		measure_piece(m, a + i * m->a_size, b + i * m->b_size, now * m->parts, sums, n);
	}
	store_sums(&sums[0], &sums[1], n);
}
