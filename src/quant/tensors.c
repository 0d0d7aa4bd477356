/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that say on their own how they are quantized, so that neither names nor a configuration are asked: those that torch
 * quantized itself (torch.quantize_per_tensor() and its like), whose numbers are those of <ckpt/read.h>
 * (src/array/quantized.c), and torchao's classes as torch.save() pickles them, whose attributes are the parts and settings that a
 * safetensors file has elsewhere (torchao.c, affine.c). Those of Transformer Engine are in engine.c.
 *
 * What must stay true: a tensor is listed once, however many names it has; a quantized class that is not known is an error.
 */
#include "quant/fill.h"

#include "array/array.h"
#include "base/grow.h"
#include "base/text.h"
#include "model/plain_values.h"
#include "model/state_dict.h"
#include "tensor/shape.h"

#include <stdio.h>
#include <string.h>

static struct ckpt_quant_group *new_group(struct ckpt_quant *q, const struct ckpt_tensor *t,
					  struct ckpt_error *err)
{
	struct ckpt_quant_group *g = ckpt_quant_new_group(q, err);

	if (!g)
		return NULL;
	g->whole = t;
	g->base = g->key = g->name = t->name;
	return g;
}

static int set_part(struct ckpt_quant_group *g, enum ckpt_part_role role,
		    const struct ckpt_tensor *t, struct ckpt_error *err)
{
	struct ckpt_quant_entry *e = ckpt_arena_calloc(g->quant->arena, 1, sizeof(*e));

	if (!e)
		return ckpt_arena_fail(g->quant->arena, err);
	e->t = t;
	e->group = g;
	g->parts[role].entry = e;
	g->parts[role].suffix = "";
	return 0;
}

/* ---- torch ---- */

static int open_array(struct ckpt_quant *q, const struct ckpt_tensor *t, struct ckpt_array **out,
		      struct ckpt_error *err)
{
	void *grown =
		ckpt_grow(q->arrays, q->array_count, &q->array_cap, sizeof(struct ckpt_array *));
	int rc;

	if (!grown)
		return ckpt_fail_nomem(err);
	q->arrays = grown;
	rc = ckpt_array_open_value(q->model, t->value, t->name, 0, out, err);
	if (rc == 0)
		q->arrays[q->array_count++] = *out;
	return rc;
}

static int add_quantized(struct ckpt_quant *q, const struct ckpt_tensor *t, struct ckpt_error *err)
{
	struct ckpt_quant_group *g = new_group(q, t, err);
	struct ckpt_array *array;
	int rc;

	if (!g)
		return CKPT_E_NOMEM;
	g->ndim = t->ndim;
	memcpy(g->shape, t->shape, t->ndim * sizeof(*t->shape));
	rc = set_part(g, CKPT_PART_ITEMS, t, err);
	if (rc == 0)
		rc = open_array(q, t, &array, err);
	if (rc < 0)
		return rc;
	g->has_numbers = true;
	snprintf(g->scheme, sizeof(g->scheme), "%s of torch, a scale for a %s",
		 ckpt_dtype_name(t->dtype),
		 array->qscheme && !strncmp(array->qscheme, "per_channel", 11) ? "channel"
									       : "tensor");
	return ckpt_array_recipe(array, q->arena, &g->numbers, err);
}

/* ---- torchao ---- */

/* _rebuild_from_type_v2(func, class, args, state) */
const struct ckpt_global *ckpt_quant_class(const struct ckpt_model *model,
					   const struct ckpt_value *v)
{
	const struct ckpt_value *cls = v->kind == CKPT_CALL ? ckpt_plain_arg(model, v, 1) : NULL;

	return cls && cls->kind == CKPT_GLOBAL ? cls->u.global : NULL;
}

const struct ckpt_value *ckpt_quant_attribute(const struct ckpt_model *model,
					      const struct ckpt_value *attributes, const char *name)
{
	const struct ckpt_value *v = attributes ? ckpt_state_find(model, attributes, name) : NULL;

	v = v ? ckpt_model_now(model, v) : NULL;
	return v && v->kind != CKPT_NONE ? v : NULL;
}

static const struct ckpt_value *attribute(const struct ckpt_quant_group *g, const char *name)
{
	return ckpt_quant_attribute(g->quant->model, g->whole->attributes, name);
}

