/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Basic indexing of numpy: "0:2, ::4". The text is read first, then each dimension gets its new length, stride and
 * first item; nothing is read from the file.
 *
 * Source: _PySlice_GetLongIndices() and PySlice_AdjustIndices() of CPython. Bounds beyond a dimension are cut to it,
 * integers beyond it are an error. All items that are left were items before, and so ckpt_items_check() still holds.
 */
#include "array/array.h"

#include "base/ascii.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

enum { MOST = CKPT_ITEMS_MOST_DIMS };

/* What stands between two commas. */
struct index {
	bool is_slice, is_ellipsis, has_start, has_stop;
	int64_t start, stop, step; /* START: the index itself, if it is no slice */
};

struct indices {
	struct index items[MOST + 1];
	uint32_t count;
};

/* ---- the text ---- */

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " \t");
}

/* The number at *P, cut to 64 bits; false: there is none. */
static bool read_number(const char **p, int64_t *out)
{
	const char *at = *p;
	bool negative = *at == '-';
	int64_t v = 0;

	if (*at == '-' || *at == '+')
		at++;
	if (!ckpt_is_digit((unsigned char)*at))
		return false;
	for (; ckpt_is_digit((unsigned char)*at); at++)
		if (__builtin_mul_overflow(v, (int64_t)10, &v) ||
		    __builtin_add_overflow(v, (int64_t)(*at - '0'), &v))
			v = INT64_MAX;
	*out = negative ? -v : v;
	*p = skip_blanks(at);
	return true;
}

static bool read_index(const char **p, struct index *out)
{
	*out = (struct index){ .step = 1 };
	if (!strncmp(*p, "...", 3)) {
		out->is_ellipsis = true;
		*p = skip_blanks(*p + 3);
		return true;
	}
	out->has_start = read_number(p, &out->start);
	if (**p != ':')
		return out->has_start;
	out->is_slice = true;
	*p = skip_blanks(*p + 1);
	out->has_stop = read_number(p, &out->stop);
	if (**p == ':') {
		*p = skip_blanks(*p + 1);
		read_number(p, &out->step);
	}
	return true;
}

static int fail_text(const char *text, struct ckpt_error *err)
{
	char shown[120];

	if (strstr(text, "None") || strstr(text, "newaxis"))
		return ckpt_fail(err, CKPT_E_ARG, "cannot get new dimensions (None)");
	return ckpt_fail(
		err, CKPT_E_ARG,
		"is indexed with [%s], wanted integers and slices as in [3, -1, 0:2, ::4, ...]",
		ckpt_escape(shown, sizeof(shown), text, strlen(text)));
}

static int read_indices(const char *text, struct indices *out, struct ckpt_error *err)
{
	const char *p = skip_blanks(text);
	bool ellipsis = false;

	out->count = 0;
	do {
		struct index *one = &out->items[out->count];

		if (out->count && !*p)
			break; /* a comma may end it, as in [0,] */
		if (out->count > MOST)
			return ckpt_fail(err, CKPT_E_ARG, "has no more than %d dimensions", MOST);
		if (!read_index(&p, one) || (*p && *p != ','))
			return fail_text(text, err);
		if (!one->step)
			return ckpt_fail(err, CKPT_E_ARG, "is sliced with the step 0");
		if (one->is_ellipsis && ellipsis)
			return ckpt_fail(err, CKPT_E_ARG, "is indexed with more than one '...'");
		ellipsis |= one->is_ellipsis;
		out->count++;
	} while (*p && (p = skip_blanks(p + 1)));
	return 0;
}

/* ---- dimensions ---- */

/* Numbers FIRST, FIRST + STEP ... of a dimension, COUNT of them. */
struct range {
	uint64_t first, count;
	int64_t step;
};

/* START or STOP as a place in LEN items; LOW and HIGH: where it ends up beyond them. */
static int64_t place(int64_t v, int64_t len, int64_t low, int64_t high)
{
	if (v < 0 && __builtin_add_overflow(v, len, &v))
		v = low;
	return v < low ? low : v > high ? high : v;
}

static struct range range_of(const struct index *i, uint64_t dim)
{
	int64_t len = dim > INT64_MAX ? INT64_MAX : (int64_t)dim, step = i->step, start, stop;
	struct range r = { .step = step };

	if (step > 0) {
		start = i->has_start ? place(i->start, len, 0, len) : 0;
		stop = i->has_stop ? place(i->stop, len, 0, len) : len;
		r.count = start < stop ? ((uint64_t)(stop - start) - 1) / (uint64_t)step + 1 : 0;
	} else {
		start = i->has_start ? place(i->start, len, -1, len - 1) : len - 1;
		stop = i->has_stop ? place(i->stop, len, -1, len - 1) : -1;
		r.count = stop < start ? ((uint64_t)(start - stop) - 1) / -(uint64_t)step + 1 : 0;
	}
	r.first = r.count ? (uint64_t)start : 0;
	return r;
}

static int index_of(const struct index *i, uint32_t axis, uint64_t dim, struct range *out,
		    struct ckpt_error *err)
{
	int64_t len = dim > INT64_MAX ? INT64_MAX : (int64_t)dim;
	int64_t at = i->start < 0 ? i->start + len : i->start;

