/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transformer Engine's Float8Tensor, which rebuilds itself in a way of its own: a call of a method or function with (data, fp8_dtype,
 * fp8_scale_inv, dtype), of versions 1.x, or one more, the shape, of 2.x. Sources: transformer_engine/pytorch, float8_tensor.py and
 * tensor/float8_tensor.py, _make_in_reduce_ex() and _make_float8_tensor_in_reduce_ex(); common/util/cast_kernels.cuh,
 * dequantize_func(): a byte as float8 times fp8_scale_inv, in float32, and then rounded to what is asked for.
 *
 * Its fp8_dtype is a number, which is one more after 2.2, when kInt16 was put in front: float8_e4m3fn was 6 and is 7, float8_e5m2 was
 * 7 and is 8. Of files of 2.x 7 is float8_e4m3fn, as Transformer Engine itself reads it today: the other one is for gradients.
 *
 * What must stay true: such a call is no tensor to the model, so that nothing else sees one in it; every other call of a module with
 * tensors of Transformer Engine is refused by name.
 */
#include "quant/fill.h"

#include "base/text.h"
#include "model/plain_values.h"
#include "model/walk.h"
#include "tensor/shape.h"

#include <stdio.h>
#include <string.h>

static bool is_text(const struct ckpt_value *v, const char *text)
{
	return ckpt_value_is_text(v) && v->u.bytes.len == strlen(text) &&
	       !memcmp(v->u.bytes.ptr, text, v->u.bytes.len);
}

/* Float8Tensor._make_in_reduce_ex, which pickles as getattr(Float8Tensor, "_make_in_reduce_ex"), or the function of 2.16 and later */
static bool makes_float8(const struct ckpt_model *model, const struct ckpt_value *func)
{
	const struct ckpt_global *class = ckpt_plain_engine_class(model, func);

	if (!class ||
	    (strcmp(class->module, "transformer_engine.pytorch.tensor.float8_tensor") != 0 &&
	     strcmp(class->module, "transformer_engine.pytorch.float8_tensor") != 0))
		return false;
	if (func->kind == CKPT_GLOBAL)
		return !strcmp(class->name, "_make_float8_tensor_in_reduce_ex");
	return (ckpt_value_is_call_of(func, "__builtin__", "getattr") ||
		ckpt_value_is_call_of(func, "builtins", "getattr")) &&
	       !strcmp(class->name, "Float8Tensor") &&
	       is_text(ckpt_plain_arg(model, func, 1), "_make_in_reduce_ex");
}

/* ---- one tensor ---- */

enum { OF_1 = 4, OF_2 = 5 /* arguments */ };

struct float8 {
	struct ckpt_quant_group *g;
	const struct ckpt_value *data, *fp8_dtype, *scale_inv, *dtype, *shape; /* SHAPE: or NULL */
};

static int refuse(const struct float8 *f, struct ckpt_error *err, const char *why)
{
	char shown[200];

	return ckpt_fail(err, CKPT_E_FORMAT, "'%s' is a Float8Tensor of Transformer Engine: %s",
			 ckpt_escape(shown, sizeof(shown), f->g->name, strlen(f->g->name)), why);
}

/*
 * DType, an enum of the C++ part or, later, one of Python. At first it is an object whose state is the number; calls of the
 * class with a number came long after the numbers had changed.
 */
static enum ckpt_dtype read_fp8_dtype(const struct float8 *f)
{
	const struct ckpt_model *model = f->g->quant->model;
	const struct ckpt_value *v = f->fp8_dtype, *n = NULL, *class;
	bool is_object;

