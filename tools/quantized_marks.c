/* SPDX-License-Identifier: Apache-2.0 */
#include "quantized_marks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of 8 bits and fewer, or words of them, in a matrix; or a tensor that is no plain one. */
static bool may_be_quantized(const struct ckpt_model *model)
{
	static const char *const dtypes[] = { "int32", "int8", "uint8" };

	for (uint64_t i = 0; i < ckpt_tensor_count(model); i++) {
		struct ckpt_tensor_info t = CKPT_TENSOR_INFO_INIT;

		if (ckpt_tensor_get(model, i, &t) < 0)
			continue;
		if (!strcmp(t.layout, "quantized") || !strcmp(t.layout, "wrapper") ||
		    !strncmp(t.dtype, "float8", 6) || !strncmp(t.dtype, "float4", 6))
			return true;
		for (size_t k = 0; t.ndim > 1 && k < sizeof(dtypes) / sizeof(dtypes[0]); k++)
			if (!strcmp(t.dtype, dtypes[k]))
				return true;
	}
	return false;
}

static int by_items(const void *a, const void *b)
{
	const struct ckpt_quant_weight_info *x = a, *y = b;

	return strcmp(x->items, y->items);
}

void find_quantized(struct quantized_marks *m, const struct ckpt_model *model)
{
	struct ckpt_error err = CKPT_ERROR_INIT;
	uint64_t count;

	*m = (struct quantized_marks){ 0 };
	if (!may_be_quantized(model) || ckpt_quant_open(model, NULL, &m->quant, &err) < 0) {
		m->quant = NULL;
		return;
	}
	count = ckpt_quant_count(m->quant);
	m->weights = calloc((size_t)count + 1, sizeof(*m->weights));
	for (uint64_t i = 0; m->weights && i < count; i++) {
		m->weights[i] = (struct ckpt_quant_weight_info)CKPT_QUANT_WEIGHT_INFO_INIT;
		if (ckpt_quant_get(m->quant, i, &m->weights[i]) == 0)
			m->count++;
	}
	if (m->count)
		qsort(m->weights, m->count, sizeof(*m->weights), by_items);
}

void clear_quantized(struct quantized_marks *m)
{
	free(m->weights);
	ckpt_quant_close(m->quant);
	*m = (struct quantized_marks){ 0 };
}

const struct ckpt_quant_weight_info *quantized_at(const struct quantized_marks *m, const char *name)
{
	struct ckpt_quant_weight_info key = { .items = name };

	return m->count ? bsearch(&key, m->weights, m->count, sizeof(key), by_items) : NULL;
}
