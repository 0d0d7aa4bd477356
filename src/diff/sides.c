/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes one side of a pair, and compares two sides as far as that goes without reading their
 * bytes: type, shape, dtype, device, layout, and recorded checksums where these are trusted.
 *
 * Checksums stand for bytes only if both tensors show the same part of their storages (same_view())
 * and both files have the same byte order. Descriptions live in the arena of the comparison:
 * release it to a mark after each pair, or it grows with all of them.
 */
#include "diff/sides.h"

#include "diff/values.h"
#include "model/describe.h"
#include "model/numpy_value.h"
#include "tensor/shape.h"

#include <string.h>

/* ---- sides ---- */

static const char *copy_text(struct ckpt_arena *arena, const struct ckpt_buf *text)
{
	return ckpt_arena_copy(arena, text->data, strlen((const char *)text->data));
}

static int describe_value(const struct ckpt_entries *entries, const struct ckpt_entry *e,
			  struct ckpt_arena *arena, struct ckpt_diff_side *out,
			  struct ckpt_error *err)
{
	struct ckpt_describer describer = { .model = entries->model };
	struct ckpt_item item = { .size = sizeof(item) };
	int rc = ckpt_describe(&describer, e->value, &item, err);

	if (rc == 0) {
		out->type = copy_text(arena, &describer.type);
		out->text = copy_text(arena, &describer.text);
		rc = out->type && out->text ? 0 : ckpt_arena_fail(arena, err);
	}
	ckpt_describer_clear(&describer);
	return rc;
}

static void describe_tensor(const struct ckpt_model *model, const struct ckpt_tensor *t,
			    struct ckpt_diff_side *out)
{
	struct ckpt_tensor_info info;

	ckpt_tensor_describe(model, t, &info);
	out->type = "tensor";
	out->dtype = info.dtype;
	out->device = info.device;
	out->layout = info.layout;
	out->class_name = info.class_name;
	out->ndim = info.ndim;
	out->shape = info.shape;
	out->nbytes = info.nbytes;
}

static int describe_storage(const struct ckpt_model *model, const struct ckpt_value *v,
			    struct ckpt_arena *arena, struct ckpt_diff_side *out,
			    struct ckpt_error *err)
{
	const struct ckpt_storage *s = &model->storages[ckpt_storage_of(v)];
	uint64_t *shape = ckpt_arena_calloc(arena, 1, sizeof(*shape));

	if (!shape)
		return ckpt_arena_fail(arena, err);
	shape[0] = s->numel;
	out->type = "storage";
	out->dtype = ckpt_dtype_name(s->dtype);
	out->device = s->location ? s->location : "";
	out->ndim = 1;
	out->shape = shape;
	out->nbytes = s->nbytes;
	return 0;
}

static int describe_array(const struct ckpt_model *model, const struct ckpt_value *v,
			  struct ckpt_arena *arena, struct ckpt_diff_side *out,
			  struct ckpt_error *err)
{
	struct ckpt_numpy n;
	uint64_t *shape;

	if (ckpt_numpy_parse(model, v, &n) <= 0)
		return ckpt_fail(err, CKPT_E_FORMAT, "is no array");
	shape = ckpt_arena_calloc(arena, n.ndim + 1u, sizeof(*shape));
	if (!shape)
		return ckpt_arena_fail(arena, err);
	memcpy(shape, n.shape, n.ndim * sizeof(*shape));
	out->type = "ndarray";
	out->dtype = ckpt_dtype_name(n.dtype);
	out->device = "";
	out->ndim = n.ndim;
	out->shape = shape;
	out->nbytes = n.numel * ckpt_dtype_size(n.dtype);
	return 0;
}

int ckpt_describe_side(const struct ckpt_entries *entries, const struct ckpt_entry *e,
		       struct ckpt_arena *arena, struct ckpt_diff_side *out, struct ckpt_error *err)
{
	*out = (struct ckpt_diff_side){ .text = "", .is_array = true, .layout = "strided" };
	switch ((enum ckpt_entry_kind)e->kind) {
	case CKPT_ENTRY_TENSOR: describe_tensor(entries->model, e->t, out); return 0;
	case CKPT_ENTRY_STORAGE: return describe_storage(entries->model, e->value, arena, out, err);
	case CKPT_ENTRY_ARRAY: return describe_array(entries->model, e->value, arena, out, err);
	default: break;
	}
	*out = (struct ckpt_diff_side){ .dtype = "", .device = "", .layout = "" };
	return describe_value(entries, e, arena, out, err);
}

