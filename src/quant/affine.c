/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torchao's AffineQuantizedTensor, 0.5 to 0.15, as torch.save() pickles it: a tensor whose attributes are settings and one
 * tensor more, the impl, which has the integers or floats and the scales in the layout that its class is for. Sources:
 * torchao/dtypes/affine_quantized_tensor.py, dequantize(); dtypes/uintx/plain_layout.py and dtypes/floatx/float8_layout.py;
 * quantization/quant_primitives.py, dequantize_affine() and those beside it. Up to 0.6 the impl is called layout_tensor, its class
 * PlainAQTLayout, and its layout, layout_type, is a PlainLayoutType.
 *
 * What must stay true: only that is read of which all these versions make the same numbers. Up to 0.9, zero points are subtracted as
 * int32, later as numbers of the dtype that is asked for; both are the same for the whole numbers that torchao makes (whole_zeros).
 * Up to 0.9, the product of a float8 is one of the dtype that is asked for or of the scale, later of float32, which holds it exactly.
 */
#include "quant/fill.h"

#include "base/text.h"
#include "model/plain_values.h"
#include "model/state_dict.h"
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum domain { DOMAIN_NONE, DOMAIN_INT, DOMAIN_FLOAT };

struct affine {
	struct ckpt_quant_group *g;
	const struct ckpt_value *outer, *inner; /* attributes: of the tensor, of the impl */
	bool is_float8;
	enum domain domain;
	int64_t least, most; /* quant_min, quant_max */
};

/* NULL if it is None or there is none. */
static const struct ckpt_value *find(const struct affine *a, const struct ckpt_value *attributes,
				     const char *name)
{
	return ckpt_quant_attribute(a->g->quant->model, attributes, name);
}

static const struct ckpt_value *find_either(const struct affine *a,
					    const struct ckpt_value *attributes, const char *name,
					    const char *old_name)
{
	const struct ckpt_value *v = find(a, attributes, name);

	return v ? v : find(a, attributes, old_name);
}

static int refuse(const struct affine *a, struct ckpt_error *err, const char *why)
{
	char shown[200];

	return ckpt_fail(err, CKPT_E_FORMAT, "'%s' is an AffineQuantizedTensor of torchao: %s",
			 ckpt_escape(shown, sizeof(shown), a->g->name, strlen(a->g->name)), why);
}

/* ---- the impl ---- */

/* The class of an object, or NULL. */
static const struct ckpt_global *class_of_object(const struct affine *a, const struct ckpt_value *v)
{
	const struct ckpt_value *cls = v && v->kind == CKPT_CALL
					       ? ckpt_model_now(a->g->quant->model, v->u.call->func)
					       : NULL;

	return cls && cls->kind == CKPT_GLOBAL && ckpt_quant_is_of_torchao(cls->u.global)
		       ? cls->u.global
		       : NULL;
}

/* Subclasses of an impl have another order of numbers, and another layout with it: both names have to be known. */
static int take_impl(struct affine *a, struct ckpt_error *err)
{
	static const struct {
		const char *impl, *layout;
		bool is_float8;
	} known[] = { { "PlainAQTTensorImpl", "PlainLayout", false },
		      { "Float8AQTTensorImpl", "Float8Layout", true },
		      { "PlainAQTLayout", "PlainLayoutType", false },
		      { "Float8AQTLayout", "Float8LayoutType", true } };
	const struct ckpt_value *v = find_either(a, a->outer, "tensor_impl", "layout_tensor");
	const struct ckpt_global *impl = v ? ckpt_quant_class(a->g->quant->model, v) : NULL,
				 *layout;
	struct ckpt_tensor *t = ckpt_arena_calloc(a->g->quant->arena, 1, sizeof(*t));
	char shown[200], shown_impl[80], shown_layout[80];
	int rc = v && t ? ckpt_tensor_parse(a->g->quant->model, v, a->g->quant->arena, t, err) : 0;

	if (!t)
		return ckpt_arena_fail(a->g->quant->arena, err);
	if (rc < 0)
		return rc;
	if (rc == 0 || t->kind != CKPT_KIND_WRAPPER || !impl ||
	    !ckpt_quant_is_of_torchao(impl))
		return refuse(a, err, "its tensor_impl is missing, or none of torchao");
	a->inner = a->g->holder = t->attributes;
	layout = class_of_object(a, find_either(a, a->inner, "_layout", "layout_type"));
	for (size_t i = 0; layout && i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(impl->name, known[i].impl) && !strcmp(layout->name, known[i].layout)) {
			a->is_float8 = known[i].is_float8;
			return 0;
		}
	return ckpt_fail(
		err, CKPT_E_UNSUPPORTED,
		"'%s' is an AffineQuantizedTensor of torchao as %s with %s has it, which ckpt does not know",
		ckpt_escape(shown, sizeof(shown), a->g->name, strlen(a->g->name)),
		ckpt_escape(shown_impl, sizeof(shown_impl), impl->name, strlen(impl->name)),
		layout ? ckpt_escape(shown_layout, sizeof(shown_layout), layout->name,
				     strlen(layout->name))
		       : "no layout");
}

