/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the values of a header's entries: what torch.save would write for such tensors. */
#include "format/safetensors.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Why torch cannot hold T; NULL: it can. */
static const char *why_not(const struct ckpt_safetensors_tensor *t)
{
	uint64_t step = 1;

	if (ckpt_safetensors_dtype_torch(t->dtype) == CKPT_DTYPE_UNKNOWN)
		return "of a dtype that torch does not have";
	if (t->ndim > CKPT_MOST_DIMS)
		return "of more dimensions than torch allows";
	if (t->dtype == CKPT_SAFETENSORS_F4 && (!t->ndim || t->shape[t->ndim - 1] % 2))
		return "with a last dimension that is not a number of pairs, as torch has them";
	for (uint32_t i = t->ndim; i-- > 0;)
		if (__builtin_mul_overflow(step, t->shape[i] ? t->shape[i] : 1, &step) ||
		    step > INT64_MAX)
			return "whose strides are more than can be counted";
	return NULL;
}

static const struct ckpt_value *missing(struct ckpt_maker *maker,
					const struct ckpt_safetensors_tensor *t, const char *why)
{
	char name[160], text[400];

	snprintf(text, sizeof(text), "'%s' is a tensor (%s) %s",
		 ckpt_escape(name, sizeof(name), t->name, t->name_len),
		 ckpt_safetensors_dtype_name(t->dtype), why);
	return ckpt_maker_missing(maker, text);
}

const struct ckpt_value *ckpt_safetensors_view(struct ckpt_maker *maker,
					       const struct ckpt_safetensors_tensor *t,
					       const struct ckpt_value *storage)
{
	uint64_t shape[CKPT_MOST_DIMS];
	struct ckpt_maker_view view = { .dtype = ckpt_safetensors_dtype_torch(t->dtype),
					.ndim = t->ndim,
					.shape = shape };

	memcpy(shape, t->shape, t->ndim * sizeof(*shape));
	if (t->dtype == CKPT_SAFETENSORS_F4)
		shape[t->ndim - 1] /= 2;
	return ckpt_maker_tensor(maker, storage, &view);
}

const struct ckpt_value *ckpt_safetensors_value(struct ckpt_maker *maker,
						const struct ckpt_safetensors_tensor *t,
						const char *key, const struct ckpt_value **storage)
{
	enum ckpt_dtype dtype = ckpt_safetensors_dtype_torch(t->dtype);
	const char *why = why_not(t);

	*storage = NULL;
	if (why)
		return missing(maker, t, why);
	*storage = ckpt_maker_storage(maker, dtype, key, NULL,
				      (t->end - t->begin) / ckpt_dtype_size(dtype));
	return *storage ? ckpt_safetensors_view(maker, t, *storage) : NULL;
}

uint64_t ckpt_safetensors_budget(uint64_t json_len)
{
	static const uint64_t base = 64 << 20;

	/*
	 * a size of a tensor with as many as torch allows takes two bytes there, and about
	 * eighty here
	 */
	return base + 96 * json_len;
}

int64_t ckpt_safetensors_alias(const struct ckpt_safetensors_pair *pair,
			       const struct ckpt_strmap *names)
{
	const uint64_t *slot;

	/* every file has this one, and a tensor may have the name of a framework */
	if (pair->key_len == 6 && !memcmp(pair->key, "format", 6))
		return -1;
	if (ckpt_strmap_find(names, pair->key, pair->key_len))
		return -1;
	slot = ckpt_strmap_find(names, pair->value, pair->value_len);
	return slot ? (int64_t)*slot : -1;
}
