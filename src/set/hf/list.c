/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the tensors that a shard set will hold, with what each counts when they are dealt out to
 * files. The hub library counts a tensor as its whole storage, once for all tensors in it, and
 * takes all storages without bytes for one: their addresses are the same. Source:
 * get_torch_storage_id() and get_torch_storage_size() in huggingface_hub/serialization/_torch.py,
 * of 2.4.
 *
 * Which file a tensor goes to must be the hub library's choice (pack.c), so what is counted has
 * to be exactly what the library counts, even where it counts too much. `tensors` and `items`
 * have the same numbers.
 */
#include "set/hf/out.h"

#include "base/grow.h"
#include "base/text.h"
#include "set/hf/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 120, SCRATCH_BUDGET = 1 << 24, NONE = UINT32_MAX };

struct hf_lister {
	struct ckpt_hf_out *out;
	uint32_t *first;	    /* malloc: by storage, the first tensor in it */
	struct ckpt_strmap nothing; /* by device, the first tensor in a storage without bytes */
	struct ckpt_arena *scratch;
	char refused[2 * SHOWN]; /* the first entry that is no tensor, and why */
	struct ckpt_error *err;
};

static int add_tensor(struct hf_lister *c, const struct ckpt_hf_tensor *tensor, uint64_t nbytes,
		      uint32_t first)
{
	struct ckpt_hf_out *out = c->out;
	uint32_t cap = out->cap;
	void *tensors = ckpt_grow(out->tensors, out->count, &out->cap, sizeof(*out->tensors));
	void *items = tensors ? ckpt_grow(out->items, out->count, &cap, sizeof(*out->items)) : NULL;

	if (tensors)
		out->tensors = tensors;
	if (items)
		out->items = items;
	if (!items)
		return ckpt_fail_nomem(c->err);
	out->tensors[out->count] = *tensor;
	out->items[out->count] =
		(struct ckpt_hf_item){ nbytes, first == NONE ? out->count : first };
	out->count++;
	return 0;
}

/* A tensor whose bytes are those of a storage, which it may share. */
static int add_stored(struct hf_lister *c, const struct ckpt_hf_tensor *tensor, int64_t storage)
{
	const struct ckpt_storage *s = &c->out->model->storages[storage];
	uint32_t first = c->first[storage];
	uint64_t *slot;
	bool there;

	if (!s->nbytes) {
		slot = ckpt_strmap_insert(&c->nothing, s->location, strlen(s->location),
					  c->out->count, &there);
		if (!slot)
			return ckpt_fail_nomem(c->err);
		return add_tensor(c, tensor, 0, (uint32_t)*slot);
	}
	if (first == NONE)
		c->first[storage] = c->out->count;
	return add_tensor(c, tensor, s->nbytes, first);
}

/* As many as 64 bits can say. */
static uint64_t count_elements(const struct ckpt_tensor *t)
{
	uint64_t count = 1;

	for (uint32_t i = 0; i < t->ndim; i++)
		if (__builtin_mul_overflow(count, t->shape[i], &count))
			return UINT64_MAX;
	return count;
}

/* ---- safetensors ---- */

/* As Tensor.is_contiguous(). */
static bool is_contiguous(const struct ckpt_tensor *t)
{
	uint64_t step = 1;

	for (uint32_t i = t->ndim; i-- > 0; step *= t->shape[i])
		if (t->shape[i] != 1 && t->stride[i] != step)
			return false;
	return true;
}

/* What is made contiguous first, or is no strided tensor, gets bytes of its own. */
static bool keeps_storage(const struct ckpt_hf_out *out, const struct ckpt_safetensors_item *item)
{
	const struct ckpt_tensor *t = &item->t;

	return out->o->shared != CKPT_SHARED_CLONE && t->kind == CKPT_KIND_STRIDED &&
	       t->storage >= 0 && !t->is_conj && !t->is_neg && (!item->nbytes || is_contiguous(t));
}

static int list_safetensors(struct hf_lister *c)
{
	struct ckpt_hf_out *out = c->out;
	int rc = ckpt_safetensors_list_make(out->model, out->o, &out->list, c->err);

	out->others = out->list.others;
	for (uint32_t i = 0; rc == 0 && i < out->list.count; i++) {
		struct ckpt_safetensors_item *item = &out->list.items[i];
		struct ckpt_hf_tensor tensor = { .name = item->name,
						 .len = item->name_len,
						 .item = item,
						 .elements = count_elements(&item->t) };

		if (item->same)
			continue; /* the index says which one it is */
		rc = keeps_storage(out, item) ? add_stored(c, &tensor, item->t.storage)
					      : add_tensor(c, &tensor, item->nbytes, NONE);
	}
	return rc;
}