/* ---- settings ---- */

/* ZeroPointDomain(1), or getattr(ZeroPointDomain, "INT"), as Python 3.11 pickles it. */
static bool read_domain(const struct affine *a, const struct ckpt_value *v, enum domain *out)
{
	static const struct {
		const char *name;
		enum domain domain;
	} domains[] = { { "INT", DOMAIN_INT }, { "FLOAT", DOMAIN_FLOAT }, { "NONE", DOMAIN_NONE } };
	const struct ckpt_model *model = a->g->quant->model;
	const struct ckpt_global *class = class_of_object(a, v);
	bool by_name = !class && (ckpt_value_is_call_of(v, "__builtin__", "getattr") ||
				  ckpt_value_is_call_of(v, "builtins", "getattr"));
	const struct ckpt_value *what;

	if (v->kind != CKPT_CALL || ckpt_plain_arg_count(model, v) != 1u + by_name)
		return false;
	what = ckpt_plain_arg(model, v, 0);
	if (by_name) {
		class = what->kind == CKPT_GLOBAL ? what->u.global : NULL;
		what = ckpt_plain_arg(model, v, 1);
	}
	if (!class || !ckpt_quant_is_of_torchao(class) ||
	    strcmp(class->name, "ZeroPointDomain") != 0)
		return false;
	for (size_t i = 0; i < sizeof(domains) / sizeof(domains[0]); i++)
		if (by_name ? ckpt_value_is_text(what) &&
				      what->u.bytes.len == strlen(domains[i].name) &&
				      !memcmp(what->u.bytes.ptr, domains[i].name, what->u.bytes.len)
			    : what->kind == CKPT_INT && what->u.integer == (int64_t)i + 1) {
			*out = domains[i].domain;
			return true;
		}
	return false;
}

/* None is for float8 alone, up to 0.7. Later ones say INT of float8, which means nothing there. */
static int take_domain(struct affine *a, struct ckpt_error *err)
{
	const struct ckpt_value *v =
		a->outer ? ckpt_state_find(a->g->quant->model, a->outer, "zero_point_domain")
			 : NULL;

	v = v ? ckpt_model_now(a->g->quant->model, v) : NULL;
	if (!v)
		return refuse(a, err, "its zero_point_domain is missing");
	if (v->kind == CKPT_NONE && a->is_float8)
		a->domain = DOMAIN_NONE;
	else if (!read_domain(a, v, &a->domain))
		return refuse(a, err, "its zero_point_domain is none that ckpt knows");
	if (a->is_float8 && a->domain == DOMAIN_FLOAT)
		return refuse(a, err, "its zero_point_domain is FLOAT, and its numbers are float8");
	return 0;
}

/* *OUT stays as it is if it is None. */
static bool take_bound(const struct affine *a, const char *name, int64_t *out)
{
	const struct ckpt_value *v = find(a, a->outer, name);

	if (v && v->kind == CKPT_FLOAT && a->is_float8 && v->u.real >= -65536 &&
	    v->u.real <= 65536 && v->u.real == (double)(int64_t)v->u.real)
		*out = (int64_t)v->u.real;
	else if (v && v->kind == CKPT_INT)
		*out = v->u.integer;
	else if (v)
		return false;
	return true;
}

