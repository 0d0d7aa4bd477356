/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays as numpy.array2string() prints them, byte for byte, with its default options.
 *
 * Source: numpy/_core/arrayprint.py of numpy 2.4, and dragon4 in numpy/_core/src/multiarray. What
 * stands there is called the same here.
 *
 * What must stay true: all shown numbers are looked at before the first is printed, for the
 * widest decides the layout of all. The recursion is as deep as the array has dimensions, at most
 * ARRAY_MOST_DIMS (number_type_of() refuses more).
 */
#include "array_numbers.h"
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_WIDTH = 75, MOST_WORD = 2 * FLOAT_MOST_TEXT };

/* FloatingFormat: how all numbers of an array are laid out. */
struct floating {
	enum float_kind kind;
	char sign; /* '-', or '+' for the imaginary parts */
	bool scientific;
	int precision, min_digits, pad_left, pad_right, exp_size;
};

struct printer {
	FILE *out;
	const struct array_view *v;
	const struct number_type *type;
	struct floating real, imag;
	int width; /* of integers */
	char *line;
	size_t line_len, line_cap;
};

/* ---- layout of floats ---- */

/* Numbers FIRST, FIRST + STEP ... below COUNT. */
struct series {
	uint64_t first, step, count;
};

static bool is_signed(const struct floating *f, double v)
{
	return f->sign == '+' || signbit(v);
}

static void choose_scientific(const struct printer *p, const struct series *s, struct floating *f)
{
	static const double most[] = { 1e3, 1e6, 1e8 }; /* 10**min(8, digits that are exact) */
	double largest = 0, least = INFINITY;

	for (uint64_t i = s->first; i < s->count; i += s->step) {
		double v = fabs(real_at(p->v, p->type, i));

		if (!isfinite(v) || v == 0)
			continue;
		largest = v > largest ? v : largest;
		least = v < least ? v : least;
	}
	if (largest == 0)
		return;
	f->scientific = largest >= most[f->kind] || least < float_rounded(0.0001, f->kind) ||
			float_rounded(largest / least, f->kind) > 1000;
}

static int max_int(int a, int b)
{
	return a > b ? a : b;
}

static void measure_one(struct floating *f, double v, int precision)
{
	char text[FLOAT_MOST_TEXT], *point, *e;

	if (f->scientific) {
		float_scientific(text, fabs(v), f->kind, precision, 0, 2);
		e = strchr(text, 'e');
		f->exp_size = max_int(f->exp_size, (int)strlen(e) - 2);
		*e = '\0';
	} else {
		float_positional(text, fabs(v), f->kind, precision);
	}
	point = strchr(text, '.');
	f->pad_left = max_int(f->pad_left, (int)(point - text) + is_signed(f, v));
	f->pad_right = max_int(f->pad_right, (int)strlen(point + 1));
}

/* fillFormat() */
static struct floating measure(const struct printer *p, const struct series *s, char sign,
			       int precision)
{
	struct floating f = { .kind = p->type->precision, .sign = sign, .precision = precision };
	bool all_finite = true, below = sign == '+';

	choose_scientific(p, s, &f);
	for (uint64_t i = s->first; i < s->count; i += s->step) {
		double v = real_at(p->v, p->type, i);

		if (isfinite(v)) {
			measure_one(&f, v, precision);
			continue;
		}
		all_finite = false;
		below |= isinf(v) && v < 0;
	}
	if (f.scientific) {
		f.precision = f.min_digits = f.pad_right;
		f.pad_right = f.exp_size + 2 + f.precision;
	}
	if (!all_finite)
		f.pad_left = max_int(f.pad_left, 3 + below - (f.pad_right + 1));
	return f;
}

/* __call__() */
static void put_float(const struct floating *f, double v, char *out)
{
	char text[FLOAT_MOST_TEXT], *end;
	const char *sign = signbit(v) ? "-" : f->sign == '+' ? "+" : "";
	int left;

	if (!isfinite(v)) {
		sign = isnan(v) ? (f->sign == '+' ? "+" : "") : sign;
		left = f->pad_left + f->pad_right + 1 - (int)strlen(sign) - 3;
		sprintf(out, "%*s%s%s", left > 0 ? left : 0, "", sign, isnan(v) ? "nan" : "inf");
		return;
	}
	if (f->scientific)
		float_scientific(text, fabs(v), f->kind, f->precision, f->min_digits, f->exp_size);
	else
		float_positional(text, fabs(v), f->kind, f->precision);
	end = strchr(text, '.');
	left = f->pad_left - (int)(end - text) - (int)strlen(sign);
	out += sprintf(out, "%*s%s%s", left > 0 ? left : 0, "", sign, text);
	for (left = f->scientific ? 0 : f->pad_right - (int)strlen(end + 1); left > 0; left--)
		*out++ = ' ';
	*out = '\0';
}

static void put_complex(const struct printer *p, uint64_t i, char *out)
{
	size_t len;

	put_float(&p->real, real_at(p->v, p->type, 2 * i), out);
	out += strlen(out);
	put_float(&p->imag, real_at(p->v, p->type, 2 * i + 1), out);
	for (len = strlen(out); len && out[len - 1] == ' '; len--)
		;
	memmove(out + len + 1, out + len, strlen(out + len) + 1);
	out[len] = 'j';
}