	if (v->kind != CKPT_CALL)
		return CKPT_DTYPE_UNKNOWN;
	class = ckpt_model_now(model, v->u.call->func);
	if (class->kind != CKPT_GLOBAL || strcmp(class->u.global->name, "DType") != 0 ||
	    (strcmp(class->u.global->module, "transformer_engine_torch") != 0 &&
	     strcmp(class->u.global->module, "transformer_engine_extensions") != 0 &&
	     strncmp(class->u.global->module, "transformer_engine.", 19) != 0))
		return CKPT_DTYPE_UNKNOWN;
	is_object = v->u.call->kind == CKPT_CALL_NEWOBJ;
	if (is_object && v->u.call->state && ckpt_plain_arg_count(model, v) == 0)
		n = ckpt_model_now(model, v->u.call->state);
	else if (v->u.call->kind == CKPT_CALL_REDUCE && !v->u.call->state &&
		 ckpt_plain_arg_count(model, v) == 1)
		n = ckpt_plain_arg(model, v, 0);
	if (!n || n->kind != CKPT_INT || (!is_object && !f->shape))
		return CKPT_DTYPE_UNKNOWN;
	switch (n->u.integer) {
	case 6: return is_object ? CKPT_DTYPE_FLOAT8_E4M3FN : CKPT_DTYPE_UNKNOWN;
	case 7: return f->shape ? CKPT_DTYPE_FLOAT8_E4M3FN : CKPT_DTYPE_FLOAT8_E5M2;
	case 8: return f->shape ? CKPT_DTYPE_FLOAT8_E5M2 : CKPT_DTYPE_UNKNOWN;
	default: return CKPT_DTYPE_UNKNOWN;
	}
}

/* SHAPE says what DATA has. */
static bool has_shape(const struct float8 *f)
{
	const struct ckpt_model *model = f->g->quant->model;
	const struct ckpt_value *v = f->shape;

	if (v && ckpt_value_is_call_of(v, "torch", "Size"))
		v = ckpt_plain_arg(model, v, 0);
	if (!v || v->kind != CKPT_TUPLE || v->u.seq.count != f->g->ndim)
		return false;
	for (uint32_t i = 0; i < f->g->ndim; i++) {
		const struct ckpt_value *n = ckpt_model_now(model, v->u.seq.items[i]);

		if (n->kind != CKPT_INT || n->u.integer < 0 ||
		    (uint64_t)n->u.integer != f->g->shape[i])
			return false;
	}
	return true;
}

static int fill(struct float8 *f, struct ckpt_error *err)
{
	struct ckpt_quant_group *g = f->g;
	const enum ckpt_dtype f32 = CKPT_DTYPE_FLOAT32;
	const struct ckpt_tensor *scale;
	int rc = ckpt_quant_add_part(g, CKPT_PART_ITEMS, "data", f->data, err);

	if (rc == 0)
		rc = ckpt_quant_add_part(g, CKPT_PART_SCALES, "fp8_scale_inv", f->scale_inv, err);
	if (rc < 0)
		return rc;
	scale = ckpt_quant_tensor(g, CKPT_PART_SCALES);
	if (ckpt_quant_tensor(g, CKPT_PART_ITEMS)->dtype != CKPT_DTYPE_UINT8)
		return ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "wanted uint8");
	if (scale->dtype != f32 || ckpt_shape_numel(scale->shape, scale->ndim) != 1)
		return ckpt_quant_misfit(g, CKPT_PART_SCALES, err, "wanted one number of float32");
	g->weight.code = CKPT_QUANT_NUMBER;
	g->weight.bits = 8;
	g->weight.item = read_fp8_dtype(f);
	if (g->weight.item == CKPT_DTYPE_UNKNOWN)
		return refuse(f, err, "its fp8_dtype is none that ckpt knows");
	rc = ckpt_fill_items(g, 1, err);
	if (rc == 0 && f->shape && !has_shape(f))
		rc = ckpt_quant_misfit(g, CKPT_PART_ITEMS, err, "its shape is said to be another");
	ckpt_fill_arithmetic(g, f32, f32, f32);
	return rc < 0 ? rc : ckpt_fill_single(g, err);
}

