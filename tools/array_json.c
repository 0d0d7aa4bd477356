/* SPDX-License-Identifier: Apache-2.0 */
#include "array_numbers.h"

#include <inttypes.h>
#include <math.h>

struct writer {
	FILE *out;
	const struct array_view *v;
	const struct number_type *type;
};

static void json_real(const struct writer *p, uint64_t i)
{
	double v = real_at(p->v, p->type, i);
	char text[FLOAT_MOST_TEXT];

	if (isfinite(v))
		fputs(float_repr(text, v, p->type->precision), p->out);
	else
		fputs(isnan(v) ? "\"nan\"" : v < 0 ? "\"-inf\"" : "\"inf\"", p->out);
}

static void json_number(const struct writer *p, uint64_t i)
{
	switch (p->type->kind) {
	case KIND_BOOL: fputs(uint_at(p->v, p->type, i) ? "true" : "false", p->out); break;
	case KIND_INT: fprintf(p->out, "%" PRId64, int_at(p->v, p->type, i)); break;
	case KIND_UINT:
		fprintf(p->out,
			uint_at(p->v, p->type, i) > INT64_MAX ? "\"%" PRIu64 "\"" : "%" PRIu64,
			uint_at(p->v, p->type, i));
		break;
	case KIND_FLOAT: json_real(p, i); break;
	case KIND_COMPLEX:
		fputc('[', p->out);
		json_real(p, 2 * i);
		fputc(',', p->out);
		json_real(p, 2 * i + 1);
		fputc(']', p->out);
		break;
	}
}

static void json_dimension(const struct writer *p, uint32_t depth, uint64_t first, uint64_t step)
{
	uint64_t shown;

	if (depth == p->v->ndim) {
		json_number(p, first);
		return;
	}
	shown = p->v->shown[depth];
	fputc('[', p->out);
	for (uint64_t i = 0; i < shown; i++) {
		if (i)
			fputc(',', p->out);
		if (is_gap(p->v, depth, i))
			fputs("\"...\",", p->out);
		json_dimension(p, depth + 1, first + i * (step / shown), step / shown);
	}
	fputc(']', p->out);
}

bool print_array_json(FILE *out, const struct array_view *view)
{
	struct writer p = { out, view, number_type_of(view) };

	if (!p.type)
		return false;
	json_dimension(&p, 0, 0, shown_count(view));
	return true;
}
