/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that torch itself quantized (torch.quantize_per_tensor() and its like): one object says all, integers, scales and
 * zero points, so that neither names nor a configuration are asked. Their numbers are those of <ckpt/read.h> (src/array/quantized.c):
 * what dequantize() gives, in float32, rounded to what is wanted.
 *
 * What must stay true: a tensor is listed once, however many names it has.
 */
#include "quant/group.h"

#include "array/array.h"
#include "base/grow.h"
#include "tensor/shape.h"

#include <stdio.h>
#include <string.h>

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

static int add_tensor(struct ckpt_quant *q, const struct ckpt_tensor *t, struct ckpt_error *err)
{
	struct ckpt_quant_group *g = ckpt_quant_new_group(q, err);
	struct ckpt_quant_entry *e = ckpt_arena_calloc(q->arena, 1, sizeof(*e));
	struct ckpt_array *array;
	int rc;

	if (!g || !e)
		return ckpt_fail_nomem(err);
	e->t = t;
	e->group = g;
	g->parts[CKPT_PART_ITEMS].entry = e;
	g->parts[CKPT_PART_ITEMS].suffix = "";
	g->is_tensor = true;
	g->base = g->key = g->name = t->name;
	g->ndim = t->ndim;
	memcpy(g->shape, t->shape, t->ndim * sizeof(*t->shape));
	rc = open_array(q, t, &array, err);
	if (rc < 0)
		return rc;
	snprintf(g->scheme, sizeof(g->scheme), "%s of torch, a scale for %s",
		 ckpt_dtype_name(t->dtype),
		 array->qscheme && !strncmp(array->qscheme, "per_channel", 11) ? "a channel"
									       : "a tensor");
	return ckpt_array_recipe(array, q->arena, &g->numbers, err);
}

int ckpt_quant_add_tensors(struct ckpt_quant *q, struct ckpt_error *err)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < q->model->tensor_count; i++) {
		const struct ckpt_tensor *t = &q->model->tensors[i];
		uint32_t first = i;

		if (t->kind != CKPT_KIND_QUANTIZED || t->storage < 0 || !t->name)
			continue;
		rc = ckpt_model_tensor_of(q->model, t->value, &first, err);
		if (rc == 0 && first == i)
			rc = add_tensor(q, t, err);
	}
	return rc;
}