	*out = (struct range){ .first = (uint64_t)at, .count = 1, .step = 1 };
	if (at >= 0 && at < len)
		return 0;
	return ckpt_fail(err, CKPT_E_NOTFOUND,
			 "has no item %" PRId64 " in dimension %u, which has %" PRIu64, i->start,
			 axis, dim);
}

struct sliced {
	struct ckpt_array *a;
	struct ckpt_items items;
	uint64_t *shape, *stride;
	uint32_t ndim;
	struct range axis; /* what is left of the channels' */
	uint64_t inner;	   /* items behind them */
};

/* Dimension AXIS, of which R is left, and which is none any more if it has an integer. */
static void slice_dimension(struct sliced *s, uint32_t axis, struct range r, bool keep)
{
	bool backward = r.step < 0 && r.count > 1;
	bool was_reversed = s->a->items.reversed >> axis & 1;
	uint64_t step = r.step < 0 ? -(uint64_t)r.step : (uint64_t)r.step, low = r.first;

	if (backward)
		low -= (r.count - 1) * step;
	if (was_reversed && r.count)
		low = s->a->t.shape[axis] - 1 - (low + (r.count - 1) * step);
	if (s->a->items.stride) { /* a meta tensor has no items */
		s->items.offset += r.count ? low * s->a->items.stride[axis] : 0;
		s->stride[s->ndim] = s->a->items.stride[axis] * (r.count > 1 ? step : 1);
	}
	if (backward != was_reversed)
		s->items.reversed |= keep ? (uint64_t)1 << s->ndim : 0;
	if (axis == s->a->axis) {
		s->axis = r;
		s->inner = 1;
	} else if (axis > s->a->axis) {
		s->inner *= r.count;
	}
	if (keep)
		s->shape[s->ndim++] = r.count;
}

static int slice_all(struct sliced *s, const struct indices *indices, struct ckpt_error *err)
{
	static const struct index everything = { .is_slice = true, .step = 1 };
	uint32_t ndim = s->a->t.ndim, given = 0, axis = 0;

	for (uint32_t i = 0; i < indices->count; i++)
		given += !indices->items[i].is_ellipsis;
	if (given > ndim)
		return ckpt_fail(err, CKPT_E_ARG, "has %u dimension%s, and %u are indexed", ndim,
				 ndim == 1 ? "" : "s", given);
	for (uint32_t i = 0; i <= indices->count; i++) {
		const struct index *one = i < indices->count ? &indices->items[i] : NULL;
		uint64_t dim = axis < ndim ? s->a->t.shape[axis] : 0;
		struct range r;
		int rc;

		if (!one || one->is_ellipsis) {
			uint32_t left = one ? axis + ndim - given : ndim;

			for (; axis < left; axis++)
				slice_dimension(s, axis, range_of(&everything, s->a->t.shape[axis]),
						true);
			continue;
		}
		if (one->is_slice) {
			slice_dimension(s, axis++, range_of(one, dim), true);
			continue;
		}
		rc = index_of(one, axis, dim, &r, err);
		if (rc < 0)
			return rc;
		slice_dimension(s, axis++, r, false);
	}
	return 0;
}

static int slice(struct ckpt_array *a, const char *text, struct ckpt_error *err)
{
	struct sliced s = { .a = a, .items = a->items, .inner = 1 };
	struct indices indices;
	bool per_channel = a->qscheme && !strncmp(a->qscheme, "per_channel", 11);
	int rc = read_indices(text, &indices, err);

	if (rc < 0)
		return rc;
	if (a->t.kind == CKPT_KIND_SPARSE || a->t.kind == CKPT_KIND_NESTED)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "is %s, of which only parts can be sliced", a->t.layout);
	if (a->t.kind == CKPT_KIND_UNINITIALIZED)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED, "%s", a->why_not);
	s.items.reversed = 0;
	s.shape = ckpt_arena_calloc(a->arena, a->t.ndim + 1u, sizeof(*s.shape));
	s.stride = ckpt_arena_calloc(a->arena, a->t.ndim + 1u, sizeof(*s.stride));
	if (!s.shape || !s.stride)
		return ckpt_arena_fail(a->arena, err);
	rc = slice_all(&s, &indices, err);
	if (rc < 0)
		return rc;
	s.items.ndim = s.ndim;
	s.items.shape = s.shape;
	s.items.stride = s.stride;
	rc = a->items.stride ? ckpt_items_check(&s.items, err) : 0;
	if (rc == 0 && per_channel && s.items.numel)
		rc = ckpt_array_slice_channels(a, s.axis.first, s.axis.step, s.axis.count, s.inner,
					       err);
	if (rc < 0)
		return rc;
	a->items = s.items;
	a->t.ndim = s.ndim;
	a->t.shape = s.shape;
	a->part_count = 0;
	if (per_channel)
		a->qscheme = NULL;
	return 0;
}

int ckpt_array_slice(struct ckpt_array *a, const char *text, struct ckpt_error *err)
{
	int rc = slice(a, text, err);

	return rc < 0 ? ckpt_array_fail_named(a->model, a->name, rc, err) : 0;
}