static void put_number(const struct printer *p, uint64_t i, char *out)
{
	switch (p->type->kind) {
	case KIND_BOOL:
		strcpy(out, !uint_at(p->v, p->type, i) ? "False" : p->v->ndim ? " True" : "True");
		break;
	case KIND_INT: sprintf(out, "%*" PRId64, p->width, int_at(p->v, p->type, i)); break;
	case KIND_UINT: sprintf(out, "%*" PRIu64, p->width, uint_at(p->v, p->type, i)); break;
	case KIND_FLOAT: put_float(&p->real, real_at(p->v, p->type, i), out); break;
	case KIND_COMPLEX: put_complex(p, i, out); break;
	}
}

static void choose_format(struct printer *p, int precision)
{
	uint64_t count = shown_count(p->v);
	char text[32];

	if (p->type->kind == KIND_FLOAT)
		p->real = measure(p, &(struct series){ 0, 1, count }, '-', precision);
	if (p->type->kind == KIND_COMPLEX) {
		p->real = measure(p, &(struct series){ 0, 2, 2 * count }, '-', precision);
		p->imag = measure(p, &(struct series){ 1, 2, 2 * count }, '+', precision);
	}
	if (p->type->kind != KIND_INT && p->type->kind != KIND_UINT)
		return;
	for (uint64_t i = 0; i < count; i++) {
		int len = p->type->kind == KIND_INT
				  ? sprintf(text, "%" PRId64, int_at(p->v, p->type, i))
				  : sprintf(text, "%" PRIu64, uint_at(p->v, p->type, i));

		p->width = max_int(p->width, len);
	}
}

/* ---- lines ---- */

static void append(struct printer *p, const char *text, size_t len)
{
	if (p->line_len + len > p->line_cap) {
		size_t cap = 2 * p->line_cap + len + 256;
		char *grown = realloc(p->line, cap);

		if (!grown)
			no_memory();
		p->line = grown;
		p->line_cap = cap;
	}
	memcpy(p->line + p->line_len, text, len);
	p->line_len += len;
}

static void indent(struct printer *p, uint32_t depth)
{
	for (uint32_t i = 0; i < depth; i++)
		append(p, " ", 1);
}

/* _extendLine() */
static void extend(struct printer *p, const char *word, uint32_t hanging, int width)
{
	size_t len = strlen(word), have = p->line_len;

	if (have + len > (size_t)(width > 0 ? width : 0) && have > hanging) {
		while (p->line_len && p->line[p->line_len - 1] == ' ')
			p->line_len--;
		fwrite(p->line, 1, p->line_len, p->out);
		fputc('\n', p->out);
		p->line_len = 0;
		indent(p, hanging);
	}
	append(p, word, len);
}

/*
 * Print one row of the last dimension. P->line holds the text before it, which is as wide as the
 * indent, and the bracket that opens the row.
 */
static void print_row(struct printer *p, uint32_t depth, uint64_t first)
{
	uint32_t axis = p->v->ndim - 1, hanging = depth + 1;
	uint64_t shown = p->v->shown[axis];
	int width = LINE_WIDTH - (int)depth - 1;
	char word[MOST_WORD];

	for (uint64_t i = 0; i < shown; i++) {
		if (is_gap(p->v, axis, i)) {
			extend(p, "...", hanging, width);
			append(p, " ", 1);
		}
		put_number(p, first + i, word);
		extend(p, word, hanging, width);
		if (i + 1 < shown)
			append(p, " ", 1);
	}
}

static void end_line(struct printer *p, uint32_t feeds)
{
	fwrite(p->line, 1, p->line_len, p->out);
	p->line_len = 0;
	while (feeds--)
		fputc('\n', p->out);
}

/* _formatArray(); not deeper than ARRAY_MOST_DIMS. FIRST: its first number; STEP: how many it has. */
static void print_dimension(struct printer *p, uint32_t depth, uint64_t first, uint64_t step)
{
	uint32_t left = p->v->ndim - depth;
	uint64_t shown = p->v->shown[depth];

	append(p, "[", 1);
	if (left == 1) {
		print_row(p, depth, first);
		append(p, "]", 1);
		return;
	}
	step /= shown;
	for (uint64_t i = 0; i < shown; i++) {
		if (i)
			indent(p, depth + 1);
		if (is_gap(p->v, depth, i)) {
			append(p, "...", 3);
			end_line(p, left - 1);
			indent(p, depth + 1);
		}
		print_dimension(p, depth + 1, first + i * step, step);
		if (i + 1 < shown)
			end_line(p, left - 1);
	}
	append(p, "]", 1);
}

bool print_array(FILE *out, const struct array_view *view, int precision)
{
	struct printer p = { .out = out, .v = view, .type = number_type_of(view) };
	char word[MOST_WORD];

	if (!p.type)
		return false;
	choose_format(&p, precision);
	if (!shown_count(view)) {
		append(&p, "[]", 2);
	} else if (!view->ndim) {
		put_number(&p, 0, word);
		append(&p, word, strlen(word));
	} else {
		print_dimension(&p, 0, 0, shown_count(view));
	}
	end_line(&p, 1);
	free(p.line);
	return true;
}