int ckpt_quant_add_part(struct ckpt_quant_group *g, enum ckpt_part_role role, const char *name,
			const struct ckpt_value *v, struct ckpt_error *err)
{
	struct ckpt_quant *q = g->quant;
	struct ckpt_buf full = { 0 };
	struct ckpt_tensor *t = ckpt_arena_calloc(q->arena, 1, sizeof(*t));
	int rc;

	if (!t)
		return ckpt_arena_fail(q->arena, err);
	rc = ckpt_tensor_parse(q->model, v, q->arena, t, err);
	if (rc < 0)
		return rc;
	if (rc == 0 || t->kind != CKPT_KIND_STRIDED || t->storage < 0)
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "'%.200s' has a %s that is no plain tensor", g->name, name);
	ckpt_buf_printf(&full, "%s.%s", g->name, name);
	t->name = full.bad ? NULL : ckpt_arena_copy(q->arena, (char *)full.data, full.len);
	ckpt_buf_clear(&full);
	return t->name ? set_part(g, role, t, err) : ckpt_fail_nomem(err);
}

static json_t *dtype_text(const char *name)
{
	return json_pack("{s:s}", "_data", name);
}

/* Settings as the metadata of safetensors have them; what torchao.c does not ask for is left out. */
static json_t *settings_of(const struct ckpt_quant_group *g)
{
	static const char *const dtypes[] = { "elem_dtype", "target_dtype", "orig_dtype",
					      "_orig_dtype" };
	const struct ckpt_model *model = g->quant->model;
	json_t *data = json_object(), *sizes;
	const struct ckpt_value *size = attribute(g, "block_size"),
				*swizzled = attribute(g, "is_swizzled_scales");

	if (!swizzled) /* up to 0.15 */
		swizzled = attribute(g, "_is_swizzled_scales");
	json_object_set_new(data, "dtype", dtype_text(ckpt_dtype_name(g->whole->dtype)));
	for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		const struct ckpt_value *dtype = attribute(g, dtypes[i]);

		if (dtype && dtype->kind == CKPT_GLOBAL)
			json_object_set_new(data, dtypes[i], dtype_text(dtype->u.global->name));
	}
	if (swizzled) /* a text is an error: torchao asks whether Python takes it for true */
		json_object_set_new(data, "is_swizzled_scales",
				    swizzled->kind == CKPT_BOOL ? json_boolean(swizzled->u.integer) : json_string(""));
	if (size && size->kind == CKPT_INT)
		json_object_set_new(data, "block_size", json_integer(size->u.integer));
	if (!size || (size->kind != CKPT_LIST && size->kind != CKPT_TUPLE))
		return data;
	sizes = json_array();
	for (uint32_t i = 0; i < size->u.seq.count && i < CKPT_MOST_DIMS; i++) {
		const struct ckpt_value *n = ckpt_model_now(model, size->u.seq.items[i]);

		json_array_append_new(sizes, n->kind == CKPT_INT ? json_integer(n->u.integer)
								 : json_null());
	}
	json_object_set_new(data, "block_size", sizes);
	return data;
}

/* The parts together are a tensor of the shape that the whole is said to have. */
static int check_shape(const struct ckpt_quant_group *g, struct ckpt_error *err)
{
	if (g->ndim == g->whole->ndim &&
	    !memcmp(g->shape, g->whole->shape, g->ndim * sizeof(*g->shape)))
		return 0;
	return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err,
				 "the tensor that it is a part of has another shape");
}

static int fill_wrapper(struct ckpt_quant_group *g, const char *class, struct ckpt_error *err)
{
	static const struct {
		const char *name;
		enum ckpt_part_role role;
	} parts[] = { { "qdata", CKPT_PART_ITEMS },
		      { "scale", CKPT_PART_SCALES },
		      { "zero_point", CKPT_PART_ZEROS },
		      { "per_tensor_scale", CKPT_PART_GLOBAL } };
	json_t *names = json_array(), *says;
	char shown[80];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
		const struct ckpt_value *v = attribute(g, parts[i].name);

		rc = v ? ckpt_quant_add_part(g, parts[i].role, parts[i].name, v, err) : 0;
		if (rc == 0 && g->parts[parts[i].role].entry)
			json_array_append_new(names, json_string(parts[i].name));
	}
	if (rc == 0 && attribute(g, "act_pre_scale"))
		rc = ckpt_fail(
			err, CKPT_E_UNSUPPORTED,
			"'%.200s' has an act_pre_scale, which changes what it means: there is no plain weight that is the same",
			g->name);
	if (rc == 0 && (!g->parts[CKPT_PART_ITEMS].entry || !g->parts[CKPT_PART_SCALES].entry))
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED,
			       "'%.200s' is a %s of torchao, in a form that ckpt does not know",
			       g->name, ckpt_escape(shown, sizeof(shown), class, strlen(class)));
	says = json_pack("{s:s, s:o, s:o}", "_type", class, "_data", settings_of(g),
			 "_tensor_data_names", names);
	if (!says && rc == 0)
		rc = ckpt_fail_nomem(err);
	if (rc == 0)
		rc = ckpt_fill_torchao_class(g, says, err);
	json_decref(says);
	return rc < 0 ? rc : check_shape(g, err);
}