static int read_whole(const struct float8 *f, struct ckpt_tensor *t, struct ckpt_error *err)
{
	if (f->dtype && f->dtype->kind == CKPT_GLOBAL &&
	    !strcmp(f->dtype->u.global->module, "torch"))
		t->dtype = ckpt_dtype_find(f->dtype->u.global->name);
	if (!ckpt_fill_is_wide(t->dtype))
		return refuse(f, err, "its dtype is not float32, float16 or bfloat16");
	snprintf(f->g->scheme, sizeof(f->g->scheme), "FP8 (%s) of Transformer Engine, for %s",
		 f->g->weight.item == CKPT_DTYPE_FLOAT8_E4M3FN ? "e4m3" : "e5m2",
		 ckpt_dtype_name(t->dtype));
	t->kind = CKPT_KIND_WRAPPER;
	t->storage = -1;
	t->class_name = "Float8Tensor";
	t->shape = f->g->shape;
	t->ndim = f->g->ndim;
	return 0;
}

static int add_float8(struct ckpt_quant *q, const struct ckpt_walk_step *step,
		      struct ckpt_error *err)
{
	const struct ckpt_model *model = q->model;
	const struct ckpt_value *v = step->value;
	struct ckpt_tensor *t = ckpt_arena_calloc(q->arena, 1, sizeof(*t));
	struct ckpt_quant_group *g = t ? ckpt_quant_new_group(q, err) : NULL;
	uint32_t count = ckpt_plain_arg_count(model, v), index;
	struct float8 f = { g,
			    ckpt_plain_arg(model, v, 0),
			    ckpt_plain_arg(model, v, 1),
			    ckpt_plain_arg(model, v, 2),
			    ckpt_plain_arg(model, v, 3),
			    ckpt_plain_arg(model, v, 4) };
	int rc;

	if (!g)
		return t ? CKPT_E_NOMEM : ckpt_arena_fail(q->arena, err);
	t->value = v;
	t->dtype = CKPT_DTYPE_UNKNOWN;
	t->name = ckpt_arena_copy(q->arena, step->name, step->name_len);
	if (!t->name)
		return ckpt_arena_fail(q->arena, err);
	g->whole = t;
	g->base = g->key = g->name = t->name;
	if ((count != OF_1 && count != OF_2) || v->u.call->kind != CKPT_CALL_REDUCE ||
	    v->u.call->state)
		return refuse(&f, err, "it is not made as versions 1 and 2 make it");
	rc = fill(&f, err);
	if (rc == 0)
		rc = read_whole(&f, t, err);
	if (rc == 0 && ckpt_model_tensor_of(model, f.data, &index, NULL) == 0)
		g->listed = model->tensors[index].name;
	q->has_engine = true;
	return rc;
}

/* ---- all of them ---- */

static int visit(void *ctx, const struct ckpt_walk_step *step, struct ckpt_error *err)
{
	struct ckpt_quant *q = ctx;
	const struct ckpt_global *class;
	const struct ckpt_value *func;
	char shown[200], name[160];
	int rc;

	if (step->value->kind != CKPT_CALL)
		return CKPT_WALK_ENTER;
	func = ckpt_model_now(q->model, step->value->u.call->func);
	if (makes_float8(q->model, func)) {
		/* what is not entered is not seen */
		rc = step->seen ? 0 : add_float8(q, step, err);
		return rc < 0 ? rc : CKPT_WALK_ENTER;
	}
	class = ckpt_plain_engine_class(q->model, func);
	if (!class)
		class = ckpt_quant_class(q->model, step->value);
	if (!class || !ckpt_plain_is_of_engine(class))
		return CKPT_WALK_ENTER;
	return ckpt_fail(err, CKPT_E_UNSUPPORTED,
			 "'%s' is made by %s of Transformer Engine, which ckpt does not know",
			 ckpt_escape(shown, sizeof(shown), step->name, step->name_len),
			 ckpt_escape(name, sizeof(name), class->name, strlen(class->name)));
}

int ckpt_quant_add_engine(struct ckpt_quant *q, struct ckpt_error *err)
{
	q->has_engine = false;
	return q->model->doc->pickle_len ? ckpt_model_walk(q->model, visit, q, err) : 0;
}