static int take_bounds(struct affine *a, struct ckpt_error *err)
{
	enum ckpt_dtype item = a->g->weight.item;
	int64_t most = item == CKPT_DTYPE_INT8		    ? 127
		       : item == CKPT_DTYPE_UINT8	    ? 255
		       : item == CKPT_DTYPE_FLOAT8_E4M3FN   ? 448
		       : item == CKPT_DTYPE_FLOAT8_E4M3FNUZ ? 240
							    : 57344,
		least = item == CKPT_DTYPE_INT8	   ? -128
			: item == CKPT_DTYPE_UINT8 ? 0
						   : -most;

	a->least = least;
	a->most = most;
	if (!take_bound(a, "quant_min", &a->least) || !take_bound(a, "quant_max", &a->most) ||
	    a->least < least || a->most > most || a->least >= a->most)
		return refuse(a, err, "its quant_min and quant_max are no bounds of its numbers");
	if (a->domain == DOMAIN_FLOAT && (a->least + a->most + 1) % 2)
		return refuse(a, err, "its quant_min and quant_max have no middle");
	return 0;
}

/* ---- blocks ---- */

/* Is the shape of ROLE COUNTS, but for ones? Reductions leave some out, and view() in torchao puts them back. */
static bool has_counts(const struct affine *a, enum ckpt_part_role role, const uint64_t *counts)
{
	const struct ckpt_tensor *t = ckpt_quant_tensor(a->g, role);
	uint32_t at = 0;

	for (uint32_t i = 0; i < a->g->ndim; i++) {
		if (counts[i] == 1)
			continue;
		while (at < t->ndim && t->shape[at] == 1)
			at++;
		if (at == t->ndim || t->shape[at++] != counts[i])
			return false;
	}
	while (at < t->ndim && t->shape[at] == 1)
		at++;
	return at == t->ndim;
}

/* Sets COUNTS, how many blocks there are in each dimension, and SIZES. */
static int read_blocks(const struct affine *a, uint64_t *counts, uint64_t *sizes,
		       struct ckpt_error *err)
{
	const struct ckpt_quant_group *g = a->g;
	const struct ckpt_value *v = find(a, a->outer, "block_size");
	const struct ckpt_seq *seq =
		v && (v->kind == CKPT_TUPLE || v->kind == CKPT_LIST) ? &v->u.seq : NULL;

	if (v && ckpt_value_is_call_of(v, "torch", "Size")) {
		v = ckpt_plain_arg(g->quant->model, v, 0);
		seq = v && (v->kind == CKPT_TUPLE || v->kind == CKPT_LIST) ? &v->u.seq : NULL;
	}
	if (!seq || seq->count != g->ndim)
		return refuse(a, err, "its block_size has not a size for each dimension");
	for (uint32_t i = 0; i < g->ndim; i++) {
		const struct ckpt_value *n = ckpt_model_now(g->quant->model, seq->items[i]);

		if (n->kind != CKPT_INT || n->u.integer <= 0 ||
		    g->shape[i] % (uint64_t)n->u.integer || !g->shape[i])
			return refuse(a, err,
				      "its shape is not made of whole blocks of block_size");
		sizes[i] = (uint64_t)n->u.integer;
		counts[i] = g->shape[i] / sizes[i];
	}
	return 0;
}

/*
 * Scales of float8 with COUNTS but for ones. Since 0.12 torch broadcasts them as they are, and view() puts no ones back: those of
 * another shape than COUNTS would be for columns instead of rows, or for blocks of another size. One dimension fits then in a
 * square alone.
 */
static bool has_one_reading(const struct affine *a, const uint64_t *counts)
{
	const struct ckpt_quant_group *g = a->g;
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, CKPT_PART_SCALES);

	if (t->ndim == g->ndim)
		return !memcmp(t->shape, counts, t->ndim * sizeof(*counts));
	return g->ndim == 2 && t->ndim == 1 &&
	       (counts[0] == 1 || t->shape[0] != g->shape[0] || g->shape[0] != g->shape[1]);
}

/* Scales lie as matrices of blocks: blocks span no more than a matrix, or all that there is. */
static int fill_blocks(struct affine *a, uint64_t *counts, struct ckpt_error *err)
{
	struct ckpt_quant_group *g = a->g;
	struct ckpt_quant_weight *w = &g->weight;
	uint64_t sizes[CKPT_MOST_DIMS];
	bool spans = false, is_one = true;
	int rc = read_blocks(a, counts, sizes, err);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < g->ndim; i++) {
		spans |= i + 2 < g->ndim && sizes[i] > 1;
		is_one &= counts[i] == 1;
	}
	if (spans && !is_one)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "'%.200s' has blocks that span matrices, which ckpt does not know",
				 g->name);
	if (!has_counts(a, CKPT_PART_SCALES, counts) ||
	    (a->is_float8 && !is_one && !has_one_reading(a, counts)))
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "wanted one for each block of block_size");
	w->block_rows = sizes[g->ndim - 2];
	w->block_cols = sizes[g->ndim - 1];
	if (spans) { /* ckpt_fill_items() has seen that this fits */
		w->rows *= w->matrices;
		w->matrices = 1;
		w->block_rows = w->rows;
	}
	w->scale_dtype = ckpt_quant_tensor(g, CKPT_PART_SCALES)->dtype;
	return ckpt_quant_bytes(g, CKPT_PART_SCALES, &w->scales, err);
}