uint64_t ckpt_pair_nbytes(const struct ckpt_comparison *c, const struct ckpt_pair *pair)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(c->arena);
	struct ckpt_diff_side a, b;
	uint64_t nbytes = 0;

	if (ckpt_describe_side(&c->a, pair->a, c->arena, &a, NULL) == 0 &&
	    ckpt_describe_side(&c->b, pair->b, c->arena, &b, NULL) == 0 &&
	    __builtin_add_overflow(a.nbytes, b.nbytes, &nbytes))
		nbytes = UINT64_MAX;
	ckpt_arena_release(c->arena, mark);
	return nbytes;
}

/* ---- checksums ---- */

bool ckpt_recorded_crc(const struct ckpt_model *model, int64_t i, uint32_t *crc)
{
	const struct ckpt_storage *s = &model->storages[i];

	if (s->view)
		return false;
	if (s->made && s->made->has_crc && s->made->len == s->nbytes)
		*crc = s->made->crc32;
	else if (!s->made && s->has_crc)
		*crc = s->crc32;
	else
		return false;
	return true;
}

static bool same_view(const struct ckpt_tensor *a, const struct ckpt_tensor *b)
{
	if (a->kind != b->kind || a->dtype != b->dtype || a->ndim != b->ndim ||
	    a->offset != b->offset || a->is_conj != b->is_conj || a->is_neg != b->is_neg)
		return false;
	for (uint32_t i = 0; i < a->ndim; i++)
		if (a->shape[i] != b->shape[i] || (a->shape[i] > 1 && a->stride[i] != b->stride[i]))
			return false;
	return true;
}

/* Is it one record, as both models are of one file? */
static bool same_record(const struct ckpt_comparison *c, const struct ckpt_storage *a,
			const struct ckpt_storage *b)
{
	return c->one_file && !a->made && !b->made && !a->view && !b->view &&
	       !strcmp(a->key, b->key);
}

bool ckpt_same_bytes(const struct ckpt_comparison *c, const struct ckpt_tensor *ta,
		     const struct ckpt_tensor *tb)
{
	const struct ckpt_model *ma = c->a.model, *mb = c->b.model;
	const struct ckpt_storage *a, *b;
	uint32_t crc_a, crc_b;

	if (ta->storage < 0 || tb->storage < 0 || !ta->stride || !tb->stride ||
	    !same_view(ta, tb) || ma->doc->big_endian != mb->doc->big_endian)
		return false;
	a = &ma->storages[ta->storage];
	b = &mb->storages[tb->storage];
	if (a->nbytes != b->nbytes)
		return false;
	return same_record(c, a, b) ||
	       (ckpt_recorded_crc(ma, ta->storage, &crc_a) &&
		ckpt_recorded_crc(mb, tb->storage, &crc_b) && crc_a == crc_b);
}

/* ---- comparing ---- */

static bool same_shape(const struct ckpt_diff_side *a, const struct ckpt_diff_side *b)
{
	return a->ndim == b->ndim &&
	       (!a->ndim || !memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)));
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool same_strides(const struct ckpt_tensor *a, const struct ckpt_tensor *b)
{
	if (!a || !b || !a->stride || !b->stride)
		return true;
	for (uint32_t i = 0; i < a->ndim; i++)
		if (a->shape[i] > 1 && a->stride[i] != b->stride[i])
			return false;
	return true;
}

static bool same_class(const struct ckpt_tensor *a, const struct ckpt_tensor *b)
{
	return !a || !b ||
	       (same_text(a->class_name, b->class_name) && a->requires_grad == b->requires_grad &&
		a->is_parameter == b->is_parameter);
}

static bool is_wrapper(const struct ckpt_entry *e)
{
	return e->t && e->t->kind == CKPT_KIND_WRAPPER;
}

