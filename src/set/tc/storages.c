/* SPDX-License-Identifier: Apache-2.0 */
#include "set/tc/tc.h"

#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

/*
 * Every value that can be reached, keys of dicts and all, for whatever is written has to have its
 * storage.
 */
struct reached {
	struct ckpt_model *to;
	uint8_t *seen;			/* malloc: bitmap by id */
	const struct ckpt_value **todo; /* malloc */
	struct ckpt_value **persids;	/* malloc: those that were found */
	uint32_t todo_count, todo_cap, persid_count, persid_cap;
	uint32_t *numbers; /* malloc: by storage, its new number plus 1 */
	uint32_t kept;
	bool failed; /* no memory */
};

static void push_value(struct reached *r, const struct ckpt_value *v)
{
	uint8_t bit, *byte;
	void *grown;

	if (!v)
		return;
	v = ckpt_model_now(r->to, v);
	bit = (uint8_t)(1 << (v->id & 7));
	byte = &r->seen[v->id >> 3];
	if (v->id && *byte & bit)
		return;
	*byte |= bit;
	grown = ckpt_grow(r->todo, r->todo_count, &r->todo_cap, sizeof(*r->todo));
	if (!grown) {
		r->failed = true;
		return;
	}
	r->todo = grown;
	r->todo[r->todo_count++] = v;
}

static void push_items(struct reached *r, const struct ckpt_seq *seq)
{
	for (uint32_t i = 0; i < seq->count && !r->failed; i++)
		push_value(r, seq->items[i]);
}

static void visit_value(struct reached *r, const struct ckpt_value *v)
{
	void *grown;

	if (v->kind == CKPT_PERSID) {
		grown = ckpt_grow(r->persids, r->persid_count, &r->persid_cap, sizeof(*r->persids));
		if (!grown) {
			r->failed = true;
			return;
		}
		r->persids = grown; /* made by the decoder for nobody else, or by us */
		r->persids[r->persid_count++] = (struct ckpt_value *)v;
	} else if (v->kind == CKPT_CALL) {
		push_value(r, v->u.call->func);
		push_value(r, v->u.call->args);
		push_value(r, v->u.call->kwargs);
		push_value(r, v->u.call->state);
		push_value(r, v->u.call->setter);
		push_items(r, &v->u.call->items);
		push_items(r, &v->u.call->pairs);
	} else if (v->kind >= CKPT_TUPLE && v->kind <= CKPT_DICT) {
		push_items(r, &v->u.seq);
	}
}

static int keep_reached(struct reached *r, struct ckpt_error *err)
{
	struct ckpt_model *to = r->to;
	struct ckpt_storage *kept = malloc((to->storage_count + (size_t)1) * sizeof(*kept));

	r->numbers = calloc(to->storage_count + (size_t)1, sizeof(*r->numbers));
	if (!kept || !r->numbers) {
		free(kept);
		return ckpt_fail_nomem(err);
	}
	for (uint32_t i = 0; i < r->persid_count; i++) {
		int64_t storage = ckpt_storage_of(r->persids[i]);

		if (storage < 0)
			continue;
		if (!r->numbers[storage]) {
			kept[r->kept] = to->storages[storage];
			r->numbers[storage] = ++r->kept;
		}
		r->persids[i]->u.persid.meaning = r->numbers[storage];
	}
	free(to->storages);
	to->storages = kept;
	to->storage_cap = to->storage_count + 1;
	to->storage_count = r->kept;
	return 0;
}

int ckpt_tc_drop_storages(struct ckpt_model *to, struct ckpt_error *err)
{
	struct reached r = { .to = to };
	int rc;

	r.seen = calloc((size_t)to->next_id / 8 + 1, 1);
	if (!r.seen)
		return ckpt_fail_nomem(err);
	push_value(&r, to->root);
	while (r.todo_count && !r.failed)
		visit_value(&r, r.todo[--r.todo_count]);
	rc = r.failed ? ckpt_fail_nomem(err) : keep_reached(&r, err);
	free(r.seen);
	free(r.todo);
	free(r.persids);
	free(r.numbers);
	return rc;
}