/* ---- numbers ---- */

static int fill_zeros(struct affine *a, const uint64_t *counts, struct ckpt_error *err)
{
	struct ckpt_quant_group *g = a->g;
	struct ckpt_quant_weight *w = &g->weight;
	const struct ckpt_tensor *t = ckpt_quant_tensor(g, CKPT_PART_ZEROS);
	bool is_whole = t && (t->dtype == CKPT_DTYPE_INT8 || t->dtype == CKPT_DTYPE_UINT8 ||
			      t->dtype == CKPT_DTYPE_INT32 || t->dtype == CKPT_DTYPE_INT64);

	if (a->domain == DOMAIN_FLOAT) {
		w->zero = CKPT_QUANT_ZERO_FIXED;
		w->zero_fixed = (int32_t)((a->least + a->most + 1) / 2);
	}
	if (!t)
		return 0;
	if (a->domain == DOMAIN_NONE)
		return ckpt_quant_misfit(g, CKPT_PART_ZEROS, err,
					 "the zero_point_domain says that there is none");
	if (!has_counts(a, CKPT_PART_ZEROS, counts))
		return ckpt_quant_misfit(g, CKPT_PART_ZEROS, err,
					 "wanted one for each block of block_size");
	if (!ckpt_fill_is_wide(t->dtype) && (a->domain == DOMAIN_FLOAT || !is_whole))
		return ckpt_quant_misfit(g, CKPT_PART_ZEROS, err,
					 "a zero point of domain %s has another dtype",
					 a->domain == DOMAIN_FLOAT ? "FLOAT" : "INT");
	w->zero = CKPT_QUANT_ZERO_NUMBER;
	w->zero_dtype = t->dtype;
	w->zero_adds = a->domain == DOMAIN_FLOAT;
	w->whole_zeros = a->domain == DOMAIN_INT ? t->name : NULL;
	return ckpt_quant_bytes(g, CKPT_PART_ZEROS, &w->zeros, err);
}

/*
 * INT and NONE: the difference is rounded to the dtype that is asked for, the product is one of that and the scale, as torch
 * promotes them. FLOAT: torchao multiplies and adds in place, so that both are rounded to the dtype that is asked for.
 */
static void set_arithmetic(struct affine *a)
{
	struct ckpt_quant_group *g = a->g;
	enum ckpt_dtype f32 = CKPT_DTYPE_FLOAT32, to = g->quant->to,
			scale = ckpt_quant_tensor(g, CKPT_PART_SCALES)->dtype;

	if (a->is_float8)
		ckpt_fill_arithmetic(g, f32, f32, f32);
	else
		ckpt_fill_arithmetic(g, scale, to,
				     a->domain == DOMAIN_FLOAT || to == scale ? to : f32);
}

static bool is_float8(enum ckpt_dtype dtype)
{
	return dtype == CKPT_DTYPE_FLOAT8_E4M3FN || dtype == CKPT_DTYPE_FLOAT8_E5M2 ||
	       dtype == CKPT_DTYPE_FLOAT8_E4M3FNUZ || dtype == CKPT_DTYPE_FLOAT8_E5M2FNUZ;
}

/* A tensor among ATTRIBUTES that none of the versions has there may change what the numbers mean. */
static int check_half(const struct affine *a, const struct ckpt_value *attributes,
		      struct ckpt_error *err)
{
	static const char *const known[] = { "tensor_impl", "layout_tensor", "int_data",
					     "float8_data", "scale",	     "zero_point" };
	const struct ckpt_model *model = a->g->quant->model;
	const struct ckpt_seq *pairs;
	char shown[200], key_shown[80];