static uint32_t compare_descriptions(const struct ckpt_comparison *c, const struct ckpt_pair *pair,
				     const struct ckpt_diff_side *a, const struct ckpt_diff_side *b)
{
	const struct ckpt_tensor *ta = pair->a->t, *tb = pair->b->t;
	bool wrapped = is_wrapper(pair->a) || is_wrapper(pair->b);
	uint32_t what = 0;

	if (pair->a->kind != pair->b->kind || is_wrapper(pair->a) != is_wrapper(pair->b) ||
	    (wrapped && !same_text(ta->class_name, tb->class_name)))
		what |= CKPT_DIFFERS_TYPE;
	if (!same_shape(a, b))
		what |= CKPT_DIFFERS_SHAPE;
	if (strcmp(a->dtype, b->dtype) != 0 && !ckpt_comparison_has(c, CKPT_DIFF_IGNORE_DTYPE))
		what |= CKPT_DIFFERS_DTYPE;
	if (*a->device && *b->device && strcmp(a->device, b->device) != 0 &&
	    !ckpt_comparison_has(c, CKPT_DIFF_IGNORE_DEVICE))
		what |= CKPT_DIFFERS_DEVICE;
	if (!wrapped && strcmp(a->layout, b->layout) != 0)
		what |= CKPT_DIFFERS_LAYOUT;
	if (!ckpt_comparison_has(c, CKPT_DIFF_STRICT))
		return what;
	if (!(what & CKPT_DIFFERS_SHAPE) && !same_strides(ta, tb))
		what |= CKPT_DIFFERS_STRIDES;
	return same_class(ta, tb) ? what : what | CKPT_DIFFERS_CLASS;
}

/* What hangs in several places is asked for by the name that the list of tensors has. */
static bool is_asked_for(const struct ckpt_comparison *c, const struct ckpt_entry *e)
{
	const char *name = e->t && e->t->name ? e->t->name : e->name;

	return !c->options.reads || !e->t || c->options.reads(c->options.reads_ctx, name);
}

/* Have numbers to be read, as nothing shows yet whether they are equal? */
static bool is_to_be_read(const struct ckpt_comparison *c, struct ckpt_pair *pair,
			  const struct ckpt_diff_side *side)
{
	const struct ckpt_tensor *ta = pair->a->t, *tb = pair->b->t;

	if (ckpt_comparison_has(c, CKPT_DIFF_QUICK) || pair->what & CKPT_DIFFERS_SHAPE ||
	    pair->a->is_whole || pair->b->is_whole ||
	    ckpt_shape_is_empty(side->shape, side->ndim) ||
	    !is_asked_for(c, pair->a))
		return false;
	if (!ckpt_comparison_trusts(c) || !ta || !tb || ta->kind != CKPT_KIND_STRIDED)
		return true;
	pair->by_checksum = ckpt_same_bytes(c, ta, tb);
	return !pair->by_checksum;
}

/* Class, order and byte order of arrays, for a strict comparison. */
static void compare_array_forms(const struct ckpt_comparison *c, struct ckpt_pair *pair)
{
	struct ckpt_numpy a, b;

	if (ckpt_numpy_parse(c->a.model, pair->a->value, &a) <= 0 ||
	    ckpt_numpy_parse(c->b.model, pair->b->value, &b) <= 0)
		return;
	if (a.ndim == b.ndim && memcmp(a.axes, b.axes, a.ndim) != 0)
		pair->what |= CKPT_DIFFERS_STRIDES;
	if (a.big_endian != b.big_endian && ckpt_dtype_size(a.dtype) > 1)
		pair->what |= CKPT_DIFFERS_BITS;
	if (!ckpt_same_class_of_numpy(c, pair->a->value, pair->b->value))
		pair->what |= CKPT_DIFFERS_CLASS;
}

int ckpt_compare_sides(const struct ckpt_comparison *c, struct ckpt_pair *pair,
		       struct ckpt_error *err)
{
	struct ckpt_arena_mark mark = ckpt_arena_mark(c->arena);
	struct ckpt_diff_side a, b;
	int rc = ckpt_describe_side(&c->a, pair->a, c->arena, &a, err);

	if (rc == 0)
		rc = ckpt_describe_side(&c->b, pair->b, c->arena, &b, err);
	if (rc == 0) {
		pair->what = compare_descriptions(c, pair, &a, &b);
		pair->state = pair->what ? CKPT_PAIR_CHANGED : CKPT_PAIR_SAME;
		if (is_to_be_read(c, pair, &a))
			pair->state = CKPT_PAIR_TO_READ;
	}
	ckpt_arena_release(c->arena, mark); /* why a pair cannot be compared stays there */
	if (rc == 0) {
		if (pair->a->t && pair->b->t && !is_wrapper(pair->a) && !is_wrapper(pair->b))
			rc = ckpt_compare_attributes(c, pair, err);
		if (rc == 0 && ckpt_comparison_has(c, CKPT_DIFF_STRICT) &&
		    pair->a->kind == CKPT_ENTRY_ARRAY && pair->b->kind == CKPT_ENTRY_ARRAY)
			compare_array_forms(c, pair);
		if (pair->what && pair->state == CKPT_PAIR_SAME)
			pair->state = CKPT_PAIR_CHANGED;
	}
	return rc;
}