/* ---- pickles ---- */

/* An error later on, when all are known, if they are not to be left out. */
static int note_unfit(struct hf_lister *c, const struct ckpt_value *key, const char *why)
{
	bool is_text = key->kind == CKPT_STR;
	char shown[SHOWN];

	ckpt_escape(shown, sizeof(shown), is_text ? key->u.bytes.ptr : "",
		    is_text ? key->u.bytes.len : 0);
	if (!c->out->others++)
		snprintf(c->refused, sizeof(c->refused), "'%s' %s", shown, why);
	if (c->out->o->unfit)
		c->out->o->unfit(c->out->o->unfit_ctx, shown, why);
	return 0;
}

static int list_entry(struct hf_lister *c, const struct ckpt_value *key,
		      const struct ckpt_value *value)
{
	struct ckpt_hf_tensor tensor = { .key = key, .value = value };
	struct ckpt_tensor t;
	int rc = ckpt_tensor_parse(c->out->model, value, c->scratch, &t, c->err);

	if (rc < 0)
		return rc;
	if (key->kind != CKPT_STR || !ckpt_utf8_ok(key->u.bytes.ptr, key->u.bytes.len))
		return note_unfit(c, key, "is no name of a tensor, wanted a str");
	if (rc == 0)
		return note_unfit(c, key, "is no tensor");
	if (t.storage < 0)
		return note_unfit(c, key, "is a tensor without a storage of its own");
	tensor.name = key->u.bytes.ptr;
	tensor.len = key->u.bytes.len;
	tensor.elements = count_elements(&t);
	return add_stored(c, &tensor, t.storage);
}

static int list_pickles(struct hf_lister *c)
{
	const struct ckpt_model *m = c->out->model;
	const struct ckpt_seq *pairs = ckpt_value_pairs(ckpt_model_now(m, m->root));
	int rc = 0;

	if (!pairs)
		return ckpt_fail(c->err, CKPT_E_UNSUPPORTED,
				 "is no dict of tensors, which alone can be dealt out to files");
	for (uint32_t i = 0; rc == 0 && i + 1 < pairs->count; i += 2) {
		struct ckpt_arena_mark mark = ckpt_arena_mark(c->scratch);

		rc = list_entry(c, ckpt_model_now(m, pairs->items[i]),
				ckpt_model_now(m, pairs->items[i + 1]));
		ckpt_arena_release(c->scratch, mark);
	}
	if (rc < 0 || !c->out->others || c->out->o->flags & CKPT_SAVE_DROP_OTHERS)
		return rc;
	return ckpt_fail(c->err, CKPT_E_UNSUPPORTED, "%s%s", c->refused,
			 c->out->others > 1 ? ", and others cannot be written either" : "");
}

/* ---- the whole ---- */

uint64_t ckpt_hf_out_elements(const struct ckpt_hf_out *out, bool *as_input)
{
	const struct ckpt_hf *hf = out->model->doc->format == &ckpt_format_hf ? ckpt_hf_of(out->model) : NULL;
	uint64_t sum = 0, before = 0;
	bool fine = true, known = hf != NULL;

	for (uint32_t i = 0; i < out->count; i++)
		fine = !__builtin_add_overflow(sum, out->tensors[i].elements, &sum) && fine;
	for (uint32_t i = 0; known && i < hf->index.file_count; i++) {
		const struct ckpt_model *shard = hf->shards[i];

		known = shard && ckpt_model_has_tensors(shard);
		for (uint64_t k = 0; known && k < shard->tensor_count; k++)
			known = !__builtin_add_overflow(before, count_elements(&shard->tensors[k]), &before);
	}
	*as_input = known && fine && before == sum;
	return fine ? sum : UINT64_MAX;
}

int ckpt_hf_out_list(struct ckpt_hf_out *out, struct ckpt_error *err)
{
	struct hf_lister c = { .out = out,
			       .first = malloc((out->model->storage_count + (size_t)1) *
					       sizeof(*c.first)),
			       .scratch = ckpt_arena_new(SCRATCH_BUDGET),
			       .err = err };
	int rc = c.first && c.scratch ? 0 : ckpt_fail_nomem(err);

	for (uint32_t i = 0; c.first && i < out->model->storage_count; i++)
		c.first[i] = NONE;
	if (rc == 0)
		rc = out->safetensors ? list_safetensors(&c) : list_pickles(&c);
	if (rc == 0 && !out->count)
		rc = ckpt_fail(err, CKPT_E_UNSUPPORTED, "holds no tensor");
	free(c.first);
	ckpt_strmap_clear(&c.nothing);
	ckpt_arena_free(c.scratch);
	return rc;
}