	pairs = attributes ? ckpt_value_pairs(attributes) : NULL;
	for (uint32_t i = 0; pairs && i + 1 < pairs->count; i += 2) {
		const struct ckpt_value *key = ckpt_model_now(model, pairs->items[i]);
		bool is_known = false;

		if (!ckpt_value_is_text(key) ||
		    !ckpt_value_is_tensor(model, ckpt_model_now(model, pairs->items[i + 1])))
			continue;
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			is_known |= key->u.bytes.len == strlen(known[k]) &&
				    !memcmp(key->u.bytes.ptr, known[k], key->u.bytes.len);
		if (!is_known)
			return ckpt_fail(
				err, CKPT_E_UNSUPPORTED,
				"'%s' is an AffineQuantizedTensor of torchao with a tensor '%s', which ckpt does not know",
				ckpt_escape(shown, sizeof(shown), a->g->name, strlen(a->g->name)),
				ckpt_escape(key_shown, sizeof(key_shown), key->u.bytes.ptr,
					    key->u.bytes.len));
	}
	return 0;
}

static int check_attributes(const struct affine *a, const struct ckpt_value *attributes,
			    struct ckpt_error *err)
{
	int rc = 0;

	if (!attributes || attributes->kind != CKPT_TUPLE)
		return check_half(a, attributes, err);
	for (uint32_t half = 0; rc == 0 && half < attributes->u.seq.count; half++)
		rc = check_half(
			a, ckpt_model_now(a->g->quant->model, attributes->u.seq.items[half]), err);
	return rc;
}

static int take_parts(struct affine *a, struct ckpt_error *err)
{
	static const struct {
		const char *plain, *float8;
		enum ckpt_part_role role;
	} parts[] = { { "int_data", "float8_data", CKPT_PART_ITEMS },
		      { "scale", "scale", CKPT_PART_SCALES },
		      { "zero_point", "zero_point", CKPT_PART_ZEROS } };
	const struct ckpt_value *turned = a->is_float8 ? find(a, a->inner, "transposed") : NULL;
	struct ckpt_quant_group *g = a->g;
	enum ckpt_dtype item;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const char *name = a->is_float8 ? parts[i].float8 : parts[i].plain;
		const struct ckpt_value *v = find(a, a->inner, name);
		int rc = v ? ckpt_quant_add_part(g, parts[i].role, name, v, err) : 0;

		if (rc < 0)
			return rc;
		if (!v && parts[i].role != CKPT_PART_ZEROS)
			return refuse(a, err,
				      i ? "its scale is missing" : "its numbers are missing");
	}
	item = ckpt_quant_tensor(g, CKPT_PART_ITEMS)->dtype;
	if (a->is_float8 ? !is_float8(item) : item != CKPT_DTYPE_INT8 && item != CKPT_DTYPE_UINT8)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "wanted %s",
					 a->is_float8 ? "a float8 type" : "int8 or uint8");
	if (!ckpt_fill_is_wide(ckpt_quant_tensor(g, CKPT_PART_SCALES)->dtype))
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err,
					 "wanted float32, float16 or bfloat16");
	if (a->is_float8 && g->parts[CKPT_PART_ZEROS].entry)
		return ckpt_quant_misfit(g, CKPT_PART_ZEROS, err, "float8 has none");
	if (turned && (turned->kind != CKPT_BOOL || turned->u.integer))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "'%.200s' is transposed, and its float8_data is not", g->name);
	return 0;
}

int ckpt_fill_affine(struct ckpt_quant_group *g, struct ckpt_error *err)
{
	struct affine a = { .g = g, .outer = g->whole->attributes };
	uint64_t counts[CKPT_MOST_DIMS];
	int rc = take_impl(&a, err);

	if (rc == 0)
		rc = check_attributes(&a, a.outer, err);
	if (rc == 0)
		rc = check_attributes(&a, a.inner, err);
	if (rc == 0)
		rc = take_parts(&a, err);
	if (rc == 0)
		rc = take_domain(&a, err);
	if (rc < 0)
		return rc;
	g->weight.code = CKPT_QUANT_NUMBER;
	g->weight.item = ckpt_quant_tensor(g, CKPT_PART_ITEMS)->dtype;
	g->weight.bits = 8;
	rc = take_bounds(&a, err);
	if (rc == 0)
		rc = ckpt_fill_items(g, 1, err);
	if (rc == 0)
		rc = fill_blocks(&a, counts, err);
	if (rc == 0)
		rc = fill_zeros(&a, counts, err);
	set_arithmetic(&a);
	snprintf(g->scheme, sizeof(g->scheme),
		 "%s of torchao, a scale for %" PRIu64 " x %" PRIu64 " numbers",
		 ckpt_dtype_name(g->weight.item), g->weight.block_rows, g->weight.block_cols);
	return rc;
}
