/* SPDX-License-Identifier: Apache-2.0 */
#include "set/hf/pack.h"

#include <stdbool.h>
#include <stdlib.h>

enum { NONE = UINT32_MAX };

struct packer {
	const struct ckpt_hf_item *items;
	uint32_t count;
	uint64_t limit;
	uint32_t *shard; /* malloc: by item */
	uint32_t *next;	 /* malloc: by item, the next one in its storage */
	uint32_t *last;	 /* malloc: by the first item of a storage, the last one so far */
	struct ckpt_hf_packing *out;
};

void ckpt_hf_packing_clear(struct ckpt_hf_packing *p)
{
	free(p->order);
	free(p->starts);
	*p = (struct ckpt_hf_packing){ 0 };
}

static void chain_item(struct packer *p, uint32_t item, uint32_t first)
{
	p->next[p->last[first]] = item;
	p->last[first] = item;
}

/*
 * A shard that is being filled gets its number when it is full: larger tensors have overtaken it.
 */
static void close_shard(struct packer *p, uint32_t from, uint32_t to, uint32_t *number)
{
	for (uint32_t i = from; i < to; i++)
		if (p->shard[i] == NONE && p->items[i].first == i)
			p->shard[i] = *number;
	++*number;
}

static int assign_shards(struct packer *p, struct ckpt_error *err)
{
	uint32_t from = 0, shards = 0;
	uint64_t filled = 0;
	bool any = false;

	for (uint32_t i = 0; i < p->count; i++) {
		const struct ckpt_hf_item *item = &p->items[i];

		p->shard[i] = p->next[i] = NONE;
		p->last[i] = i;
		if (item->first != i) {
			chain_item(p, i, item->first);
			continue;
		}
		if (__builtin_add_overflow(p->out->nbytes, item->nbytes, &p->out->nbytes))
			return ckpt_fail(err, CKPT_E_LIMIT,
					 "the tensors have more bytes than can be counted");
		if (item->nbytes > p->limit) {
			p->shard[i] = shards++;
			continue;
		}
		if (item->nbytes > p->limit - filled) {
			close_shard(p, from, i, &shards);
			from = i;
			filled = 0;
		}
		filled += item->nbytes;
		any = true;
	}
	if (any)
		close_shard(p, from, p->count, &shards);
	p->out->shard_count = shards;
	return 0;
}

/*
 * Count, sum up, and put in place: those that are the first of a storage, then what follows them.
 */
static void order_items(struct packer *p)
{
	uint64_t *starts = p->out->starts;

	for (uint32_t i = 0; i < p->count; i++)
		starts[p->shard[p->items[i].first] + 2]++;
	for (uint32_t s = 2; s < p->out->shard_count + 2; s++)
		starts[s] += starts[s - 1];
	for (uint32_t i = 0; i < p->count; i++)
		if (p->items[i].first == i)
			p->out->order[starts[p->shard[i] + 1]++] = i;
	for (uint32_t i = 0; i < p->count; i++)
		for (uint32_t k = p->items[i].first == i ? p->next[i] : NONE; k != NONE;
		     k = p->next[k])
			p->out->order[starts[p->shard[i] + 1]++] = k;
}

int ckpt_hf_pack(const struct ckpt_hf_item *items, uint32_t count, uint64_t limit,
		 struct ckpt_hf_packing *out, struct ckpt_error *err)
{
	size_t room = (count + (size_t)1) * sizeof(uint32_t);
	struct packer p = { .items = items,
			    .count = count,
			    .limit = limit,
			    .shard = malloc(room),
			    .next = malloc(room),
			    .last = malloc(room),
			    .out = out };
	int rc;

	*out = (struct ckpt_hf_packing){ .order = malloc(room) };
	if (!p.shard || !p.next || !p.last || !out->order)
		rc = ckpt_fail_nomem(err);
	else
		rc = assign_shards(&p, err);
	if (rc == 0) {
		out->starts = calloc(out->shard_count + (size_t)2, sizeof(*out->starts));
		if (out->starts)
			order_items(&p);
		else
			rc = ckpt_fail_nomem(err);
	}
	free(p.shard);
	free(p.next);
	free(p.last);
	return rc;
}