static const char *name_class(const struct ckpt_model *model, const struct ckpt_value *v, char *buf,
			      size_t len)
{
	const struct ckpt_global *class = ckpt_quant_class(model, v);

	return class ? ckpt_escape(buf, len, class->name, strlen(class->name)) : "a tensor";
}

bool ckpt_quant_is_of_torchao(const struct ckpt_global *class)
{
	static const char *const packages[] = { "_models",	"core",	   "dtypes",	   "experimental",
						"float8",	"kernel",  "optim",	   "prototype",
						"quantization", "sparsity", "swizzle",	   "testing",
						"utils" };

	if (strncmp(class->module, "torchao.", 8) != 0)
		return false;
	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++) {
		size_t len = strlen(packages[i]);

		if (!strncmp(class->module + 8, packages[i], len) &&
		    (!class->module[8 + len] || class->module[8 + len] == '.'))
			return true;
	}
	return false;
}

/* A class of torchao. Others (DTensor, those of programs) are left, as far as torch tells that they are tensors. */
static int add_wrapper(struct ckpt_quant *q, const struct ckpt_tensor *t, struct ckpt_error *err)
{
	const struct ckpt_global *class = ckpt_quant_class(q->model, t->value);
	const struct ckpt_value *inner;
	struct ckpt_quant_group *g;
	char shown[80], shown_inner[80];
	int rc;

	if (!class || strncmp(class->module, "torchao.", 8) != 0) {
		q->unknown_count += !t->class_name || strcmp(t->class_name, "DTensor") != 0;
		return 0;
	}
	if (!ckpt_quant_is_of_torchao(class))
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "'%.200s' is a %s of '%s', a module that torchao does not have",
				 t->name,
				 ckpt_escape(shown, sizeof(shown), class->name,
					     strlen(class->name)),
				 ckpt_escape(shown_inner, sizeof(shown_inner), class->module,
					     strlen(class->module)));
	g = new_group(q, t, err);
	if (!g)
		return CKPT_E_NOMEM;
	q->has_wrappers = true;
	inner = attribute(g, "original_weight_tensor");
	if (inner) /* torchao has no dequantize() of these, which would say what is meant */
		return ckpt_fail(err, CKPT_E_UNSUPPORTED,
				 "'%.200s' is a %s of torchao around %s, which ckpt does not know",
				 g->name,
				 ckpt_escape(shown, sizeof(shown), class->name,
					     strlen(class->name)),
				 name_class(q->model, inner, shown_inner, sizeof(shown_inner)));
	g->holder = t->attributes;
	if (strcmp(class->name, "AffineQuantizedTensor") != 0)
		return fill_wrapper(g, class->name, err);
	rc = ckpt_fill_affine(g, err);
	return rc < 0 ? rc : check_shape(g, err);
}

/* ---- all of them ---- */

int ckpt_quant_add_tensors(struct ckpt_quant *q, struct ckpt_error *err)
{
	int rc = 0;

	q->has_wrappers = false;
	q->unknown_count = 0;
	for (uint32_t i = 0; rc == 0 && i < q->model->tensor_count; i++) {
		const struct ckpt_tensor *t = &q->model->tensors[i];
		uint32_t first = i;

		if (!t->name || (t->kind != CKPT_KIND_WRAPPER &&
				 (t->kind != CKPT_KIND_QUANTIZED || t->storage < 0)))
			continue;
		rc = ckpt_model_tensor_of(q->model, t->value, &first, err);
		if (rc == 0 && first == i)
			rc = t->kind == CKPT_KIND_WRAPPER ? add_wrapper(q, t, err)
							  : add_quantized(q, t, err);
	}
	return rc < 0 ? rc : ckpt_quant_add_engine(q, err);
}
